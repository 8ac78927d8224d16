"""What `make full` needs, estimated without a GPU: `python book/full_needs.py` gives the table in README.md.

Every chapter runs with the training of scale="full", but each run ends after a few steps: the first is counted
(floating-point operations, calls into torch, memory) and multiplied by the steps it would take.
"""

import argparse
import contextlib
import dataclasses
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nbformat
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import lecturelib.book
from lecturelib import training
from lecturelib.book.scales import Sizes

ROOT = Path(__file__).resolve().parent.parent
GPU = "NVIDIA T4"
FLOPS_A_SECOND = 0.3 * 8.1e12  # a third of its peak in float32
SECONDS_A_CALL = 1e-5  # what starting a kernel takes, which is all that matters where models are small
BYTES_A_PARAMETER = 16  # itself, its gradient, two moments of Adam
STEPS = 2  # before a run is cut
# Sizes that say how much is read or measured, and nothing about training.
READ = {"texts", "held_out", "max_n", "characters", "draws", "lengths", "repeats"}
READ |= {"test_every", "probe_words", "test", "merges", "judged", "counted", "times", "sides", "verses"}
READ |= {"reviews", "pairs", "questions", "longer"}
READ |= {"blocks", "patched_layers", "sentences", "asked", "written", "rounded"}
READ |= {"captioned_scenes", "looked_scenes", "pixel_scenes", "nights", "found_scenes", "clicked_scenes"}

train = training.train


@dataclasses.dataclass
class Needs:
    """What one chapter's training adds up to, and its largest run at a time."""

    runs: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    bytes: int = 0


class Calls(TorchDispatchMode):
    """Count the operations that reach a device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def count_step(model: nn.Module, loss: Callable[[nn.Module, Any], Any], batch: Any) -> tuple[int, int, int]:
    """FLOPs, calls and bytes of one forward and backward pass."""
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with FlopCounterMode(display=False) as flops, Calls() as calls:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            value = loss(model, batch)
        (value[0] if isinstance(value, tuple) else value).backward()
    model.zero_grad()
    weights = BYTES_A_PARAMETER * sum(parameter.numel() for parameter in model.parameters())
    return flops.get_total_flops(), calls.count, weights + sum(t.untyped_storage().nbytes() for t in kept.values())


def needs_of(chapter: Path) -> Needs:
    needs = Needs()

    def counted(model: nn.Module, batches: Any, loss: Any, config: training.TrainConfig, **options: Any) -> Any:
        first = batches(0) if callable(batches) else next(iter(batches))
        flops, calls, size = count_step(model.train(), loss, first)
        steps = config.steps * config.accumulate
        needs.runs, needs.flops = needs.runs + 1, needs.flops + steps * flops
        needs.seconds += steps * max(flops / FLOPS_A_SECOND, calls * SECONDS_A_CALL)
        needs.bytes = max(needs.bytes, size)
        return train(model, batches, loss, dataclasses.replace(config, steps=min(config.steps, STEPS)), **options)

    def trained_in_full(scale: str, *, smoke: Mapping, default: Mapping, full: Mapping) -> Sizes:
        chosen = {name: smoke[name] if name in READ else full[name] for name in full}
        return Sizes(is_trained=False, device="cpu", **chosen)

    training.train, lecturelib.book.sizes = counted, trained_in_full
    space: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in nbformat.read(chapter, as_version=4).cells[1:]:
            if cell.cell_type == "code":
                exec(cell.source, space)
                space["scale"] = "full"  # after the parameters
    return needs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapters", nargs="*", type=Path, default=sorted((ROOT / "book").glob("*.ipynb")))
    torch.set_num_threads(1)
    print(f"| chapter | training runs | TFLOP | minutes on one {GPU} | memory (GB) |\n|---|---|---|---|---|")
    for chapter in parser.parse_args().chapters:
        needs = needs_of(chapter)
        minutes, memory = max(1, round(needs.seconds / 60)), max(0.1, needs.bytes / 1e9)
        flops = float(f"{needs.flops / 1e12:.2g}")
        print(f"| {chapter.stem} | {needs.runs} | {flops:g} | {minutes} | {memory:.1f} |", flush=True)


if __name__ == "__main__":
    main()
