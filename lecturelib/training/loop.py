"""The one training loop of the course: `train(model, batches, loss, config) -> History`."""

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lecturelib.training.batches import Batches, BatchStream
from lecturelib.training.config import TrainConfig
from lecturelib.training.devices import choose_device, to_device
from lecturelib.training.history import History, Row
from lecturelib.training.progress import Progress

Loss = Callable[[nn.Module, Any], Tensor | tuple[Tensor, Tensor | float]]
Evaluate = Callable[[nn.Module], float | dict[str, float]]
MakeOptimizer = Callable[[nn.Module], Optimizer]


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
) -> History:
    """Train a model in place and say what happened.

    Args:
        model: moved to the device, and left there in the mode (train or eval) it came in
        batches: a function `i -> batch`, or something that can be walked again and again (a list, a DataLoader)
        loss: `loss(model, batch)` gives a scalar, the mean over the batch. Where batches hold unequal numbers of
            tokens, give the pair (mean, number of tokens): then accumulated steps weigh every token the same
        evaluate: `evaluate(model)` gives a number or a dict of numbers; called in eval mode, without gradients
        optimizer: makes one from the model; AdamW when left out. The schedule multiplies the rates it was made with
    """
    device = choose_device(config.device)
    was_training = model.training
    model.to(device).train()
    optim = (optimizer or _adamw(config))(model)
    scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "fp16")
    rates = [group["lr"] for group in optim.param_groups]
    stream = BatchStream(batches, config.seed)
    history, started = History(), time.perf_counter()
    with Progress(config.steps, show=config.progress) as bar:
        for step in range(config.steps):
            factor = config.schedule(step)
            for group, rate in zip(optim.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            row: Row = {"step": step, **_step(model, stream, loss, config, optim, scaler, step, device)}
            row["learning_rate"] = optim.param_groups[0]["lr"]
            row["seconds"] = time.perf_counter() - started
            last = step + 1 == config.steps
            if evaluate is not None and (last or (config.evaluate_every and (step + 1) % config.evaluate_every == 0)):
                row.update(_evaluate(model, evaluate))
            history.add(row)
            bar.advance({"loss": row["loss"]})
    model.train(was_training)
    return history


def _step(
    model: nn.Module,
    stream: BatchStream,
    loss: Loss,
    config: TrainConfig,
    optimizer: Optimizer,
    scaler: torch.amp.GradScaler,
    step: int,
    device: torch.device,
) -> Row:
    """Take one optimizer step over `accumulate` batches."""
    optimizer.zero_grad(set_to_none=True)
    total, weight = 0.0, 0.0
    for index in range(step * config.accumulate, (step + 1) * config.accumulate):
        batch = to_device(stream(index), device)
        with _autocast(config, device):
            value = loss(model, batch)
        mean, count = value if isinstance(value, tuple) else (value, 1.0)
        count = float(count) if config.accumulate > 1 else 1.0
        scaler.scale(mean * count).backward()
        total, weight = total + float(mean.detach()) * count, weight + count
    if not math.isfinite(total):
        raise NonFiniteError(f"the loss is {total} at step {step}; the weights are those before that step")
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    if weight != 1.0:
        for parameter in parameters:
            parameter.grad.div_(weight)
    limit = math.inf if config.clip is None else config.clip
    norm = float(nn.utils.clip_grad_norm_(parameters, limit))
    if not math.isfinite(norm) and not scaler.is_enabled():
        raise NonFiniteError(f"the gradient's norm is {norm} at step {step}; the weights are those before that step")
    scaler.step(optimizer)
    scaler.update()
    return {"loss": total / weight, "grad_norm": norm}


def _autocast(config: TrainConfig, device: torch.device) -> torch.autocast:
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[config.precision]
    return torch.autocast(device.type, dtype=dtype, enabled=config.precision != "fp32")


def _evaluate(model: nn.Module, evaluate: Evaluate) -> Row:
    model.eval()
    with torch.no_grad():
        found = evaluate(model)
    model.train()
    numbers = found if isinstance(found, dict) else {"loss": found}
    return {f"eval_{name}": float(number) for name, number in numbers.items()}


def _adamw(config: TrainConfig) -> MakeOptimizer:
    """Make AdamW that decays matrices and leaves vectors (biases, norm gains) alone."""

    def make(model: nn.Module) -> Optimizer:
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        groups = [
            {"params": [p for p in trainable if p.dim() >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in trainable if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW([group for group in groups if group["params"]], lr=config.learning_rate)

    return make
