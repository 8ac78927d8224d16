"""What one submission may use, and the clock that is fair to it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that one submission may use; beyond it the call, or the whole submission, is stopped.

    Args:
        notebook_seconds: of its own computing, to run all cells of the notebook, once
        call_seconds: of its own computing, for each call of a test
        patience: how many times as long either may take by the clock, asleep or waiting for its turn on a busy machine
        total_seconds: for the whole submission by the clock, restarts included
        memory_mb: memory of all processes of the submission together, beyond what an empty one has
        processes: processes and threads at one time
        open_files: open files of one process
        file_mb: the size of one file
        scratch_mb: everything in the scratch directory; it is memory, and is gone afterwards
        output_chars: printed text that is kept
        frame_mb: tensors in one answer
        restarts: how often a notebook is run again because a call killed its process
    """

    notebook_seconds: float = 60.0
    call_seconds: float = 10.0
    patience: float = 4.0
    total_seconds: float = 300.0
    memory_mb: int = 1024
    processes: int = 64
    open_files: int = 128
    file_mb: int = 32
    scratch_mb: int = 64
    output_chars: int = 20_000
    frame_mb: int = 32
    restarts: int = 5

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 0 or (value == 0 and field.name not in ("restarts", "output_chars")):
                raise ValueError(f"{field.name} must be positive, got {value}")
        if self.patience < 1:
            raise ValueError(f"patience must be at least 1, got {self.patience}")


class Allowance:
    """How long a submission may still take over something: what `wire.send` and `wire.receive` ask.

    Seconds of its own computing count. On a busy machine a process waits for its turn, and an honest one must not lose
    points by that; one that sleeps instead is stopped by the clock, `patience` times later.

    Args:
        seconds: of computing
        patience: how many times as long it may take by the clock
        ends: the moment, of `time.monotonic`, at which it ends in any case
        computed: the seconds that the submission has computed since this began; asked only now and then
    """

    def __init__(self, seconds: float, patience: float, ends: float, computed: Callable[[], float]) -> None:
        now = time.monotonic()
        self._seconds, self._computed = seconds, computed
        self._look, self._end = now + seconds, min(now + seconds * patience, ends)

    def left(self) -> float:
        """Seconds to wait before asking again; `TimeoutError` when there are none."""
        now = time.monotonic()
        if self._look <= now < self._end:
            unused = self._seconds - self._computed()
            if unused <= 0:
                raise TimeoutError("its seconds are used up")
            self._look = now + max(unused, 0.05)
        if now >= self._end:
            raise TimeoutError("it took too long by the clock")
        return min(self._look, self._end) - now
