"""Attacks that want to break or outlast the grader. All are bounded, and harmless should the sandbox ever not hold."""

import re
import socket
import threading
import time
from dataclasses import replace
from textwrap import dedent

import pytest

from lecturelib.grading.notebook import Notebook
from lecturelib.grading.rubric.submission import CallCrashed, StudentError
from lecturelib.grading.sandbox.sandbox import Sandbox
from lecturelib.grading.sandbox.worker import processes

AT_TOP_LEVEL = {
    "sys.exit": ("import sys\nsys.exit(0)", 4, "raised SystemExit"),
    "exit": ("exit()", 4, "cell 5 raised"),
    "os._exit": ("import os\nos._exit(0)", 0, "ended itself with code 0"),
    "abort": ("import os\nos.abort()", 0, "killed by SIG(ABRT|SEGV|ILL)"),
    "segmentation fault": ("import ctypes\nctypes.string_at(0)", 0, "killed by SIGSEGV"),
    "infinite loop": ("while True:\n    pass", 4, "longer than 2 seconds and was interrupted"),
    "infinite loop that catches": (
        """
        while True:
            try:
                while True: pass
            except BaseException:
                pass
        """,
        None,
        "did not finish within 4 seconds|was interrupted",
    ),
    "ignored signals": (
        """
        import signal
        for s in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(s, signal.SIG_IGN)
        while True:
            pass
        """,
        0,
        "did not finish within 4 seconds",
    ),
    "killing process 1": (
        """
        import os
        for p in range(1, 50):
            if p != os.getpid():
                try:
                    os.kill(p, 9)
                except OSError:
                    pass
        """,
        4,
        "",
    ),
    "killing everybody": ("import os\nos.kill(-1, 9)", None, ""),
    "8 GB in one piece": (
        "import torch\nx = torch.zeros(8 << 30, dtype=torch.uint8)",
        4,
        "raised RuntimeError|MemoryError",
    ),
    "8 GB in small pieces": (
        "kept = []\nfor _ in range(800):\n    kept.append(bytearray(10 << 20))",
        None,
        "MemoryError|memory",
    ),
    "8 GB over several processes": (
        """
        import os, time
        for _ in range(8):
            if os.fork() == 0:
                x = b"x" * (300 << 20)
                time.sleep(60)
        while True:
            try:
                time.sleep(60)
            except BaseException:  # the interruption of a cell that takes too long
                pass
        """,
        0,
        "MB of memory, more than the 400 MB allowed",
    ),
    "memory that is shared": (  # which no limit of a process counts
        "import mmap\nkept = [mmap.mmap(-1, 50 << 20) for _ in range(4)]",
        4,
        "raised PermissionError",
    ),
    "memory for signals that wait": (  # which no limit of memory counts
        """
        import ctypes, os, signal
        libc = ctypes.CDLL(None)
        signal.pthread_sigmask(signal.SIG_BLOCK, {40})
        waiting = 0
        while waiting < 10_000 and libc.sigqueue(os.getpid(), 40, None) == 0:
            waiting += 1
        raise OSError(f"{waiting} signals")
        """,
        4,
        "raised OSError: [0-9]{1,3} signals",
    ),
    "raising the limits": (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)",
        4,
        "not allowed to raise",
    ),
    "the least of priorities": ("import os\nos.nice(19)\nos.sched_setscheduler(0, 5, os.sched_param(0))", 4, ""),
    "fork bomb": (
        """
        import os, time
        for _ in range(7):  # 128 processes, were there no limit
            try:
                os.fork()
            except OSError:
                time.sleep(0.2)
        """,
        None,
        "",
    ),
    "many processes": (
        "import os, time\nfor _ in range(200):\n    if os.fork() == 0:\n        time.sleep(20)\n        os._exit(0)",
        None,
        "raised BlockingIOError|MB of memory",
    ),
    "many threads": (
        """
        import threading
        for _ in range(500):
            threading.Thread(target=threading.Event().wait, args=(20,), daemon=True).start()
        """,
        None,
        "can't start new thread",
    ),
    "filling the disk": (
        """
        import os
        written = 0
        for folder in (".", "/tmp", "/dev/shm", "/", "/var/tmp"):
            for i in range(40):
                try:
                    with open(f"{folder}/{written}", "wb") as f:
                        written += f.write(bytes(1 << 20))
                except OSError:
                    break
        raise OSError(f"wrote {written >> 20} MB")
        """,
        4,
        "wrote (1[0-9]|[0-9]) MB",
    ),
    "one large file": (
        "with open('large', 'wb') as f:\n    for _ in range(64):\n        f.write(bytes(1 << 20))",
        4,
        "File too large|No space",
    ),
    "many files": ("for i in range(10_000):\n    open(f'f{i}', 'w').close()", 4, "No space left"),
    "many open files": ("kept = [open('/dev/null') for _ in range(1000)]", None, "Too many open files"),
    "200 MB printed": ("for _ in range(200):\n    print('x' * (1 << 20))", 4, ""),
    "200 MB written to descriptors": (
        """
        import os
        for _ in range(100):
            os.write(1, b"x" * (1 << 20))
            os.write(2, b"x" * (1 << 20))
        """,
        4,
        "",
    ),
    "a program": ("import subprocess\nsubprocess.run(['/bin/sh', '-c', 'id'])", 4, "PermissionError"),
    "a very long message": ("raise ValueError('x' * (50 << 20))", 4, "cell 5 raised ValueError"),
    "an exception whose text never ends": (
        "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
        4,
        "could not be read: TookTooLong",
    ),
    "an exception with a very long name": ("raise type('E' * (10 << 20), (Exception,), {})", 4, "cell 5 raised E"),
    "deep recursion": (
        "import sys\nsys.setrecursionlimit(10**9)\ndef f():\n    return f()\nf()",
        None,
        "SIGSEGV|Recursion|memory|did not finish",
    ),
}
IN_A_CALL = {
    "SystemExit": ("raise SystemExit(0)", "raised SystemExit"),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", "raised KeyboardInterrupt"),
    "os._exit": ("__import__('os')._exit(0)", "ended without an answer"),
    "infinite loop": ("while True: pass", "no answer within 2 seconds"),
    "sleep with every signal ignored": (
        "import signal, time\n    for s in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "        signal.signal(s, signal.SIG_IGN)\n    time.sleep(60)",
        "no answer within 2 seconds",
    ),
    "waiting for ever": ("__import__('threading').Event().wait()", "no answer within 2 seconds"),
    "killing the notebook's process": ("import os\n    os.kill(os.getppid(), 9)", "PermissionError"),
    "allocation": ("return torch.zeros(8 << 30, dtype=torch.uint8)", "raised RuntimeError"),
    "an answer of 100 MB": ("return torch.zeros(100 << 18)", "more than the 32 MB allowed|MB of memory"),
    "an endless generator": ("return (i for i in iter(int, 1))", ""),
    "segmentation fault": ("__import__('ctypes').string_at(0)", "ended without an answer"),
    "an exception whose text never ends": (
        "class E(Exception):\n        def __str__(self):\n            while True: pass\n    raise E",
        "no answer within 2 seconds",
    ),
    "an exception that cannot be made": ("raise type('E', (Exception,), {'__str__': lambda s: 1})", "raised E"),
}
ENDED_BY_THE_CLOCK = ("sleep with every signal ignored", "waiting for ever")


