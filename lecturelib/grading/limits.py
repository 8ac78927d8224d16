"""What one submission may use."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that one submission may use; beyond it the call, or the whole submission, is stopped.

    Args:
        notebook_seconds: to run all cells of the notebook, once
        call_seconds: for each call of a test
        total_seconds: for the whole submission, restarts included
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
