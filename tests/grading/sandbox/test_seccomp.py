"""The seccomp filter, run by a small interpreter of classic BPF, on both architectures."""

import errno
import struct

import pytest

from lecturelib.grading.sandbox.worker import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSE, UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}


def verdict(
    machine: str,
    number: int,
    argument: int = 0,
    architecture: int | None = None,
    fourth: int = 0,
    second: int = 0,
    files: bool = False,
) -> int:
    """What the filter returns for one system call."""
    code = seccomp.program(machine, files=files)
    steps = [struct.unpack("HBBI", code[i : i + 8]) for i in range(0, len(code), 8)]
    data = {0: number, 4: architecture or seccomp.ARCHITECTURES[machine], 16: argument, 24: second, 40: fourth}
    at = loaded = 0
    while True:
        kind, yes, no, operand = steps[at]
        at += 1
        if kind == 0x06:
            return operand
        if kind in (0x20, 0x54):
            loaded = data[operand] if kind == 0x20 else loaded & operand
            continue
        holds = {
            0x15: loaded == operand,
            0x25: loaded > operand,
            0x35: loaded >= operand,
            0x45: bool(loaded & operand),
        }[kind]
        at += yes if holds else no


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_listed_calls_are_refused_and_everyday_ones_are_not(machine):
    column = list(seccomp.ARCHITECTURES).index(machine)
    for name, numbers in seccomp.REFUSED.items():
        if numbers[column] is not None:
            assert verdict(machine, numbers[column]) == REFUSE, name
    everyday = {
        "x86_64": [0, 1, 9, 11, 12, 39, 56, 57, 61, 202, 231, 257],
        "aarch64": [63, 64, 222, 215, 214, 172, 220, 260, 98, 94, 56],
    }
    assert {verdict(machine, number, 17) for number in everyday[machine]} == {ALLOW}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_changes_of_files_are_refused_where_the_files_are_the_users_own(machine):
    column = list(seccomp.ARCHITECTURES).index(machine)
    for name, numbers in seccomp.OF_FILES.items():
        if numbers[column] is not None:
            assert verdict(machine, numbers[column], files=True) == REFUSE, name
            assert verdict(machine, numbers[column]) == ALLOW, name
    assert {verdict(machine, number, files=True) for number in ([0, 1, 77, 87] if column == 0 else [63, 64, 46])} == {
        ALLOW
    }


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_new_namespaces_foreign_architectures_and_newer_calls_are_stopped(machine):
    clone = {"x86_64": 56, "aarch64": 220}[machine]
    for flag in (0x10000000, 0x20000000, 0x40000000, 0x00020000, 0x08000000, 0x04000000, 0x02000000):
        assert verdict(machine, clone, flag | 17) == REFUSE
    assert verdict(machine, clone, 0x003D0F00) == ALLOW  # a thread, as libc makes it
    for flags in (18, 10, 0x8000 | 17, 0x8000):  # its end told by SIGCONT or SIGUSR1; started for its parent
        assert verdict(machine, clone, flags) == REFUSE
    assert verdict(machine, clone, 0x01200000 | 17) == ALLOW  # a process, as libc makes it
    assert verdict(machine, 435) == UNKNOWN
    assert verdict(machine, 5000) == UNKNOWN
    assert verdict(machine, 1, architecture=seccomp.ARCHITECTURES[OTHER[machine]]) == KILL
    assert verdict(machine, 0x40000000 | 59) == KILL


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_shared_memory_is_refused(machine):
    shared, private, shared_validate, fixed, anonymous = 1, 2, 3, 0x10, 0x20
    mmap = {"x86_64": 9, "aarch64": 222}[machine]
    for kind in (shared, shared_validate, shared | fixed):
        assert verdict(machine, mmap, fourth=kind | anonymous) == REFUSE
        assert verdict(machine, mmap, fourth=kind) == REFUSE
    assert verdict(machine, mmap, fourth=private) == ALLOW
    assert verdict(machine, mmap, fourth=private | anonymous) == ALLOW
    assert verdict(machine, 1, fourth=shared | anonymous) == ALLOW


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_limits_and_priorities_are_a_process_s_own(machine):
    numbers = {name: pair[list(seccomp.ARCHITECTURES).index(machine)] for name, pair, *_ in seccomp.BY_ARGUMENT}
    for name in ("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setattr", "sched_setaffinity"):
        assert [verdict(machine, numbers[name], process) for process in (0, 1, 4711)] == [ALLOW, REFUSE, REFUSE], name
    for which, who, allowed in ((0, 0, ALLOW), (0, 7, REFUSE), (1, 0, REFUSE), (2, 0, REFUSE), (2, 1000, REFUSE)):
        assert verdict(machine, numbers["setpriority"], which, second=who) == allowed


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_locks_of_parts_signals_by_files_and_the_death_of_a_parent_are_not_to_be_had(machine):
    numbers = {name: pair[list(seccomp.ARCHITECTURES).index(machine)] for name, pair, *_ in seccomp.BY_ARGUMENT}
    for command in (6, 7, 37, 38, 8, 10, 15, 1024, 1026, 1031):
        assert verdict(machine, numbers["fcntl"], 3, second=command) == REFUSE
    for command in (0, 1, 2, 3, 4, 5, 1030, 1032):  # F_DUPFD, F_GETFD and so on
        assert verdict(machine, numbers["fcntl"], 3, second=command) == ALLOW
    assert [verdict(machine, numbers["ioctl"], 3, second=c) for c in (0x5401, 0x5421, 0x8901)] == [ALLOW, ALLOW, REFUSE]
    assert [verdict(machine, numbers["prctl"], option) for option in (1, 4, 15, 22, 36)] == [
        *(REFUSE, REFUSE, ALLOW, REFUSE, REFUSE)
    ]