@pytest.mark.parametrize("name", AT_TOP_LEVEL)
def test_notebook_that_misbehaves_hurts_only_itself(attack, name):
    source, score, reason = AT_TOP_LEVEL[name]
    result = attack(dedent(source), score=score, reason=reason)
    assert len(result.reason) <= 20_000


@pytest.mark.parametrize("name", IN_A_CALL)
def test_call_that_misbehaves_costs_its_own_test(attack, name):
    body, reason = IN_A_CALL[name]
    attack(f"def attention(q, k, v):\n    {body}", reason=reason, sleeps=name in ENDED_BY_THE_CLOCK)


def test_network_is_out_of_reach(attack):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        port = server.getsockname()[1]
        attack(
            f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=2).send(b'x')", reason="Permission"
        )
        attack("import socket\nsocket.socket(socket.AF_UNIX).connect('/run/x.sock')", reason="PermissionError")
        with pytest.raises(TimeoutError):
            server.accept()


def test_background_processes_do_not_outlive_the_submission(attack):
    """Daemons by double fork, in new sessions, from the notebook and from a call; `attack` looks for what is left."""
    daemon = """
import contextlib, os, time
def daemon():
    if os.fork() == 0:
        with contextlib.suppress(OSError):
            os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)
"""
    attack(daemon + "daemon()")
    attack(daemon + "def attention(q, k, v):\n    daemon()\n    return v")


