"""Our grader against nbgrader and otter on the same torch submissions: `python benchmarks/grading.py`.

Each peer gets a virtual environment of its own, made when it is not there, which takes torch from this one. All graders
run two submissions at a time, and all must award the same points. Peers need seconds for each submission, so they get
fewer. `--quick` measures with as few as still say something; `--no-peers` measures ours alone.
"""

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measure import RESULTS, machine

from lecturelib.grading import load_rubric
from lecturelib.grading.check.checker import Checker
from lecturelib.grading.release.notebooks import load_notebook
from lecturelib.grading.rubric.answers import namespace_of
from lecturelib.grading.sandbox.worker import processes

ROOT = Path(__file__).resolve().parent.parent
PEERS = {"nbgrader": "nbgrader==0.9.6", "otter-grader": "otter-grader==7.0.0"}
WORKERS = 2
SETUP = "import math\nimport torch"
SOFTMAX = "def softmax(x):\n    return torch.softmax(x, -1)"
RIGHT = "def attention(q, k, v):\n    return softmax(q @ k.mT / math.sqrt(q.shape[-1])) @ v"
WRONG = "def attention(q, k, v):\n    return softmax(q @ k.mT) @ v"
CHECKS = {  # what the peers run inside the student's kernel; ours are the same, outside it
    "softmax": "x = torch.randn(3, 5)\nassert torch.allclose(softmax(x), torch.softmax(x, -1))",
    "attention": (
        "q, k, v = (torch.randn(2, n, 3) for n in (4, 5, 5))\n"
        "want = torch.nn.functional.scaled_dot_product_attention(q, k, v)\n"
        "assert torch.allclose(attention(q, k, v), want, atol=1e-5)"
    ),
}


def submissions(count: int) -> list[tuple[list[str], float]]:
    """The cells of each submission, every other one wrong, and its score."""
    return [([SETUP, SOFTMAX, (RIGHT, WRONG)[i % 2]], (2.0, 1.0)[i % 2]) for i in range(count)]


