"""What one submission's processes may touch and use. Each measure stands on its own; together they are the fence."""

import os
import resource
import secrets
import signal
import tempfile
from dataclasses import dataclass
from typing import Any

from lecturelib.grading.sandbox.worker import kernel, landlock, root, seccomp
from lecturelib.grading.sandbox.worker.kernel import LINUX
from lecturelib.grading.sandbox.worker.scratch import MOST_FILES, Scratch


@dataclass(frozen=True, kw_only=True)
class Fence:
    """The measures that this machine allows, found out once by the zygote.

    Args:
        namespaces: own mounts, processes, network, for the zygote and again for each submission
        user_namespace: whether those came by way of a user namespace, which then is where privileges end
        own_user: whether each submission can have a user id of its own
        landlock: whether Landlock's rules are put in force
        read, list_only, write: those rules
        system_calls: whether the seccomp filter is installed
        home: where scratch directories are made, if not in a root of their own
    """

    namespaces: bool
    user_namespace: bool
    own_user: bool
    landlock: bool
    read: tuple[str, ...]
    list_only: tuple[str, ...]
    write: tuple[str, ...]
    system_calls: bool
    home: str


def build(namespaces: bool, user_namespace: bool, unfenced: bool, home: str) -> Fence:
    """The fence for this machine; called once, by the zygote, in its final root. `unfenced` leaves files open."""
    read: list[str]
    list_only: list[str] = []
    if namespaces:
        read, list_only, write = root.visible(), ["/dev/shm"], ["/dev/null"]
    else:
        (read, list_only), write = root.visible_without_a_root(), ["/dev/null"]
    return Fence(
        namespaces=namespaces,
        user_namespace=user_namespace,
        own_user=os.geteuid() == 0 and not user_namespace and not unfenced and root.open_to_all(),
        landlock=LINUX and not unfenced and landlock.version() > 0,
        read=tuple(read),
        list_only=tuple(list_only),
        write=tuple(write),
        system_calls=LINUX and seccomp.supported(),
        home=home,
    )


def separate(fence: Fence, user: int, scratch_mb: int) -> Scratch:
    """Process 1 of a submission: its own scratch directory; and in a new process namespace its own mounts and /proc."""
    owner = user if fence.own_user else None
    if not fence.namespaces:
        path = os.path.join(os.path.realpath(fence.home), secrets.token_hex(8))
        os.mkdir(path, 0o700)
        if owner is not None:
            os.chown(path, owner, owner)
        return Scratch(path, scratch_mb, own_disk=False, user=owner)
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
    options = f"size={scratch_mb}m,nr_inodes={MOST_FILES},mode=1777"
    kernel.mount("scratch", root.SCRATCH, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC, options)
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    if fence.user_namespace:  # a namespace of its own, so that processes are counted apart
        kernel.unshare(kernel.CLONE_NEWUSER)
        root.become_nobody(65534, 65534)
    return Scratch(root.SCRATCH, scratch_mb, own_disk=True, user=owner)


def confine(fence: Fence, user: int, limits: dict[str, Any], scratch: str) -> None:
    """Shut this process in, and all it will start: user, privileges, limits, files, system calls. For good."""
    write = (*fence.write, scratch)
    rules = landlock.prepare(fence.read, fence.list_only, write) if fence.landlock else None
    if fence.own_user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if LINUX:
        kernel.drop_capabilities()
        # nobody reads its memory, not even by the same user; in a user namespace process 1 could not see either what
        # it holds open, and there Landlock and the filter keep everybody else away
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1 if fence.user_namespace and fence.landlock else 0)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    os.umask(0o077)
    os.chdir(scratch)
    os.environ.update(dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR"), scratch))
    tempfile.tempdir = None  # found again when it is asked for
    _limit(fence, limits)
    if rules is not None:
        landlock.restrict(rules)
    if fence.system_calls:
        seccomp.install(files=not fence.namespaces)


def _limit(fence: Fence, limits: dict[str, Any]) -> None:
    megabyte = 1 << 20
    seconds = int(limits["total_seconds"]) + 1
    wanted = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: limits["file_mb"] * megabyte,
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_CORE: 0,
    }
    if fence.own_user or fence.user_namespace:  # else it would count the instructor's own processes too
        wanted[resource.RLIMIT_NPROC] = limits["processes"]
    if LINUX:
        with open("/proc/self/statm") as stream:
            now = int(stream.read().split()[0]) * resource.getpagesize()
        wanted[resource.RLIMIT_AS] = now + limits["memory_mb"] * megabyte
        wanted[resource.RLIMIT_MEMLOCK] = 0
        wanted[resource.RLIMIT_MSGQUEUE] = 0
        wanted[resource.RLIMIT_SIGPENDING] = limits["processes"]
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
