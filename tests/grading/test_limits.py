"""Time limits count a submission's own computing, and the clock only in the end."""

import itertools

import pytest

from lecturelib.grading.sandbox import limits
from lecturelib.grading.sandbox.limits import Allowance, Limits


class Clock:
    """A clock that a test sets, and a process that computes for a share of that time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, share: float) -> None:
        self.now, self.share, self.looks = 100.0, share, 0
        monkeypatch.setattr(limits.time, "monotonic", lambda: self.now)

    def computed(self) -> float:
        self.looks += 1
        return self.share * (self.now - 100.0)

    def stopped_after(self, allowance: Allowance) -> float:
        """Wait as long as it allows, again and again; when it has had enough."""
        for _ in itertools.count():
            try:
                self.now += allowance.left()
            except TimeoutError:
                return self.now - 100.0


@pytest.mark.parametrize(
    ("share", "seconds"),
    [(1.0, 10), (0.5, 20), (0.0, 40), (0.1, 40), (3.0, 10)],  # alone, one of two, asleep, one of ten, three threads
)
def test_allowance_is_of_computing_first_and_of_the_clock_last(monkeypatch, share, seconds):
    clock = Clock(monkeypatch, share)
    assert clock.stopped_after(Allowance(10, 4, 1e9, clock.computed)) == pytest.approx(seconds, abs=0.1)
    assert clock.looks < 100


def test_allowance_ends_with_the_submission(monkeypatch):
    clock = Clock(monkeypatch, 0.0)
    assert clock.stopped_after(Allowance(10, 4, 103.0, clock.computed)) == pytest.approx(3)
    assert clock.looks == 0


def test_patience_below_one_is_refused():
    with pytest.raises(ValueError, match=r"patience must be at least 1, got 0\.5"):
        Limits(patience=0.5)
