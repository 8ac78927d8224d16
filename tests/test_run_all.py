"""`make test` runs suites beside each other, keeps their outputs apart, and is red when one of them is."""

import importlib.util
import sys
from pathlib import Path
from threading import Barrier, Event
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def run_all() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_all", Path(__file__).with_name("run_all.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def counting(run_all: ModuleType, name: str, code: str, needs: str = "") -> object:
    return run_all.Suite(name, (sys.executable, "-u", "-c", code), r"(\d+) checked", needs)


def test_lanes_run_side_by_side_and_print_one_after_another(run_all, tmp_path, capsys, monkeypatch):
    both, run = Barrier(2), run_all.run

    def meet(suite, scratch, say):
        both.wait(timeout=60)  # reached only if the other lane is under way too
        outcome = run(suite, scratch, say)
        both.wait(timeout=60)
        return outcome

    monkeypatch.setattr(run_all, "run", meet)
    say = "for line in range(3): print('{name}', line)\nprint('3 checked')"
    wide, narrow = (counting(run_all, name, say.format(name=name)) for name in ("wide", "narrow"))
    outcomes = run_all.run_beside([wide], [narrow], tmp_path)
    assert [(o.name, o.passed, o.failed) for o in outcomes] == [("wide", 3, 0), ("narrow", 3, 0)]
    said = [line for line in capsys.readouterr().out.splitlines() if line[-1:].isdigit()]
    assert said == [f"{name} {line}" for name in ("wide", "narrow") for line in range(3)]


def test_suite_waits_for_what_it_needs(run_all, tmp_path, monkeypatch):
    begun = Event()

    def run(suite, scratch, say):
        if suite.name == "browser":
            begun.set()
            return run_all.Outcome("browser", 1, 0, 0, 0.0, 0, "")
        return run_all.Outcome("site", 1, 0, 0, 0.0, int(begun.wait(timeout=0.2)), "")

    monkeypatch.setattr(run_all, "run", run)
    outcomes = run_all.run_beside([counting(run_all, "browser", "", "site")], [counting(run_all, "site", "")], tmp_path)
    assert [(o.name, o.returncode) for o in outcomes] == [("site", 0), ("browser", 0)]


def test_failure_in_either_lane_is_seen(run_all, tmp_path):
    good, bad = "print('2 checked')", "print('2 checked'); raise SystemExit(1)"
    for wide, narrow in ((good, bad), (bad, good)):
        suites = [counting(run_all, "wide", wide)], [counting(run_all, "narrow", narrow)]
        failed = {o.name: o.failed for o in run_all.run_beside(*suites, tmp_path)}
        assert failed == {"wide": int(wide is bad), "narrow": int(narrow is bad)}


def test_every_test_file_belongs_to_a_suite(run_all):
    commands = [suite.command for suite in (*run_all.wide_suites(), *run_all.narrow_suites())]
    for path in (run_all.ROOT / "tests").rglob("test_*.py"):
        name = str(path.relative_to(run_all.ROOT))
        holding = [
            command
            for command in commands
            if any(name == part or name.startswith(f"{part}/") for part in command)
            and not any(name == part[9:] or name.startswith(f"{part[9:]}/") for part in command if "--ignore=" in part)
        ]
        assert len(holding) == 1, name
