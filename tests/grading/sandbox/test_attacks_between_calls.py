"""Notes that one call leaves for another: whatever they are written in, the other does not find them.

Each attack is a notebook with `leave(note)` and `find()`. It is tried with plain calls, which may know each other's
inputs only, and with calls that a reference is at hand for, whose answers no other test may ever learn.
"""

import contextlib
from collections.abc import Callable, Iterator
from textwrap import dedent

import pytest

from lecturelib.grading.notebook import Notebook
from lecturelib.grading.rubric.submission import Submission, SubmissionError
from lecturelib.grading.sandbox.limits import Limits
from lecturelib.grading.sandbox.sandbox import Sandbox

COMMON = "import ctypes, fcntl, mmap, os, resource, signal, socket, struct, sys, tempfile, threading, time\nkept = []\n"
WATCH = """
def watch():
    while True:
        try:
            kept.append(int(open("note").read()))
        except (OSError, ValueError):
            pass
"""
START = "threading.Thread(target=watch, daemon=True).start()"
STAY = """
if os.fork() == 0:
    while True:
        try:
            open("note", "w").write(str(note))
        except OSError:
            pass
"""
CHANNELS = {  # what the cells set up; how a note (a number below 200) is left; how it is found
    "a file": ("", "open('note', 'w').write(str(note))", "int(open('note').read())"),
    "a file in a new directory": (
        "",
        "os.makedirs('a/b'); open('a/b/note', 'w').write(str(note))",
        "int(open('a/b/note').read())",
    ),
    "the name of a directory": ("", "os.mkdir(str(note))", "int(os.listdir('.')[0])"),
    "a link": ("", "os.symlink(str(note), 'link')", "int(os.readlink('link'))"),
    "a temporary file": (
        "",
        "open(tempfile.gettempdir() + '/note', 'w').write(str(note))",
        "int(open(tempfile.gettempdir() + '/note').read())",
    ),
    "shared memory as a file": (
        "",
        "open('/dev/shm/note', 'w').write(str(note))",
        "int(open('/dev/shm/note').read())",
    ),
    "a file of the notebook's": (
        "open('own', 'w').write('0')",
        "open('own', 'w').write(str(note))",
        "int(open('own').read()) or None",
    ),
    "the mode of a file of the notebook's": (
        "open('own', 'w').close()",
        "os.chmod('own', 0o600 + note % 64)",
        "os.stat('own').st_mode & 0o77 or None",
    ),
    "an open file": ("f = open('own', 'w+b', 0)", "os.pwrite(f.fileno(), bytes([note]), 0)", "os.pread(3, 1, 0)[0]"),
    "an open file without a name": (
        "f = open('own', 'w+b', 0)\nos.unlink('own')",
        "os.pwrite(f.fileno(), bytes([note]), 0)",
        "os.pread(f.fileno(), 1, 0)[0]",
    ),
    "how far an open file was read": (
        "f = open('own', 'w+b', 0)\nf.write(bytes(300))\nf.seek(0)",
        "os.lseek(f.fileno(), note, 0)",
        "os.lseek(f.fileno(), 0, 1) or None",
    ),
    "a mapped file": (
        "f = open('own', 'w+b', 0)\nf.truncate(4096)\nm = mmap.mmap(f.fileno(), 4096)\nf.close()\nos.unlink('own')",
        "m[0] = note",
        "m[0] or None",
    ),
    "a mapped file that keeps its name": (
        "f = open('own', 'w+b', 0)\nf.truncate(4096)\nm = mmap.mmap(f.fileno(), 4096)",
        "m[0] = note",
        "m[0] or None",
    ),
    "a mapped file that nobody holds open": (
        "f = open('own', 'w+b', 0)\nf.truncate(4096)\nmapped = ctypes.CDLL(None).mmap\n"
        "mapped.restype = ctypes.c_size_t\nm = mapped(None, 4096, 3, 1, f.fileno(), 0)\nf.close()\n"
        "m = (ctypes.c_ubyte * 4096).from_address(m) if m < 1 << 63 else bytes(1)",
        "m[0] = note",
        "m[0] or None",
    ),
    "how far a file of Python's was read": (
        "f = open(os.__file__, 'rb', 0)",
        "os.lseek(f.fileno(), note, 0)",
        "os.lseek(f.fileno(), 0, 1) or None",
    ),
    "a pipe": (
        "r, w = os.pipe()\nos.set_blocking(r, False)",
        "os.write(w, bytes([note]))",
        "os.read(r, 1)[0]",
    ),
    "a pair of sockets": (
        "a, b = socket.socketpair()\nb.setblocking(False)",
        "a.send(bytes([note]))",
        "b.recv(1)[0]",
    ),
    "a descriptor on its way": (
        "a, b = socket.socketpair()\nb.setblocking(False)",
        "r, w = os.pipe(); os.write(w, bytes([note])); socket.send_fds(a, [b'x'], [r])",
        "os.read(socket.recv_fds(b, 1, 1)[1][0], 1)[0]",
    ),
    "an event counter": (
        "e = os.eventfd(0, os.EFD_NONBLOCK) if hasattr(os, 'eventfd') else None",
        "os.eventfd_write(e, note)",
        "os.eventfd_read(e)",
    ),
    "a lock": (
        "f = open('own', 'w')",
        "fcntl.flock(f, fcntl.LOCK_EX)",
        "fcntl.flock(open('own'), fcntl.LOCK_SH | fcntl.LOCK_NB)",
    ),
    "a thread that watches a file": (
        WATCH + START,
        "open('note', 'w').write(str(note)); time.sleep(0.1)",
        "kept[-1]",
    ),
    "a thread that every fork starts": (
        f"{WATCH}os.register_at_fork(after_in_parent=lambda: {START})",
        "open('note', 'w').write(str(note)); time.sleep(0.1)",
        "kept[-1]",
    ),
    "a process that does not fork": (
        "os.fork = lambda: 0\nos._exit = lambda code: None",
        "kept.append(note)",
        "kept[-1]",
    ),
    "a process that forks the wrong way round": (
        "fork = os.fork\nos.fork = lambda: 0 if fork() else 1",
        "kept.append(note)",
        "kept[-1]",
    ),
    "a process that stays": ("", STAY, "time.sleep(0.1) or int(open('note').read())"),
    "the environment": ("", "os.environ['NOTE'] = str(note)", "int(os.environ['NOTE'])"),
    "a module": ("", "sys.note = note", "sys.note"),
    "a default argument": ("def f(x=[]):\n    return x", "f().append(note)", "f()[-1]"),
    "a signal": (
        "signal.signal(signal.SIGUSR1, lambda *a: kept.append(1))",
        "os.kill(os.getppid(), signal.SIGUSR1)",
        "kept[-1]",
    ),
    "a signal with a value": (
        "signal.signal(40, lambda *a: kept.append(1))",
        "assert ctypes.CDLL(None).sigqueue(os.getppid(), 40, note) == 0",
        "kept[-1]",
    ),
    "a signal by way of a file": (
        "signal.signal(signal.SIGIO, lambda *a: kept.append(1))",
        "r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, os.getppid()); fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC); "
        "os.write(w, b'x')",
        "kept[-1]",
    ),
    "the priority of the notebook's process": (
        "",
        "os.setpriority(os.PRIO_PROCESS, os.getppid(), 7)",
        "os.getpriority(os.PRIO_PROCESS, os.getppid()) == 7 or None",
    ),
    "its limits": (
        "",
        "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (note, 128))",
        "[None, resource.getrlimit(resource.RLIMIT_NOFILE)[0]][resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 128]",
    ),
    "its processors": (
        "",
        "os.sched_setaffinity(os.getppid(), {0})",
        "[None, 1][len(os.sched_getaffinity(0)) == 1 < os.cpu_count()]",
    ),
    "its group": ("", "os.setpgid(os.getppid(), os.getpid())", "[None, 1][os.getpgid(os.getppid()) != os.getsid(0)]"),
    "shared memory of System V": (
        "libc = ctypes.CDLL(None)",
        "assert libc.shmget(77, 4096, 0o1666) >= 0",
        "[None, 1][libc.shmget(77, 0, 0) >= 0]",
    ),
    "semaphores of System V": (
        "libc = ctypes.CDLL(None)",
        "assert libc.semget(77, 1, 0o1666) >= 0",
        "[None, 1][libc.semget(77, 0, 0) >= 0]",
    ),
    "a message queue": (
        "libc = ctypes.CDLL(None)",
        "assert libc.msgget(77, 0o1666) >= 0 or libc.mq_open(b'/note', 66, 0o600, None) >= 0",
        "[None, 1][libc.msgget(77, 0) >= 0 or libc.mq_open(b'/note', 0) >= 0]",
    ),
    "the time of a device": (
        "def times():\n    return [os.stat(f'/dev/{one}').st_mtime_ns for one in ('null', 'random', 'urandom')]\n"
        "before = times()",
        "[os.utime(f'/dev/{one}') for one in ('null', 'random', 'urandom')]",
        "[None, 1][times() != before]",
    ),
    "the time of its directory": (
        "before = os.stat('.').st_mtime_ns",
        "open('x', 'w').close(); os.unlink('x')",
        "[None, 1][os.stat('.').st_mtime_ns != before]",
    ),
    "a working directory": (
        "os.mkdir('own')\nos.chdir('own')",
        "open('note', 'w').write(str(note))",
        "os.listdir()[0]",
    ),
}
NEVER_ANSWERS = ("a process that does not fork", "a process that forks the wrong way round")


