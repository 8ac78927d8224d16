"""How the learning rate moves: choose a schedule, its warm-up and its peak, and see the rate of every step."""

from lecturelib.figures.explorers.explorer import Explorer
from lecturelib.training.optimizers import rectification
from lecturelib.training.schedules import Constant, Cosine, Linear, Noam, Schedule

KINDS = ("constant", "linear", "cosine", "Noam", "RAdam")
"""What the buttons offer; RAdam's is no schedule but its own factor on Adam's step, at a constant rate."""


class ScheduleExplorer(Explorer):
    """The schedules of `lecturelib.training`, drawn over one run.

    Args:
        steps: of the run
        warmup: steps of warm-up to start with
        beta2: of RAdam, which decides how long its own warm-up takes
    """

    title = "How does the learning rate move?"
    hint = "choose RAdam and compare its rise with a warm-up."

    def __init__(self, *, steps: int = 400, warmup: int = 60, beta2: float = 0.98) -> None:
        if steps < 20 or not 0 <= warmup < steps or not 0.5 <= beta2 < 1:
            raise ValueError(
                f"ScheduleExplorer: steps={steps} must be at least 20, warmup={warmup} less than that and "
                f"beta2={beta2} in [0.5, 1)"
            )
        self.steps, self.warmup, self.beta2 = steps, warmup, beta2

    def factor(self, kind: str, step: int, warmup: int) -> float:
        """What multiplies the peak at a step, counted from 0; for Noam, divided by its largest, so that peaks agree."""
        if kind == "RAdam":
            return rectification(step + 1, self.beta2) or 0.0
        if kind == "Noam":
            noam = Noam(d_model=1, warmup=max(1, warmup))
            return noam(step) / noam(max(1, warmup) - 1)
        schedules: dict[str, Schedule] = {
            "constant": Constant(warmup=warmup),
            "linear": Linear(steps=self.steps, warmup=warmup),
            "cosine": Cosine(steps=self.steps, warmup=warmup),
        }
        return schedules[kind](step)

    def data(self) -> dict[str, object]:
        return {"kinds": list(KINDS), "steps": self.steps, "warmup": self.warmup, "beta2": self.beta2}

    def text(self) -> str:
        half = next(step for step in range(self.steps) if self.factor("RAdam", step, 0) > 0.5)
        return (
            f"Learning rates over {self.steps} steps. All rise for the steps of warm-up; then the rate stays, "
            f"falls in a straight line, along half a cosine, or (Noam) with the root of the step. RAdam has no warm-up "
            f"to choose: with beta2 = {self.beta2:g} its factor passes one half at step {half + 1}."
        )
