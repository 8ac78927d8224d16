"""Landlock: the kernel refuses this process every file except those below given paths, TCP, and foreign signals.

It needs no privilege and cannot be undone. See `man 7 landlock`; the bits below are those of linux/landlock.h.
"""

import ctypes
import os
import stat
from collections.abc import Iterable

from lecturelib.grading.sandbox.worker import kernel

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FILE_BITS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_DIRECTORY_ONLY = ~(_EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | 1 << 15)
_BIND_AND_CONNECT_TCP, _ABSTRACT_SOCKETS_AND_SIGNALS = 0b11, 0b11


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _BelowPath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """The kernel's Landlock version; 0 when it has none."""
    return max(0, kernel.libc.syscall(ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(1)))


def prepare(read: Iterable[str], list_only: Iterable[str], write: Iterable[str]) -> int:
    """A descriptor of rules: read below `read`, see names below `list_only`, read and write below `write`, and no more.

    Made while the paths can still be opened. Paths that do not exist are passed over.
    """
    abi = version()
    every = _FILE_BITS_BY_ABI[min(abi, 5)]
    rules = _Ruleset(every, _BIND_AND_CONNECT_TCP if abi >= 4 else 0, _ABSTRACT_SOCKETS_AND_SIGNALS if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = kernel.syscall(_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0))
    for paths, bits in ((read, _READ_FILE | _READ_DIR), (list_only, _READ_DIR), (write, every & ~_EXECUTE)):
        for path in paths:
            _allow(ruleset, path, bits)
    return ruleset


def restrict(ruleset: int) -> None:
    """Put the rules in force for this process and whatever it starts, for good."""
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.syscall(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, bits: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            bits &= ~_DIRECTORY_ONLY
        rule = _BelowPath(bits, descriptor)
        kernel.syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(descriptor)
