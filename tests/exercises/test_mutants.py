"""Whatever is changed in a right answer, some test notices; what none can notice is listed, with the reason.

Every set has a list in `mutation/survivors`. Here every twelfth mutant is tried, the same ones each time. `python -m
tests.exercises.mutation.audit` tries all of them.
"""

from pathlib import Path

import pytest

from lecturelib.grading import load_rubric
from lecturelib.grading.release.notebooks import Paths, sets_in
from tests.exercises.mutation import audit
from tests.exercises.mutation.audit import list_of, listed, suspects, unlisted_survivors

ROOT = Path(__file__).parents[2]
SHARE = 12
each_set = pytest.mark.parametrize("paths", [pytest.param(paths, id=paths.name) for paths in sets_in(ROOT)])


def test_every_set_is_audited_and_no_other() -> None:
    assert {list_of(paths) for paths in sets_in(ROOT)} == {*list_of(sets_in(ROOT)[0]).parent.iterdir()}


@each_set
def test_a_sample_of_mutants_is_noticed(paths: Paths) -> None:
    assert unlisted_survivors(paths, share=SHARE) == []


@each_set
def test_every_listed_mutant_exists_and_has_a_reason(paths: Paths) -> None:
    reasons = listed(paths)
    assert sorted(set(reasons) - {str(suspect.mutant) for suspect in suspects(paths)}) == []
    assert [mutant for mutant, reason in reasons.items() if len(reason.split()) < 3] == []


def test_a_mutant_that_nobody_notices_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the tests that look at masks, a mask that is dropped survives, and the audit says so."""
    paths = next(paths for paths in sets_in(ROOT) if paths.name.startswith("08"))
    rubric = load_rubric(paths.rubric)
    rubric.mistakes, rubric.tests = [], [test for test in rubric.tests if test.name == "no_mask_allows_every_key"]
    monkeypatch.setattr(audit, "rubric_of", lambda paths: rubric)
    found = [s for s in audit.suspects(paths) if s.mutant.name == "masked_attention" and s.survives(rubric)]
    assert "masked_attention: if mask is not None: --> if False:" in {str(s.mutant) for s in found}
