"""Gradescope: the `results.json` it reads, and the zip its container is built from."""

import io
import json
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import lecturelib
from lecturelib.grading.rubric.outline import Outline
from lecturelib.grading.rubric.results import Graded, TestResult


def results_json(outline: Outline, graded: Graded) -> str:
    """One submission as Gradescope's autograder specification has it; hidden tests stay hidden, also by name."""
    result = graded.result
    shown = [_test(test, index) for index, test in enumerate(result.tests, start=1)]
    said = (graded.comment, graded.lateness, result.reason, *result.notes)
    output = "\n".join(part for part in said if part)
    document = {
        "score": graded.points,
        "execution_time": round(result.seconds, 3),
        "output": output,
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": shown,
        "extra_data": {"rubric": outline.name, "seed": result.seed, "out_of": outline.points},
    }
    return json.dumps(document, indent=1, allow_nan=False)


def _test(test: TestResult, index: int) -> dict[str, object]:
    name = test.name.replace("_", " ") if test.visible else f"further test {index}"
    told = (test.message, f"{test.hint_label}: {test.hint}" if test.hint else "") if test.visible else ()
    waits = "A person reads this answer, and has not yet." if test.waits else ""
    said = "\n".join(part for part in (*told, waits, test.comment) if part)
    status = {} if test.waits else {"status": "passed" if test.earned >= test.points else "failed"}
    return {
        "name": f"{test.exercise}: {name}",
        "score": test.earned,
        "max_score": test.points,
        **status,
        "output": said,
        "output_format": "text",
        "visibility": "visible" if test.visible else "hidden",
    }


def autograder_zip(rubric_file: Path) -> bytes:
    """What an instructor uploads: the container's two scripts, the rubric, and this very package."""
    package = Path(lecturelib.__file__).parent
    container = package / "grading" / "reports" / "container"
    contents = {script: (container / script).read_bytes() for script in ("setup.sh", "run_autograder")}
    contents["exercise"] = rubric_file.stem.encode()
    contents[f"rubrics/{rubric_file.name}"] = rubric_file.read_bytes()
    contents["requirements.txt"] = "\n".join(_requirements()).encode()
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            contents[f"lecturelib/{path.relative_to(package).as_posix()}"] = path.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, date_time=(2026, 1, 1, 0, 0, 0))  # the same input makes the same zip
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name in ("setup.sh", "run_autograder") else 0o100644) << 16
            archive.writestr(entry, data)
    return buffer.getvalue()


def _requirements() -> list[str]:
    """What lecturelib itself needs, without the extras for the book and for development."""
    try:
        needed = requires("lecturelib") or []
    except PackageNotFoundError:  # run from a checkout
        project = tomllib.loads((Path(lecturelib.__file__).parent.parent / "pyproject.toml").read_text("utf-8"))
        return project["project"]["dependencies"]
    return [requirement for requirement in needed if "extra ==" not in requirement]