@pytest.fixture(scope="module")
def low(limits: Limits) -> Iterator[Sandbox]:
    with Sandbox(limits, "reduced", imports=()) as low:
        yield low


def notebook(name: str) -> Notebook:
    setup, leave, find = (dedent(part) for part in CHANNELS[name])
    source = COMMON + setup + "\ndef leave(note):\n" + _indented(leave) + "\n    return 1\n"
    return Notebook(cells=((1, source), (2, f"def find():\n    return {find}\ndef ask(note):\n    leave(secret())")))


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.strip("\n").split("\n"))


@pytest.fixture
def opened(impatient) -> Callable[[Sandbox, str], contextlib.AbstractContextManager[Submission]]:
    """Open the notebook of a channel; nobody waits long for those that never answer."""

    @contextlib.contextmanager
    def opened(sandbox: Sandbox, name: str) -> Iterator[Submission]:
        waits = impatient(sandbox) if name in NEVER_ANSWERS else contextlib.nullcontext()
        with waits, sandbox.open(notebook(name)) as submission:
            yield submission

    return opened


def found(submission) -> object:
    try:
        return submission.find()
    except SubmissionError:
        return None


@pytest.mark.parametrize("tier", ["full", "reduced"])
@pytest.mark.parametrize("name", CHANNELS)
def test_note_of_a_call_is_not_found_by_another(box, low, opened, tier, name):
    with opened(box if tier == "full" else low, name) as submission:
        assert not any("SyntaxError" in note for note in submission.notes)
        for _ in range(2):
            with contextlib.suppress(SubmissionError):
                submission.leave(42)
        assert found(submission) is None