def test_background_process_of_a_call_is_gone_before_the_next_call(attack):
    source = """
    import os
    notebook = os.getpid()
    def attention(q, k, v):
        if os.fork() == 0:
            while True:
                os.getsid(notebook)
        return v
    def Affine(d_model):
        while (count := len([p for p in range(2, 1000) if alive(p)])) > 2:
            pass
        raise ValueError(f"{count} processes")
    def alive(p):
        try:
            os.getsid(p)
        except OSError:
            return False
        return True
    """
    attack(dedent(source), score=2, reason="raised ValueError: 2 processes")


KERNEL = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
both = dict(pidfd_open=434, io_uring_setup=425, clone3=435, newer_than_we_know=463)
numbers = {
    "x86_64": dict(ptrace=101, process_vm_readv=310, bpf=321, memfd_create=319, unshare=272, setns=308, mount=165,
                   chroot=161, keyctl=250, userfaultfd=323, **both),
    "aarch64": dict(ptrace=117, process_vm_readv=270, bpf=280, memfd_create=279, unshare=97, setns=268, mount=40,
                    chroot=51, keyctl=219, userfaultfd=282, **both),
}
opened = []
for name, number in numbers[os.uname().machine].items():
    ctypes.set_errno(0)
    result = libc.syscall(number, 16, os.getppid(), 0, 0, 0, 0)
    if result != -1 or ctypes.get_errno() not in (1, 38):
        opened.append((name, result, ctypes.get_errno()))
for name, flags in (("clone user", 0x10000000 | 17), ("clone pid", 0x20000000 | 17)):
    if libc.syscall({"x86_64": 56, "aarch64": 220}[os.uname().machine], flags, 0, 0, 0, 0) != -1:
        opened.append((name,))
for call in (lambda: os.setuid(0), lambda: os.chroot("/"), lambda: os.mknod("x", 0o60600, 0x800), lambda: os.nice(-5)):
    try:
        call()
        opened.append(call)
    except OSError:
        pass
assert not opened, opened
status = [os.getuid(), os.getgid(), os.getgroups()]
assert 0 not in status and not status[2], status
"""


def test_kernel_calls_are_refused(attack):
    result = attack(KERNEL)
    assert result.notes == ()


MANY = """
import os, time
def many(count=100):
    for _ in range(count):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    time.sleep(1)
    return count
def one():
    return 1
"""
TOO_MANY = "BlockingIOError|more than the 24 allowed"


@pytest.mark.parametrize("tier", ["full", "reduced", "minimal"])
def test_more_processes_than_allowed_are_refused_in_every_tier(tier, limits):
    """Also where the user of a submission is the grader's own, so that the kernel cannot count for it alone."""
    with Sandbox(replace(limits, processes=24), tier=tier, imports=()) as box:
        with box.open(Notebook(cells=((1, MANY + "many()"),))) as submission:
            assert re.search(TOO_MANY, "\n".join(submission.notes)), submission.notes
        with box.open(Notebook(cells=((1, MANY),))) as submission:
            with pytest.raises((CallCrashed, StudentError), match=TOO_MANY):
                submission.many()
            assert submission.many(3) == 3
            assert submission.one() == 1
        deadline = time.monotonic() + 60
        while len(processes.descendants(box._process.pid)) > (tier == "full"):  # the zygote is a child there
            assert time.monotonic() < deadline, "processes were left behind"
            threading.Event().wait(0.05)
