"""What one training run is asked to do."""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from lecturelib.training.schedules import Constant, Schedule

Precision = Literal["fp32", "bf16", "fp16"]
Parallel = Literal["replicate", "shard"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How to train: how long, how fast, on what, and how often to look.

    Args:
        steps: optimizer steps in all, counted from the start of the run and not from a resume
        learning_rate: the peak; `schedule` multiplies it step by step
        schedule: step -> factor, for example `Cosine(steps=1000, warmup=100)`
        weight_decay: AdamW's decay, on matrices only (biases and norm gains are left alone)
        clip: largest gradient norm; None leaves gradients as they are (their norm is recorded all the same)
        ema: decay of an average of the weights, for example 0.999; with it, what is evaluated, kept as the best and in
            the model at the end is the average. None: no average
        accumulate: batches that make up one optimizer step, over all processes together
        precision: "fp32", "bf16" or "fp16" autocast (fp16 scales the loss)
        device: "auto" (cuda, then mps, then cpu) or a torch device name
        seed: fixes dropout and shuffling, batch by batch; not the model's weights, which exist already
        evaluate_every: steps between calls of the evaluation hook; None: only at the end
        checkpoint_every: steps between checkpoints; None: only at the end (and on Ctrl-C)
        monitor: the evaluation number that decides what "best" means
        higher_is_better: True for an accuracy, False for a loss
        patience: stop after this many evaluations without a new best; None: never
        parallel: under torchrun, "replicate" the model (DDP) or "shard" it (FSDP2)
        progress: show a bar; None: only where somebody watches (a terminal, a live notebook)
    """

    steps: int
    learning_rate: float = 3e-4
    schedule: Schedule = field(default_factory=Constant)
    weight_decay: float = 0.01
    clip: float | None = 1.0
    ema: float | None = None
    accumulate: int = 1
    precision: Precision = "fp32"
    device: str = "auto"
    seed: int = 0
    evaluate_every: int | None = None
    checkpoint_every: int | None = None
    monitor: str = "loss"
    higher_is_better: bool = False
    patience: int | None = None
    parallel: Parallel = "replicate"
    progress: bool | None = None

    def __post_init__(self) -> None:
        counts = {"accumulate": self.accumulate, "evaluate_every": self.evaluate_every}
        counts |= {"checkpoint_every": self.checkpoint_every, "patience": self.patience}
        for name, count in counts.items():
            if count is not None and count < 1:
                raise ValueError(f"TrainConfig: {name}={count} must be at least 1")
        if self.steps < 0:
            raise ValueError(f"TrainConfig: steps={self.steps} must be 0 or more")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ValueError(f"TrainConfig: learning_rate={self.learning_rate} must be a positive number")
        if self.weight_decay < 0:
            raise ValueError(f"TrainConfig: weight_decay={self.weight_decay} must be 0 or more")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"TrainConfig: clip={self.clip} must be positive, or None for no clipping")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"TrainConfig: ema={self.ema} must be between 0 and 1, or None for no average")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"TrainConfig: seed={self.seed} must be a whole number from 0 to {2**63 - 1}")
        if not callable(self.schedule):
            raise TypeError(
                f"TrainConfig: schedule={self.schedule!r} must be a function of the step, like Cosine(steps=…)"
            )
        for name, allowed in {"precision": get_args(Precision), "parallel": get_args(Parallel)}.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"TrainConfig: {name}={getattr(self, name)!r} must be one of {', '.join(allowed)}")
