"""Attacks that want to know: tests, references, other submissions, the environment, other processes' memory."""

from pathlib import Path

import pytest

import lecturelib
from lecturelib.grading.notebook import NotebookError, read_notebook

READ = """
import os, sys
found = []
def look(path):
    try:
        with open(path, "rb") as f:
            found.append((path, f.read(1 << 20)))
    except (OSError, ValueError):
        pass
"""


def test_files_of_the_grader_do_not_exist_inside(attack, rubric_file):
    result = attack(
        READ
        + f"""
folder = os.path.dirname("RUBRIC_FILE")
for name in ("rubric.py", "solution.ipynb", "other_student.ipynb", "../submission.ipynb"):
    look(os.path.join(folder, name))
for top in (folder, "/root", "/home", "/work", "/var", "/run", "/srv", "/mnt", "/opt", "/boot", {str(Path.cwd())!r}):
    for where, folders, files in os.walk(top):
        if where.startswith((sys.base_prefix, sys.prefix)):  # Python itself, which may live below the working directory
            folders.clear()
        else:
            for name in files:
                look(os.path.join(where, name))
for path in ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/hosts", "/etc/ssh/ssh_config"):
    look(path)
print("READ", len(found), [p for p, _ in found])
print(b"".join(b for _, b in found))
"""
    )
    assert "READ 0 []" in result.reason


def test_lecturelib_is_not_on_disk_inside(attack):
    package = str(Path(lecturelib.__file__).parent)
    result = attack(
        READ
        + f"""
import importlib.util, site
for top in [{package!r}] + [os.path.join(p, "lecturelib") for p in site.getsitepackages()]:
    for where, _, files in os.walk(top):
        for name in files:
            look(os.path.join(where, name))
import lecturelib.layers.attention, lecturelib.grading.rubric.rubric
print("FOUND", sorted(os.path.relpath(p, {package!r}) for p, _ in found))
print("FILE", getattr(lecturelib, "__file__", None), lecturelib.layers.attention.dot_product_attention(1))
"""
    )
    assert "FOUND []" in result.reason  # Landlock hides even the worker's own files
    assert "FILE None" in result.reason


def test_environment_and_proc_tell_nothing(attack):
    result = attack(
        READ
        + """
print("ENV", sorted(os.environ))
for process in [*map(str, range(1, 300)), "self", "thread-self"]:
    for name in ("environ", "cmdline", "maps", "mem", "stat", "status", "root/etc/passwd", "cwd", "exe", "fd/3"):
        look(f"/proc/{process}/{name}")
for name in ("/proc/mounts", "/proc/kcore", "/proc/kmsg", "/proc/sys/kernel/hostname", "/sys/kernel/notes"):
    look(name)
for path, content in found:
    print("OPENED", path, content[:2000])
print("NODE", os.uname().nodename)
"""
    )
    assert "GRADER_SECRET" not in result.reason
    assert "OPENED" not in result.reason
    assert "NODE sandbox" in result.reason
    assert "PYTEST" not in result.reason


def test_frames_and_garbage_collector_hold_no_secret(attack):
    """The canary is put together at run time, so that the attack does not find itself."""
    result = attack(
        """
import gc, sys
gc.unfreeze()
def canary():
    return "-".join(["canary", "7f3a9e51"])
def search():
    hits, frame = 0, sys._getframe()
    while frame:
        hits += canary() in repr(frame.f_locals) + repr(frame.f_code.co_consts)
        frame = frame.f_back
    for thing in gc.get_objects():
        if type(thing) in (dict, list, tuple, set):
            for item in (thing.values() if type(thing) is dict else thing):
                hits += type(item) is str and canary() in item
        elif type(thing).__name__ in ("Rubric", "GraderTest", "Mistake", "References"):
            hits += 1
    secret = ("pytest", "conftest", "lecturelib.grading.sandbox.callbacks")
    names = [n for n in sys.modules if "rubric" in n or n in secret]
    return hits, names
print("HITS", search())
def attention(q, k, v):
    raise ValueError(f"HITS {search()}")
""",
        reason=r"HITS \(0, \[\]\)",
    )
    assert "HITS (0, [])" in result.reason


def test_memory_of_other_processes_cannot_be_read(attack):
    attack(
        """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
read = []
for process in range(1, 60):
    if process == os.getpid():
        continue
    if libc.ptrace(16, process, 0, 0) != -1:
        read.append(("ptrace", process))
    try:
        open(f"/proc/{process}/mem", "rb")
        read.append(("mem", process))
    except OSError:
        pass
assert not read, read
"""
    )


def test_other_submission_is_neither_seen_nor_signalled(box, attack, write_notebook, honest):
    """Two submissions open at once, the first with a secret in memory and on its scratch disk."""
    other = write_notebook(
        [*honest, "secret = 'canary-7f3a9e51'\nopen('mine.txt', 'w').write(secret)\ndef ok():\n    return secret"],
        "other.ipynb",
    )
    with box.open(other) as submission:
        assert submission.ok() == "canary-7f3a9e51"
        from lecturelib.grading.notebook import Notebook

        spy = """
import os
def spy():
    for p in range(1, 2000):
        if p != os.getpid() and p != os.getppid():
            try:
                os.kill(p, 9)
            except OSError:
                pass
    return os.listdir("."), os.listdir("/dev/shm"), os.getuid()
"""
        with box.open(Notebook(cells=((1, spy),))) as spying:
            assert spying.spy()[:2] == ([], [])
        assert submission.ok() == "canary-7f3a9e51"


def test_links_made_inside_lead_nowhere(attack):
    attack(
        "import os\nos.symlink('RUBRIC_FILE', 'link')\nos.symlink('/proc/1/root', 'root')\nprint(open('link').read())",
        reason="FileNotFoundError",
    )


def test_link_in_place_of_a_notebook_is_not_followed(tmp_path, rubric_file):
    link = tmp_path / "submission.ipynb"
    link.symlink_to(rubric_file)
    with pytest.raises(NotebookError, match="symbolic link"):
        read_notebook(link)