def write_notebook(path: Path, cells: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": cells}))


def code(source: str, name: str, **metadata: object) -> dict[str, object]:
    empty = {"cell_type": "code", "execution_count": None, "outputs": []}
    return {**empty, "id": name, "source": source, "metadata": metadata}


# ------------------------------------------------------------------------------------------------------------- ours


RUBRIC = """
import torch
from lecturelib.grading import Rubric, assert_close

rubric = Rubric("benchmark", title="Benchmark")
rubric.exercise("softmax", title="Softmax", minutes=1, difficulty=1)
rubric.exercise("attention", title="Attention", minutes=1, difficulty=1)

def softmax_matches(submission, rng):
    x = torch.randn(3, 5, generator=rng)
    assert_close(submission.softmax(x), torch.softmax(x, -1))

def attention_matches(submission, rng):
    q, k, v = (torch.randn(2, n, 3, generator=rng) for n in (4, 5, 5))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert_close(submission.attention(q, k, v), want, atol=1e-5)

for copy in range(COPIES):
    for exercise, function in (("softmax", softmax_matches), ("attention", attention_matches)):
        def test(submission, rng, function=function):
            function(submission, rng)
        test.__name__ = f"{function.__name__}_{copy}"
        rubric.test(exercise, points=1 / COPIES, visible=False)(test)
"""


def measure_ours(count: int, copies: int = 1) -> dict[str, object]:
    """`lecturelib grade` as an instructor runs it, reports and journal included; each test `copies` times."""
    with tempfile.TemporaryDirectory() as made:
        folder, out, scores = Path(made, "submissions"), Path(made, "out"), {}
        for i, (cells, score) in enumerate(submissions(count)):
            write_notebook(folder / f"s{i}.ipynb", [code(source, f"c{n}") for n, source in enumerate(cells)])
            scores[f"s{i}"] = score
        Path(made, "benchmark.py").write_text(RUBRIC.replace("COPIES", str(copies)))
        options = ["--rubrics", made, "--workers", str(WORKERS), "--seed", "1", "--require-tier", "reduced"]
        command = [sys.executable, "-m", "lecturelib.cli", "grade", str(folder), "--out", str(out), *options]
        begin = time.time()
        grader = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        arrived, memory = watch(grader, out / "journal.jsonl", count)
        said = grader.communicate()[1]
        seconds = time.time() - begin
        if grader.returncode:
            raise RuntimeError(f"our own grader failed:\n{said[-1500:]}")
        with open(out / "grades.csv", newline="") as file:
            found = {row["student"]: round(float(row["points"]), 6) for row in csv.DictReader(file)}
    assert found == scores, found
    halfway = next(one for one in arrived if one[1] >= count / 2)  # by then the slowest worker has started too
    return {
        "tier": said.partition("sandbox tier: ")[2].split()[0],
        "submissions": count,
        "seconds": seconds,
        "per_minute": 60 * count / seconds,
        "per_minute_once_started": 60 * (count - halfway[1]) / (arrived[-1][0] - halfway[0]),
        "first_result_after_seconds": arrived[0][0] - begin,
        "memory_per_worker_mb": memory,
    }


def watch(
    grader: "subprocess.Popen[str]", journal: Path, count: int
) -> tuple[list[tuple[float, int]], dict[str, float]]:
    """When how many results were there, and the most memory that a grading process and a zygote were seen to add."""
    arrived: list[tuple[float, int]] = []
    memory = {"grader": 0.0, "zygote": 0.0}
    while grader.poll() is None and (not arrived or arrived[-1][1] < count):
        done = journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0
        if done > (arrived[-1][1] if arrived else 0):
            if not arrived or done > count / 2 > arrived[-1][1]:
                for kind, process in workers_of(grader.pid):
                    memory[kind] = max(memory[kind], memory_mb(process))
            arrived.append((time.time(), done))
        time.sleep(0.02)
    return arrived, memory


def workers_of(grader: int) -> list[tuple[str, int]]:
    """The grading processes below the command's own, and their zygotes, told by how they were started."""
    found = []
    for process in processes.descendants(grader):
        try:
            line = Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            continue
        if b"spawn_main" in line:
            found.append(("grader", process))
        elif b"boot.py" in line:
            found.append(("zygote", process))
    return found


def memory_mb(process: int) -> float:
    """What a process adds to the machine's memory, shared pages in proportion; 0 for one that has just ended."""
    try:
        with open(f"/proc/{process}/smaps_rollup") as stream:
            return next(int(line.split()[1]) for line in stream if line.startswith("Pss:")) / 1024
    except OSError:
        return 0.0


def measure_check() -> dict[str, float]:
    """How long a student waits for `check("...")` in a kernel where torch is loaded: each exercise of set 08."""
    notebook = load_notebook(ROOT / "solutions" / "08_attention_layer.ipynb")
    namespace = namespace_of(*(cell.source for cell in notebook.cells if cell.cell_type == "code"))
    rubric = load_rubric(ROOT / "tests" / "exercises" / "graders" / "08_attention_layer.py")
    checker, seconds = Checker(rubric, namespace), []
    for name in rubric.exercises:
        begin = time.perf_counter()
        checker(name)
        seconds.append(time.perf_counter() - begin)
    return {"median_ms": 1e3 * statistics.median(seconds), "slowest_ms": 1e3 * max(seconds)}


# ------------------------------------------------------------------------------------------------------------ peers


def environment(folder: Path, package: str) -> Path:
    """The bin directory of the peer's virtual environment; made, and the peer installed, when it is not there."""
    home = folder / package
    if not (home / "installed").exists():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        subprocess.run([home / "bin" / "pip", "install", "--quiet", PEERS[package], "ipykernel"], check=True)
        (packages,) = (home / "lib").glob("python*/site-packages")
        (packages / "torch_from_outside.pth").write_text(sysconfig.get_path("purelib") + "\n")
        (home / "installed").touch()
    return (home / "bin").absolute()


def peer_environ(bin_folder: Path, home: Path) -> dict[str, str]:
    """Its own programs first, its own Jupyter, one thread each as ours."""
    own = {"JUPYTER_PREFER_ENV_PATH": "1", "OMP_NUM_THREADS": "1", "HOME": str(home), "PYTHONWARNINGS": "ignore"}
    return {**os.environ, **own, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}


def timed(count: int, jobs: list[list[str]], folders: list[Path], environ: dict[str, str]) -> dict[str, object]:
    """Run the commands, two at a time."""

    def one(command: list[str], folder: Path) -> None:
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}")

    begin = time.time()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(one, jobs, folders))
    seconds = time.time() - begin
    return {"submissions": count, "seconds": seconds, "per_minute": 60 * count / seconds}


