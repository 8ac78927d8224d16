"""The one training loop of the course: `train(model, batches, loss, config) -> History`."""

import contextlib
import copy
import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lecturelib.training.average import WeightAverage
from lecturelib.training.checkpoint import CheckpointError, CheckpointFolder
from lecturelib.training.config import TrainConfig
from lecturelib.training.devices import check_precision, choose_device, to_device
from lecturelib.training.distributed import (
    World,
    collect,
    gathered,
    join_world,
    restore,
    share,
    spread,
    synchronised,
    whole,
)
from lecturelib.training.history import History, Row, continue_history
from lecturelib.training.interrupts import Interrupts
from lecturelib.training.optimizers import adamw
from lecturelib.training.progress import Progress
from lecturelib.training.stream import Batches, BatchStream

Loss = Callable[[nn.Module, Any], Tensor | tuple[Tensor, Tensor | float]]
Evaluate = Callable[[nn.Module], float | dict[str, float]]
MakeOptimizer = Callable[[nn.Module], Optimizer]
_log = logging.getLogger(__name__)


class NonFiniteError(ArithmeticError):
    """The loss or its gradient is infinite or not a number, so the step was not taken."""


def train(
    model: nn.Module,
    batches: Batches,
    loss: Loss,
    config: TrainConfig,
    *,
    evaluate: Evaluate | None = None,
    optimizer: MakeOptimizer | None = None,
    folder: Path | str | None = None,
    resume: bool = False,
) -> History:
    """Train a model in place and say what happened.

    Ctrl-C finishes the step at hand, saves, and returns. A loss that is not finite raises NonFiniteError, naming the
    step, before it can touch the weights.

    Args:
        model: moved to the device, and left there in the mode (train or eval) it came in
        batches: a function `i -> batch`, or something that can be walked again and again (a list, a DataLoader)
        loss: `loss(model, batch)` gives a scalar, the mean over the batch. Where batches hold unequal numbers of
            tokens, give the pair (mean, number of tokens): then accumulated steps weigh every token the same
        evaluate: `evaluate(model)` gives a number or a dict of numbers; called in eval mode, without gradients
        optimizer: makes one from the model; AdamW when left out. The schedule multiplies the rates it was made with
        folder: where checkpoints (last and best) and history.jsonl go; None keeps nothing on disk
        resume: go on from the folder's last checkpoint, if it has one, exactly as if the run had never stopped
    """
    run = _Run.start(model, batches, loss, config, optimizer, Path(folder) if folder is not None else None)
    first, history, best = run.resume() if resume else run.begin()
    started = time.perf_counter() - (history["seconds"][-1] if len(history) else 0.0)
    with (
        _training(model),
        Interrupts() as interrupts,
        Progress(config.steps, done=first, show=run.show_progress) as bar,
    ):
        for step in range(first, config.steps):
            row, interrupted = run.step(step, interrupts)
            row["seconds"] = time.perf_counter() - started
            last = step + 1 == config.steps
            if evaluate is not None and (last or _due(step, config.evaluate_every)):
                row |= run.evaluate(evaluate)
                if best.update(row):
                    run.save_best(step + 1)
            history.add(row)
            bar.advance({"loss": row["loss"]})
            stop = run.agree(best.patience_is_over)
            if last or stop or interrupted or _due(step, config.checkpoint_every):
                run.save_last(step + 1, best)
            if stop or (interrupted and not last):
                history.stop = "early stop" if stop else "interrupted"
                break
    if run.average is not None:
        run.average.swap()
    return history


@contextlib.contextmanager
def _training(model: nn.Module) -> Iterator[None]:
    """Put the model into training mode, and back into the mode that it was in, whatever happens."""
    was_training = model.training
    model.train()
    try:
        yield
    finally:
        model.train(was_training)


class _Best:
    """The best evaluation so far, and how many have come since."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.value: float | None = None
        self.since = 0

    @property
    def patience_is_over(self) -> bool:
        return self.config.patience is not None and self.since >= self.config.patience

    def update(self, row: Row) -> bool:
        """Note a row's evaluation; True when it is the new best."""
        name = f"eval_{self.config.monitor}"
        if name not in row:
            known = ", ".join(key.removeprefix("eval_") for key in row if key.startswith("eval_"))
            raise ValueError(f"TrainConfig: monitor={self.config.monitor!r} is not what evaluate returned: {known}")
        value = row[name]
        higher = self.value is not None and value > self.value
        better = self.value is None or (higher if self.config.higher_is_better else value < self.value)
        better = better and not math.isnan(value)  # which nothing would ever be better than
        self.value, self.since = (value, 0) if better else (self.value, self.since + 1)
        return better


