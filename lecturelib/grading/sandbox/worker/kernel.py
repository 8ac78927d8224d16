"""The Linux system calls that the standard library does not have, each as a function that raises `OSError`."""

import ctypes
import os
import platform
import struct
import sys

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
MNT_DETACH = 2
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 36, 38
PR_SET_SECCOMP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 22, 47, 4
_ATTR_READ_ONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_AT_FDCWD = -100
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR = 442
_CAPABILITY_VERSION_3, _LAST_CAPABILITY = 0x20080522, 63

MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
LINUX = sys.platform == "linux"
libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> int:
    """Raise the `OSError` of a call that failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int, *args: object) -> int:
    return check(libc.syscall(ctypes.c_long(number), *args), f"system call {number}")


def unshare(flags: int) -> None:
    check(libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    check(libc.setns(descriptor, kind), "setns")


def mount(source: str, target: str, kind: str | None, flags: int = 0, options: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, options)]
    check(libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), f"mount {target}")


def read_only(target: str, *, device: bool = False) -> None:
    """Make a mount read-only, without set-uid programs or, unless it is a `device` itself, devices."""
    bits = _ATTR_READ_ONLY | _ATTR_NOSUID | (0 if device else _ATTR_NODEV)
    attributes = struct.pack("QQQQ", bits, 0, 0, 0)
    flags, size = ctypes.c_uint(0), ctypes.c_size_t(len(attributes))
    syscall(_MOUNT_SETATTR, ctypes.c_int(_AT_FDCWD), target.encode(), flags, attributes, size)


def pivot_root(new_root: str) -> None:
    """Make `new_root` the root directory and let go of the old one."""
    os.chdir(new_root)
    syscall(_PIVOT_ROOT[MACHINE], b".", b".")
    check(libc.umount2(b".", MNT_DETACH), "umount old root")
    os.chdir("/")


def prctl(option: int, *args: int) -> int:
    padded = [ctypes.c_ulong(arg) for arg in (*args, 0, 0, 0, 0)[:4]]
    return check(libc.prctl(option, *padded), f"prctl {option}")


def drop_capabilities() -> None:
    """Give up every capability, for this process and whatever it starts."""
    for capability in range(_LAST_CAPABILITY + 1):
        if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break  # past the last one this kernel knows, or none to drop
    libc.prctl(PR_CAP_AMBIENT, ctypes.c_ulong(PR_CAP_AMBIENT_CLEAR_ALL), 0, 0, 0)
    header, nothing = struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24)
    check(libc.capset(header, nothing), "capset")
