"""Seccomp: system calls that student code has no use for fail with "Operation not permitted".

The list below is of refusals, not of permissions, because Python, numpy and torch on tomorrow's libc must go on working
for an honest student; files, processes and the network are already fenced by Landlock and namespaces. Calls newer than
the list are refused as unknown, so that a kernel upgrade opens nothing.
"""

import ctypes
import errno
import os
import signal
import struct

from lecturelib.grading.sandbox.worker import kernel

# name: number on x86_64, number on aarch64 (None where the architecture does not have it)
REFUSED: dict[str, tuple[int, int | None]] = {
    # the network (socketpair stays: it reaches nobody new)
    "socket": (41, 198), "connect": (42, 203), "accept": (43, 202), "accept4": (288, 242), "bind": (49, 200),
    "listen": (50, 201),
    # other programs, and other processes' memory and descriptors
    "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "kcmp": (312, 272), "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "mknod": (133, None), "mknodat": (259, 33),
    # memory that no limit counts, and places to leave a note in
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "io_setup": (206, 0), "shmget": (29, 194),
    "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191),
    "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "mq_open": (240, 180), "mq_unlink": (241, 181), "mq_timedsend": (242, 182), "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184), "mq_getsetattr": (245, 185),
    # signals and priorities of others: of its own a process has no need either, and a filter cannot tell whose they are
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "ioprio_set": (251, 30),
    # ways out of the group in which all its processes are ended at once, or to go on when they are stopped
    "setpgid": (109, 154), "setsid": (112, 157), "timer_create": (222, 107),
    # wide doors into the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "fanotify_init": (300, 262), "inotify_init": (253, None), "inotify_init1": (294, 26),
    "modify_ldt": (154, None), "personality": (135, 92), "move_pages": (279, 239), "migrate_pages": (256, 238),
    "mbind": (237, 235), "set_mempolicy": (238, 237), "seccomp": (317, 277),
    # the machine itself
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "quotactl": (179, 60), "syslog": (103, 116), "sethostname": (170, 161), "setdomainname": (171, 162),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "vhangup": (153, 58), "iopl": (172, None), "ioperm": (173, None), "sync": (162, 81), "syncfs": (306, 267),
    "quotactl_fd": (443, 443), "statmount": (457, 457), "listmount": (458, 458),
}  # fmt: skip
# What Landlock lets pass: modes, owners, times and attributes of any file by its path and, on kernels before 6.2, its
# length. Refused where the files around a submission are not in a root of its own, which is read-only: they may be its
# user's, and the times of what everybody may write to are a place to leave a note in.
OF_FILES: dict[str, tuple[int, int | None]] = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "truncate": (76, 45),
}  # fmt: skip
# Calls that are refused for some of their arguments: numbers as above, the argument's place, its values, and whether
# those are the ones refused or the only ones that are not. All these arguments are 32 bits wide.
BY_ARGUMENT: tuple[tuple[str, tuple[int, int], int, tuple[int, ...], bool], ...] = (
    # limits and scheduling: of oneself, which is number 0, and of nobody else
    ("prlimit64", (302, 261), 0, (0,), False),
    ("sched_setparam", (142, 118), 0, (0,), False),
    ("sched_setscheduler", (144, 119), 0, (0,), False),
    ("sched_setattr", (314, 274), 0, (0,), False),
    ("sched_setaffinity", (203, 122), 0, (0,), False),
    ("setpriority", (141, 140), 0, (0,), False),  # of a process, not of a group or a user,
    ("setpriority", (141, 140), 1, (0,), False),  # and of this one
    # locks of parts of a file, which nothing counts (a lock of a whole file needs an open one, and those are counted);
    # signals by way of a file; larger pipes
    ("fcntl", (72, 25), 1, (6, 7, 8, 10, 15, 37, 38, 1024, 1026, 1031), True),
    ("ioctl", (16, 29), 1, (0x5452, 0x8901, 0x8902), True),
    # what becomes of a process when its parent ends, who sees its memory, filters of its own
    ("prctl", (157, 167), 0, (1, 4, 22, 36), True),
)
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_MMAP = {"x86_64": 9, "aarch64": 222}
_SHARED = 0x01  # memory that no limit counts or, with a file, that a call could leave a note in
_CLONE3 = 435  # its flags are behind a pointer, which a filter cannot follow; libc falls back to clone
_NEWEST_KNOWN = 462
_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* flag that clone takes
# A process may not tell its parent of its end by a signal that would let it go on when it is stopped, nor start another
# for its parent, which could hear of that one's end.
_FOR_ITS_PARENT, _END_SIGNAL = 0x8000, 0xFF
_X32 = 0x40000000  # the x32 twins of the x86_64 calls

_LOAD, _EQUAL, _AT_LEAST, _GREATER, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x25, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _FOURTH_ARGUMENT = 0, 4, 16, 40  # offsets in struct seccomp_data
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000


def supported() -> bool:
    """Whether the filter below is written for this machine."""
    return os.uname().sysname == "Linux" and kernel.MACHINE in ARCHITECTURES


def program(machine: str, *, files: bool = False) -> bytes:
    """The filter in classic BPF: eight bytes an instruction (code, jump if true, jump if false, operand).

    With `files` the calls of `OF_FILES` are refused too.
    """
    column = list(ARCHITECTURES).index(machine)
    refused = REFUSED | (OF_FILES if files else {})
    numbers = sorted(number for pair in refused.values() if (number := pair[column]) is not None)
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    unknown = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    steps: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
        (_GREATER, 0, 1, _NEWEST_KNOWN),
        unknown,
        (_EQUAL, 0, 1, _CLONE3),
        unknown,
    ]
    for number in numbers:
        steps += [(_EQUAL, 0, 1, number), refuse]
    for _, pair, place, values, are_refused in BY_ARGUMENT:
        after = range(len(values) - 1, -1, -1)  # how many values come after each
        if are_refused:
            tests = [(_EQUAL, left, 0 if left else 1, value) for left, value in zip(after, values, strict=True)]
        else:
            tests = [(_EQUAL, left + 1, 0, value) for left, value in zip(after, values, strict=True)]
        load = (_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * place)
        steps += [(_EQUAL, 0, len(tests) + 3, pair[column]), load, *tests, refuse, (_LOAD, 0, 0, _NUMBER)]
    steps += [
        (_EQUAL, 0, 7, _CLONE[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 3, 0, _NEW_NAMESPACES | _FOR_ITS_PARENT),
        (_AND, 0, 0, _END_SIGNAL),
        (_EQUAL, 2, 0, 0),
        (_EQUAL, 1, 0, signal.SIGCHLD),
        refuse,
        (_LOAD, 0, 0, _NUMBER),
        (_EQUAL, 0, 3, _MMAP[machine]),
        (_LOAD, 0, 0, _FOURTH_ARGUMENT),
        (_ANY_BIT, 0, 1, _SHARED),
        refuse,
    ]
    steps += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def install(code: bytes | None = None, *, files: bool = False) -> None:
    """Put the filter, or another one in BPF, on this process and whatever it starts, for good."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    code = program(kernel.MACHINE, files=files) if code is None else code
    buffer = ctypes.create_string_buffer(code, len(code))
    filled = Program(len(code) // 8, ctypes.addressof(buffer))
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_SECCOMP, 2, ctypes.addressof(filled))