@dataclass(kw_only=True)
class _Run:
    """The moving parts of one run in this process."""

    model: nn.Module
    losses: nn.Module  # batch -> loss, with gradients averaged over the processes
    stream: BatchStream
    config: TrainConfig
    optimizer: Optimizer
    rates: list[float]
    scaler: torch.amp.GradScaler
    device: torch.device
    world: World
    checkpoints: CheckpointFolder | None
    average: WeightAverage | None

    @classmethod
    def start(
        cls,
        model: nn.Module,
        batches: Batches,
        loss: Loss,
        config: TrainConfig,
        optimizer: MakeOptimizer | None,
        folder: Path | None,
    ) -> "_Run":
        world, device = join_world(choose_device(config.device))
        check_precision(config.precision, device)
        share(config, world, 0)
        stream = BatchStream(batches, config.seed)
        losses = spread(model.to(device), loss, config, world)
        if optimizer is not None:
            made = optimizer(model)
        else:
            fused = world.size == 1 or config.parallel == "replicate"
            made = adamw(model, learning_rate=config.learning_rate, weight_decay=config.weight_decay, fused=fused)
        return cls(
            model=model,
            losses=losses,
            stream=stream,
            config=config,
            optimizer=made,
            rates=[group["lr"] for group in made.param_groups],
            scaler=torch.amp.GradScaler(device.type, enabled=config.precision == "fp16"),
            device=device,
            world=world,
            checkpoints=CheckpointFolder(folder) if folder is not None else None,
            average=WeightAverage(model, config.ema) if config.ema is not None else None,
        )

    @property
    def show_progress(self) -> bool | None:
        return self.config.progress if self.world.rank == 0 else False

    def begin(self) -> tuple[int, History, _Best]:
        if self.checkpoints is None:
            return 0, History(), _Best(self.config)
        folder = self.checkpoints.folder
        if self.checkpoints.holds_a_run():
            raise CheckpointError(f"{folder} already holds a run; pass resume=True to go on with it, or another folder")
        return 0, self._history(0), _Best(self.config)

    def resume(self) -> tuple[int, History, _Best]:
        if self.checkpoints is None:
            raise ValueError("resume=True needs the folder of the run to go on with")
        state = self.checkpoints.load_last()
        if state is None:
            return self.begin()
        if self.checkpoints.trouble is not None and self.world.rank == 0:
            _log.warning("%s", self.checkpoints.trouble)
        try:
            if self.average is not None:
                restore(self.model, self.optimizer, state["average"], state["optimizer"], self.config, self.world)
                self.average.restart()
                self.average.steps = state["step"]
            restore(self.model, self.optimizer, state["model"], state["optimizer"], self.config, self.world)
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            folder = self.checkpoints.folder
            raise CheckpointError(
                f"the checkpoint in {folder} does not fit this model or optimizer: {error}"
            ) from error
        if self.scaler.is_enabled() and state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        best = _Best(self.config)
        best.value, best.since = state["best"], state["since_best"]
        return state["step"], self._history(state["step"]), best

    def _history(self, step: int) -> History:
        if self.checkpoints is None or self.world.rank != 0:
            return History()
        self.checkpoints.folder.mkdir(parents=True, exist_ok=True)
        return continue_history(self.checkpoints.folder / "history.jsonl", step)

    def step(self, step: int, interrupts: Interrupts) -> tuple[Row, bool]:
        """Take one optimizer step over `accumulate` batches; also say whether any process was interrupted."""
        factor = self.config.schedule(step)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.optimizer.zero_grad(set_to_none=True)
        loss, weight = self._gradients(step)
        loss, weight, interrupted = self.world.sum([loss, weight, float(interrupts.wanted)], self.device)
        if not math.isfinite(loss):
            raise NonFiniteError(f"the loss is {loss} at step {step}{_ADVICE}")
        norm = self._clip(weight / self.world.size)
        if not (math.isfinite(norm) or self.scaler.is_enabled()):
            raise NonFiniteError(f"the gradient norm is {norm} at step {step}{_ADVICE}")
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.average is not None:
            self.average.update()
        rate = self.optimizer.param_groups[0]["lr"]
        row: Row = {"step": step, "loss": loss / weight, "grad_norm": norm, "learning_rate": rate}
        return row, interrupted > 0

    def _gradients(self, step: int) -> tuple[float, float]:
        """Add up this process's gradients, each batch weighted by its count; return loss and count in all."""
        dtype = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[self.config.precision]
        total, weight = 0.0, 0.0
        mine = share(self.config, self.world, step)
        for index in mine:
            batch = to_device(self.stream(index), self.device)
            with synchronised(self.losses, index == mine[-1]):
                with torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None):
                    mean, count = _mean_and_count(self.losses(batch), alone=self.config.accumulate == 1)
                self.scaler.scale(mean * count if count != 1 else mean).backward()
            total, weight = total + float(mean.detach()) * count, weight + count
        return total, weight

    def _clip(self, weight: float) -> float:
        """Undo the loss scale and the weights, then clip; return the norm before clipping."""
        self.scaler.unscale_(self.optimizer)
        parameters = [p for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        if weight != 1:
            for parameter in parameters:
                parameter.grad.div_(weight)
        if self.config.clip is not None:
            return float(whole(nn.utils.clip_grad_norm_(parameters, self.config.clip)))
        return float(whole(nn.utils.get_total_norm([p.grad for p in parameters])))

    def agree(self, stop: bool) -> bool:
        """Let process 0 decide for all."""
        if self.config.patience is None:
            return False
        return self.world.sum([float(stop and self.world.rank == 0)], self.device)[0] > 0

    def averaged(self) -> contextlib.AbstractContextManager[None]:
        """Within this, the model has the weights that count: the averaged ones, where there is an average."""
        return contextlib.nullcontext() if self.average is None else self.average.in_place()

    def evaluate(self, evaluate: Evaluate) -> Row:
        self.model.eval()
        with torch.no_grad(), self.averaged(), gathered(self.model):
            found = evaluate(self.model)
        self.model.train()
        numbers = found if isinstance(found, dict) else {"loss": found}
        return {f"eval_{name}": float(number) for name, number in numbers.items()}

    def save_best(self, step: int) -> None:
        if self.checkpoints is not None:
            with self.averaged():  # until they are written: a state dict is no copy
                weights, _ = collect(self.model, self.optimizer, self.config, self.world)
                self._write(lambda checkpoints: checkpoints.save_best(weights, step))

    def save_last(self, step: int, best: _Best) -> None:
        if self.checkpoints is None:
            return
        weights, moments = collect(self.model, self.optimizer, self.config, self.world)
        state = {"step": step, "model": weights, "optimizer": moments, "scaler": self.scaler.state_dict()}
        state |= {"best": best.value, "since_best": best.since, "average": None}
        if self.average is not None:
            with self.averaged():
                state["average"] = copy.deepcopy(collect(self.model, self.optimizer, self.config, self.world)[0])
        self._write(lambda checkpoints: checkpoints.save_last(state, step))

    def _write(self, write: Callable[[CheckpointFolder], None]) -> None:
        """Let process 0 write; where it can't, all processes stop."""
        trouble: CheckpointError | None = None
        if self.checkpoints is not None and self.world.rank == 0:
            try:
                write(self.checkpoints)
            except CheckpointError as error:
                trouble = error
        if self.world.sum([float(trouble is not None)], self.device)[0]:
            raise trouble or CheckpointError("process 0 could not write its checkpoint")


_ADVICE = "; the weights are still those before it. Try a lower learning rate, a longer warm-up, or look at that batch"


def _mean_and_count(value: Any, *, alone: bool) -> tuple[Tensor, float]:
    """Read what the loss gave; the count of a batch that is alone in its step changes nothing."""
    mean, count = value if isinstance(value, tuple) else (value, 1.0)
    if not isinstance(mean, Tensor) or mean.dim() != 0:
        given = f"shape {tuple(mean.shape)}" if isinstance(mean, Tensor) else f"a {type(mean).__name__}"
        raise ValueError(f"loss(model, batch) must give a scalar tensor or a pair (scalar, count), got {given}")
    return mean, 1.0 if alone else float(count)


def _due(step: int, every: int | None) -> bool:
    return every is not None and (step + 1) % every == 0