@pytest.mark.parametrize(
    "name", ["an open file", "a pipe", "a thread that watches a file", "a process that does not fork"]
)
def test_answer_of_a_reference_is_not_found_where_it_cannot_be_asked(box, low, opened, name):
    """Nothing that a call could be built to remember with crosses: the notebook's processes are others."""
    for sandbox in (box, low):
        with opened(sandbox, name) as submission:
            with contextlib.suppress(SubmissionError):
                submission.with_replacements({"secret": lambda: 42}).ask(0)
            assert found(submission) is None
            assert found(submission.with_replacements({"other": lambda: 1})) is None


def test_call_finds_what_the_notebook_left(box, low):
    source = """
import os
os.mkdir("d")
open("d/vocabulary", "w").write("a b")
def words():
    open("d/vocabulary", "a").write("c")
    return open("d/vocabulary").read()
"""
    for sandbox in (box, low):
        with sandbox.open(Notebook(cells=((1, source),))) as submission:
            assert [submission.words() for _ in range(3)] == ["a bc"] * 3


def test_notebook_with_threads_is_asked_without_them(box):
    source = """
import threading, torch
torch.set_num_threads(2)
torch.randn(300, 300) @ torch.randn(300, 300)
threading.Thread(target=threading.Event().wait, daemon=True).start()
n = 3
def threads():
    return threading.active_count(), n
"""
    with box.open(Notebook(cells=((1, source),))) as submission:
        assert [submission.threads() for _ in range(3)] == [(1, 3)] * 3
