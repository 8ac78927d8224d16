"""The files by which a fork tests and publishes itself say what the project can do."""

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))


def made_targets(text: str) -> set[str]:
    return set(re.findall(r"\bmake ([a-z-]+)", text))


def steps(path: Path) -> list[dict[str, str]]:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_workflows_have_the_shape_github_expects():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    result = subprocess.run([*command, *map(str, WORKFLOWS)], capture_output=True, text=True)
    assert len(WORKFLOWS) >= 2
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_wrong_workflow_is_noticed(tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("on: push\njobs: {test: {steps: [{run: make test}]}}\n")  # runs on nothing
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(wrong)]
    assert subprocess.run(command, capture_output=True).returncode == 1


def test_workflows_and_the_container_call_targets_that_exist():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    called = made_targets(container["postCreateCommand"]) | made_targets(container["postAttachCommand"])
    for path in WORKFLOWS:
        called |= set().union(*(made_targets(step.get("run", "")) for step in steps(path)))
    assert {"test", "site", "lab", "install"} <= called
    assert called <= TARGETS


def test_all_promised_pythons_are_tested():
    matrix = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))["jobs"]["test"]
    assert matrix["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]


def test_the_weekly_run_starts_from_nothing():
    caches = [step for step in steps(ROOT / ".github/workflows/tests.yml") if "cache" in step.get("uses", "")]
    assert caches
    assert all(step["if"] == "github.event_name != 'schedule'" for step in caches)


def test_binder_installs_what_the_course_pins():
    folder = ROOT / ".binder"
    assert (folder / "requirements.txt").read_text(encoding="utf-8").strip() == "-r ../requirements.txt"
    assert "--editable ." in (folder / "postBuild").read_text(encoding="utf-8")


def test_the_suites_start_from_any_folder(tmp_path):
    command = [sys.executable, str(ROOT / "tests" / "run_all.py"), "format"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "suite " in result.stdout, result.stderr
