"""Our grader against nbgrader and otter on the same torch submissions: `python benchmarks/grading.py --peers FOLDER`.

Each peer gets a virtual environment of its own in FOLDER, made when it is not there, which takes torch from this one.
Without `--peers` only ours is measured. All graders run two submissions at a time, and all award the same points.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from measure import RESULTS, machine

from lecturelib.grading import Rubric, assert_close
from lecturelib.grading.limits import Limits
from lecturelib.grading.runner import run
from lecturelib.grading.sandbox import Sandbox
from lecturelib.grading.worker import supervisor

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


def make_rubric(copies: int = 1) -> Rubric:
    """The two checks; each of them `copies` times, to see what a further test costs."""
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

    for copy in range(copies):
        for exercise, function in (("softmax", softmax_matches), ("attention", attention_matches)):

            def test(submission, rng, function=function):
                function(submission, rng)

            test.__name__ = f"{function.__name__}_{copy}"
            rubric.test(exercise, points=1 / copies, visible=False)(test)
    return rubric


def our_worker(folder: Path, names: list[str], copies: int, results: "multiprocessing.Queue[tuple]") -> None:
    """One process: a sandbox, and one submission after the other in it."""
    torch.set_num_threads(1)
    rubric = make_rubric(copies)
    with Sandbox(Limits(), require_tier="reduced") as box:
        results.put(("ready", time.time(), box.tier))
        for name in names:
            with box.open(folder / name) as submission:
                earned = sum(test.earned for test in run(rubric, submission, seed=1))
            results.put((name, time.time(), earned))
        zygote = max(memory_mb(process) for process in supervisor.descendants(os.getpid()))
        results.put(("memory", memory_mb(os.getpid()), zygote))


def memory_mb(process: int) -> float:
    """What a process adds to the machine's memory, shared pages in proportion; 0 for one that has just ended."""
    try:
        with open(f"/proc/{process}/smaps_rollup") as stream:
            return next(int(line.split()[1]) for line in stream if line.startswith("Pss:")) / 1024
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def measure_ours(count: int, copies: int = 1) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as made:
        folder, scores = Path(made), {}
        for i, (cells, score) in enumerate(submissions(count)):
            write_notebook(folder / f"{i}.ipynb", [code(source, f"c{n}") for n, source in enumerate(cells)])
            scores[f"{i}.ipynb"] = score
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        names, begin = list(scores), time.time()
        workers = [
            context.Process(target=our_worker, args=(folder, names[i::WORKERS], copies, results))
            for i in range(WORKERS)
        ]
        for worker in workers:
            worker.start()
        told = [results.get(timeout=120) for _ in range(count + 2 * WORKERS)]
        for worker in workers:
            worker.join()
    graded = {name: (when, earned) for name, when, earned in told if name in scores}
    assert {name: round(earned, 6) for name, (_, earned) in graded.items()} == scores
    ready = max(when for name, when, _ in told if name == "ready")
    memory = [(grader, zygote) for name, grader, zygote in told if name == "memory"]
    last = max(when for when, _ in graded.values())
    return {
        "tier": next(tier for name, _, tier in told if name == "ready"),
        "submissions": count,
        "seconds": last - begin,
        "per_minute": 60 * count / (last - begin),
        "per_minute_once_started": 60 * count / (last - ready),
        "first_result_after_seconds": min(when for when, _ in graded.values()) - begin,
        "memory_per_worker_mb": {"grader": max(g for g, _ in memory), "zygote": max(z for _, z in memory)},
    }


# ------------------------------------------------------------------------------------------------------------ peers


def environment(folder: Path, package: str) -> Path:
    """The bin directory of the peer's virtual environment; made, and the peer installed, when it is not there."""
    home = folder / package
    if not (home / "installed").exists():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        subprocess.run([home / "bin" / "pip", "install", "--quiet", package, "ipykernel"], check=True)
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
    parser.add_argument("--peers", type=Path, help="measure nbgrader and otter too; their environments are kept here")
    parser.add_argument("--submissions", type=int, default=200, help="for ours; a peer gets --peer-submissions")
    parser.add_argument("--peer-submissions", type=int, default=10)
    options = parser.parse_args()
    found = {"ours": measure_ours(options.submissions)}
    many = measure_ours(max(10, options.submissions // 10), copies=11)
    seconds = [60 / one["per_minute_once_started"] for one in (found["ours"], many)]
    further = WORKERS * (seconds[1] - seconds[0]) / 20  # of twenty tests more, in each of the workers
    found["ours"]["further_test_ms"] = 1e3 * further
    if options.peers:
        for name, measure in (("nbgrader", measure_nbgrader), ("otter-grader", measure_otter)):
            found[name] = measure(options.peer_submissions, environment(options.peers, name))
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
            f"{ours['memory_per_worker_mb']['zygote']:.0f} MB in the zygote.",
            width=100,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
