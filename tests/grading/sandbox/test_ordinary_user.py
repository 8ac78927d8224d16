"""An instructor need not be root: a user namespace then takes root's place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lecturelib

ROOT = Path(lecturelib.__file__).parent.parent
# As root, with mounts of its own in which every user can reach Python and lecturelib; then as nobody
AS_NOBODY = """
import os, sys
from pathlib import Path
from lecturelib.grading.sandbox.worker import kernel
needed = [Path(path).resolve() for path in (sys.base_prefix, sys.prefix, sys.argv[1])]
closed = sorted({above for path in needed for above in path.parents if not above.stat().st_mode & 0o001})
kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
opened = {path: os.open(path, os.O_PATH) for path in needed}
for folder in closed:
    if folder.exists():  # not if one above it has been covered
        kernel.mount("open", str(folder), "tmpfs", 0, "mode=755")
for path, descriptor in opened.items():
    path.mkdir(parents=True, exist_ok=True)
    kernel.mount(f"/proc/self/fd/{descriptor}", str(path), None, kernel.MS_BIND | kernel.MS_REC)
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
os.execv(sys.executable, [sys.executable, "-c", sys.argv[2]])
"""
GRADER = """
import os
from lecturelib.grading.notebook import Notebook
from lecturelib.grading.sandbox.sandbox import Sandbox
from lecturelib.grading.sandbox.worker import kernel
if os.fork() == 0:
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET)
    if os.fork() == 0:
        kernel.mount("proc", "/proc", "proc")  # refused in some containers, where all else is allowed
        os._exit(0)
    os._exit(os.wait()[1] != 0)
may = os.wait()[1] == 0
source = "import os\\nopen('kept', 'w').write('x')\\ndef inside():\\n    return os.getuid(), os.listdir('.')"
with Sandbox(imports=()) as box, box.open(Notebook(cells=((1, source),))) as submission:
    print(may, box.tier, submission.inside() if box.tier == "full" else "")
"""


def may_mount() -> bool:
    with open("/proc/self/status") as stream:
        (capabilities,) = (line.split()[1] for line in stream if line.startswith("CapEff:"))
    return os.geteuid() == 0 and bool(int(capabilities, 16) >> 21 & 1)


@pytest.mark.skipif(not may_mount(), reason="only root can become an ordinary user, and who is one has run the others")
def test_ordinary_user_grades_in_a_user_namespace():
    asked = [sys.executable, "-c", AS_NOBODY, str(ROOT), GRADER]
    done = subprocess.run(asked, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    said = done.stdout.strip()
    assert said in ("True full (65534, ['kept'])", "False reduced")  # whether ordinary users may make namespaces here


# Without namespaces nobody but process 1 can count for an ordinary user, because the kernel counts all that user has
FORKS = """
from lecturelib.grading.notebook import Notebook
from lecturelib.grading.sandbox.limits import Limits
from lecturelib.grading.sandbox.sandbox import Sandbox
source = "import os, time\\nfor _ in range(60):\\n    if os.fork() == 0:\\n        time.sleep(60)\\n        os._exit(0)"
honest = "open('kept', 'w').write('x')\\ndef ok():\\n    return open('kept').read()"
with Sandbox(Limits(processes=24), tier="reduced", imports=()) as box:
    with box.open(Notebook(cells=((1, source),))) as submission:
        print(box.tier, submission.notes)
    with box.open(Notebook(cells=((1, honest),))) as submission:
        print(submission.ok(), submission.notes)
"""


# Landlock says nothing about these, and without namespaces the files around a submission are its own user's
FILES = """
import os, tempfile
from lecturelib.grading.notebook import Notebook
from lecturelib.grading.sandbox.sandbox import Sandbox
mine = tempfile.NamedTemporaryFile("w+")
mine.write("grades")
mine.flush()
os.utime(mine.name, (1, 1))
before = os.stat(mine.name)
changes = ["chmod(path, 0)", "utime(path, (5, 5))", "truncate(path, 0)", "chown(path, -1, os.getgid())"]
changes += ["setxattr(path, 'user.note', b'1')", "fchmod(os.open(torch.__file__, os.O_RDONLY), 0o644)"]
source = "import os, torch\\ndef change(path, what):\\n    eval('os.' + what)"
with Sandbox(tier="reduced", imports=()) as box, box.open(Notebook(cells=((1, source),))) as submission:
    print(box.tier)
    for change in changes:
        try:
            submission.change(mine.name, change)
            print("changed by", change)
        except Exception as error:
            print(error)
after = os.stat(mine.name)
print(before.st_mode == after.st_mode, before.st_mtime == after.st_mtime, mine.read() or open(mine.name).read())
"""


@pytest.mark.skipif(not may_mount(), reason="only root can become an ordinary user, and who is one has run the others")
def test_submission_of_an_ordinary_user_changes_nothing_of_theirs():
    asked = [sys.executable, "-c", AS_NOBODY, str(ROOT), FILES]
    done = subprocess.run(asked, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    tier, *said, left = done.stdout.splitlines()
    assert tier == "reduced"
    assert left == "True True grades"
    assert [line for line in said if "Operation not permitted" not in line and "torch.__file__" not in line] == []


@pytest.mark.skipif(not may_mount(), reason="only root can become an ordinary user, and who is one has run the others")
def test_ordinary_user_without_namespaces_counts_processes_and_keeps_files():
    asked = [sys.executable, "-c", AS_NOBODY, str(ROOT), FORKS]
    done = subprocess.run(asked, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("reduced ")
    assert "processes and threads at one time, more than the 24 allowed" in first
    assert second == "x ()"
