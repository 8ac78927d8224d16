"""What one submission's processes may touch and use. Each measure stands on its own; together they are the fence."""

import os
import resource
import tempfile
from dataclasses import dataclass
from typing import Any

from lecturelib.grading.sandbox.worker import kernel, landlock, root, seccomp

LINUX = os.uname().sysname == "Linux"


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
    """

    namespaces: bool
    user_namespace: bool
    own_user: bool
    landlock: bool
    read: tuple[str, ...]
    list_only: tuple[str, ...]
    write: tuple[str, ...]
    system_calls: bool


def build(namespaces: bool, user_namespace: bool, unfenced: bool) -> Fence:
    """The fence for this machine; called once, by the zygote, in its final root. `unfenced` leaves it at limits."""
    read: list[str]
    list_only: list[str] = []
    if namespaces:
        read, write = root.visible(), [root.SCRATCH, "/dev/shm", "/dev/null"]
    else:
        (read, list_only), write = root.visible_without_lecturelib(), ["/dev/null"]
    return Fence(
        namespaces=namespaces,
        user_namespace=user_namespace,
        own_user=os.geteuid() == 0 and not user_namespace and not unfenced and root.open_to_all(),
        landlock=LINUX and not unfenced and landlock.version() > 0,
        read=tuple(read),
        list_only=tuple(list_only),
        write=tuple(write),
        system_calls=LINUX and not unfenced and seccomp.supported(),
    )


def separate(fence: Fence, scratch_mb: int) -> None:
    """Process 1 of a submission's new process namespace: its own mounts, scratch directory and /proc."""
    if not fence.namespaces:
        return
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
    options = f"size={scratch_mb}m,nr_inodes=4096,mode=1777"
    kernel.mount("scratch", root.SCRATCH, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC, options)
    kernel.mount(root.SCRATCH, "/dev/shm", None, kernel.MS_BIND)
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    if fence.user_namespace:  # a namespace of its own, so that processes are counted apart
        kernel.unshare(kernel.CLONE_NEWUSER)
        root.become_nobody(65534, 65534)


def confine(fence: Fence, user: int, limits: dict[str, Any]) -> None:
    """Shut this process in, and all it will start: user, privileges, limits, files, system calls. For good."""
    rules = landlock.prepare(fence.read, fence.list_only, fence.write) if fence.landlock else None
    if fence.own_user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if LINUX:
        kernel.drop_capabilities()
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # nobody reads its memory, not even by the same user
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    os.umask(0o077)
    os.chdir(root.SCRATCH if fence.namespaces else "/" if LINUX else tempfile.gettempdir())
    _limit(fence, limits)
    if rules is not None:
        landlock.restrict(rules)
    if fence.system_calls:
        seccomp.install()


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