def measure_nbgrader(count: int, bin_folder: Path) -> dict[str, object]:
    """Two courses side by side, each with half of the students, because nbgrader grades one after the other."""
    with tempfile.TemporaryDirectory() as made:
        courses = [Path(made) / f"course{i}" for i in range(WORKERS)]
        graded = {
            name: code(check, f"t-{name}", nbgrader={
                "grade": True, "grade_id": f"test-{name}", "points": 1, "locked": True, "solution": False,
                "schema_version": 3, "task": False, "cell_type": "code",
            })
            for name, check in CHECKS.items()
        }  # fmt: skip
        environ = peer_environ(bin_folder, Path(made))
        for number, course in enumerate(courses):
            mine = submissions(count)[number::WORKERS]
            write_notebook(course / "source/ps/ps.ipynb", [code(SETUP, "c0"), *graded.values()])
            for student, (cells, _) in enumerate(mine):
                answers = [code(source, f"c{n}") for n, source in enumerate(cells)]
                write_notebook(course / f"submitted/s{student}/ps/ps.ipynb", [*answers, *graded.values()])
            (course / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'c'\n")
            release = [str(bin_folder / "nbgrader"), "generate_assignment", "ps", "--force"]
            subprocess.run(release, cwd=course, env=environ, check=True, capture_output=True)
        command = [str(bin_folder / "nbgrader"), "autograde", "ps", "--force"]
        result = timed(count, [command] * WORKERS, courses, environ)
        found = []
        for course in courses:
            export = [str(bin_folder / "nbgrader"), "export", "--to", "grades.csv"]
            subprocess.run(export, cwd=course, env=environ, check=True, capture_output=True)
            lines = (course / "grades.csv").read_text().splitlines()
            column = lines[0].split(",").index("score")
            found += [float(line.split(",")[column]) for line in lines[1:]]
    assert sorted(found) == sorted(score for _, score in submissions(count)), found
    return result


def measure_otter(count: int, bin_folder: Path) -> dict[str, object]:
    """`otter run`, one process a submission, two at a time."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, check in CHECKS.items():
            lines = check.split("\n")
            doctest = "".join(f">>> {line}\n" for line in lines)
            case = {"code": doctest, "hidden": False, "locked": False}
            suite = {"cases": [case], "scored": True, "setup": "", "teardown": "", "type": "doctest"}
            test = {"name": name, "points": 1, "suites": [suite]}
            (folder / "tests").mkdir(exist_ok=True)
            (folder / f"tests/{name}.py").write_text(f"OK_FORMAT = True\ntest = {test!r}\n")
        environ = peer_environ(bin_folder, folder)
        (folder / "requirements.txt").write_text("")
        generate = [str(bin_folder / "otter"), "generate", "-t", "tests", "-o", "autograder.zip", "--no-environment"]
        subprocess.run(generate, cwd=folder, env=environ, check=True, capture_output=True)
        jobs, folders = [], []
        for i, (cells, _) in enumerate(submissions(count)):
            own = folder / f"s{i}"
            write_notebook(own / "s.ipynb", [code(source, f"c{n}") for n, source in enumerate(cells)])
            (own / "out").mkdir()
            jobs.append([str(bin_folder / "otter"), "run", "s.ipynb", "-a", "../autograder.zip", "-o", "out"])
            folders.append(own)
        result = timed(count, jobs, folders, environ)
        found = []
        for own in folders:
            tests = json.loads((own / "out/results.json").read_text())["tests"]
            found.append(sum(test.get("score", 0) for test in tests if test.get("name") in CHECKS))
    assert found == [score for _, score in submissions(count)], found
    return result


# ------------------------------------------------------------------------------------------------------------ report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 submissions for ours and 2 for each peer")
    parser.add_argument("--no-peers", action="store_true", help="measure ours alone")
    parser.add_argument("--submissions", type=int, help="for ours (default: 500, a large class)")
    parser.add_argument("--peer-submissions", type=int, help="for each peer (default: 10)")
    where = ROOT / "_build" / "grading_peers"
    parser.add_argument("--environments", type=Path, default=where, help="where those of the peers are kept")
    options = parser.parse_args()
    count = options.submissions or (100 if options.quick else 500)
    peer_count = options.peer_submissions or (2 if options.quick else 10)
    found = {"ours": measure_ours(count)}
    many = measure_ours(max(20, count // 5), copies=11)
    seconds = [60 / one["per_minute_once_started"] for one in (found["ours"], many)]
    further = WORKERS * (seconds[1] - seconds[0]) / 20  # of twenty tests more, in each of the workers
    found["ours"]["further_test_ms"] = 1e3 * further
    found["ours"]["check"] = measure_check()
    measures = {"nbgrader": measure_nbgrader, "otter-grader": measure_otter}
    print(f"ours: {found['ours']['per_minute']:.0f} a minute", file=sys.stderr, flush=True)
    for name, measure in measures.items() if not options.no_peers else ():
        print(f"{name}: setting up, then grading {peer_count} submissions", file=sys.stderr, flush=True)
        found[name] = measure(peer_count, environment(options.environments, name))
        found[name]["ours_is_faster_by"] = found["ours"]["per_minute"] / found[name]["per_minute"]
    RESULTS.mkdir(exist_ok=True)
    content = {"name": "grading", "machine": machine(), "workers": WORKERS, "graders": found}
    (RESULTS / "grading.json").write_text(json.dumps(content, indent=2) + "\n")
    print("| grader | submissions | a minute | ours is faster by |\n|---|---:|---:|---:|")
    for name, one in found.items():
        faster = f"{one['ours_is_faster_by']:.0f} ×" if "ours_is_faster_by" in one else ""
        print(f"| {name} | {one['submissions']} | {one['per_minute']:.1f} | {faster} |")
    ours = found["ours"]
    print(
        textwrap.fill(
            f"Ours, tier {ours['tier']}: first result after {ours['first_result_after_seconds']:.1f} s; once started "
            f"{ours['per_minute_once_started']:.0f} a minute; a further test costs {ours['further_test_ms']:.1f} ms; "
            f"memory per worker {ours['memory_per_worker_mb']['grader']:.0f} MB in the grader and "
            f"{ours['memory_per_worker_mb']['zygote']:.0f} MB in the zygote. A student waits "
            f"{ours['check']['median_ms']:.0f} ms for `check`, at most {ours['check']['slowest_ms']:.0f} ms.",
            width=100,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
