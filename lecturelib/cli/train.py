"""`lecturelib train`: train a model on a data set, watch it learn, keep what it learned."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lecturelib.cli.recipes import RECIPES, Recipe, find_recipe

if TYPE_CHECKING:
    from torch import nn

    from lecturelib.cli.tasks import Task

STEPS = {"language": 2400, "pairs": 2000}
BATCH_SIZES = {"language": 8, "pairs": 64}

EXAMPLES = """
examples:
  lecturelib train gpt --data shakespeare --preset tiny     write like Shakespeare, a minute or two on a laptop
  lecturelib train seq2seq --data dates                     "Tuesday, 3 March 2026" -> "2026-03-03"
  lecturelib train gpt --data shakespeare --resume          go on where Ctrl-C, or a crash, stopped it
  torchrun --nproc-per-node 2 -m lecturelib train gpt --data shakespeare --preset small

what you see: every so often the loss (the mean surprise at the next symbol, in nats; lower is better), the same on
text held out from training, and a sample of what the model does. The run's folder keeps the weights (best and last,
as safetensors), history.jsonl with a line a step, and what `lecturelib sample` and `lecturelib translate` need.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `train`."""
    models = "\n".join(
        f"  {name:<12} {recipe.about}\n{'':15}presets: {', '.join(recipe.presets)}"
        for name, recipe in RECIPES.items()
        if recipe.kind in STEPS
    )
    parser = subparsers.add_parser(
        "train",
        help="train a model, with samples as it learns",
        description="Train a model from scratch on a data set.",
        epilog=f"models:\n{models}\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="which architecture, see below")
    parser.add_argument(
        "--data",
        metavar="NAME",
        help="data set: shakespeare for gpt and rnn; dates, cmudict or greek_english for the others",
    )
    parser.add_argument("--preset", default="tiny", help="how large a model (default: tiny)")
    parser.add_argument("--steps", type=int, help="optimizer steps in all")
    parser.add_argument("--batch-size", type=int, help="texts or pairs in one step")
    parser.add_argument("--learning-rate", type=float, help="its peak; it warms up, then falls along a cosine")
    parser.add_argument("--evaluate-every", type=int, help="steps between evaluations (default: a tenth of all)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 or mps (default: auto, the fastest)")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16", "fp16"), help="bf16 suits recent GPUs")
    parser.add_argument("--parallel", default="replicate", choices=("replicate", "shard"), help="under torchrun")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same run (default: 0)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="the run's folder (default: runs/MODEL-DATA-PRESET)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in that folder, exactly where it was")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train, and say at the end what the model is worth and how to use it."""
    recipe = find_recipe(arguments.model)
    if recipe.kind not in STEPS:
        raise ValueError(f"there is no data set here to train {arguments.model} on; see the book, or `lecturelib info`")
    for option in ("steps", "batch_size", "evaluate_every", "learning_rate"):
        value = getattr(arguments, option)
        if value is not None and not value > 0:
            raise ValueError(f"--{option.replace('_', '-')} {value} must be more than 0")
    data = arguments.data or {"language": "shakespeare", "pairs": "dates"}[recipe.kind]
    folder = arguments.out or Path("runs") / f"{arguments.model}-{data}-{arguments.preset}"
    _check_folder(folder, arguments, data)

    import torch

    from lecturelib.cli.runs import write_run
    from lecturelib.evaluation import count_parameters
    from lecturelib.training import NonFiniteError, choose_device, train
    from lecturelib.training.distributed import join_world

    world, device = join_world(choose_device(arguments.device))
    say = _say if world.rank == 0 else _silence
    task, config = _prepare(recipe, data, arguments.preset)
    torch.manual_seed(arguments.seed)
    model = recipe.build(config)
    if world.rank == 0:
        facts = {"model": arguments.model, "data": data, "preset": arguments.preset, "seed": arguments.seed}
        write_run(folder, task, facts, config)
    say(f"{arguments.model} ({arguments.preset}), {count_parameters(model):,} parameters, on {data}, on {device.type}")

    plan, batch_size = _plan(recipe, task, arguments, world.size)
    try:
        history = train(
            model,
            task.batches(batch_size, arguments.seed),
            task.loss,
            plan,
            evaluate=_Reporter(task, plan.steps, say),
            folder=folder,
            resume=arguments.resume,
        )
    except NonFiniteError as error:
        raise ValueError(f"training stopped: {error}") from error
    if history.stop == "interrupted":
        say(f"stopped after step {len(history)}; the same command with --resume goes on from here")
        return 130
    say(f"{task.final(model.eval())}\nkept in {folder}; try: {_next_command(recipe, folder)}")
    return 0


class _Reporter:
    """Evaluate, and print the numbers with a sample of what the model does."""

    def __init__(self, task: "Task", steps: int, say: Any) -> None:
        self.task, self.steps, self.say = task, steps, say

    def __call__(self, model: "nn.Module") -> dict[str, float]:
        numbers = self.task.evaluate(model)
        listed = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in numbers.items())
        self.say(f"\n── held out: {listed} " + "─" * 20 + f"\n{self.task.show(model)}")
        return numbers


def _prepare(recipe: Recipe, data: str, preset: str) -> "tuple[Task, Any]":
    """Load the data and make the config that fits it."""
    from lecturelib.cli.tasks import PAIRS, TEXTS, PairTask, TextTask

    known = TEXTS if recipe.kind == "language" else PAIRS
    if data not in known:
        raise ValueError(f"--data {data} is not for {recipe.model}; choose one of {', '.join(known)}")
    if recipe.kind == "pairs":
        pairs = PairTask.from_data(data, shared=recipe.shared_vocabulary)
        sizes = {name: len(pairs.target if name.startswith("target") else pairs.source) for name in recipe.vocabulary}
        return pairs, recipe.configure(preset, **sizes)
    length = getattr(recipe.configure(preset, vocab_size=1), "max_len", 64)
    text = TextTask.from_data(data, length)
    return text, recipe.configure(preset, vocab_size=text.tokenizer.vocab_size)


def _plan(recipe: Recipe, task: "Task", arguments: argparse.Namespace, processes: int) -> tuple[Any, int]:
    """The training config, and how many examples a batch has; processes share a step's examples."""
    from lecturelib.training import Cosine, TrainConfig

    steps = arguments.steps or STEPS[recipe.kind]
    batch_size = arguments.batch_size or BATCH_SIZES[recipe.kind]
    if batch_size % processes:
        raise ValueError(f"--batch-size {batch_size} can't be shared evenly by {processes} processes")
    paper = arguments.preset in recipe.papers
    rate = arguments.learning_rate or (3e-4 if paper else recipe.learning_rate)
    every = arguments.evaluate_every or max(1, steps // 10)
    plan = TrainConfig(
        steps=steps,
        learning_rate=rate,
        schedule=Cosine(steps=steps, warmup=min(steps - 1, 100), floor=0.05),
        accumulate=processes,
        precision=arguments.precision,
        device=arguments.device,
        seed=arguments.seed,
        evaluate_every=every,
        checkpoint_every=every,
        monitor=task.monitor,
        higher_is_better=task.higher_is_better,
        parallel=arguments.parallel,
    )
    return plan, batch_size // processes


def _check_folder(folder: Path, arguments: argparse.Namespace, data: str) -> None:
    """Refuse to mix two runs before any work is done."""
    from lecturelib.cli.runs import read_facts

    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; say --out for a folder")
    if not (folder / "run.json").exists():
        return
    if not arguments.resume:
        raise ValueError(f"{folder} already holds a run; say --resume to go on with it, or --out for another folder")
    facts, asked = read_facts(folder), {"model": arguments.model, "data": data, "preset": arguments.preset}
    for name, value in (asked | {"seed": arguments.seed}).items():
        if facts.get(name) != value:
            there = f"{folder} holds a run with {name} {facts.get(name)}, not {value}"
            raise ValueError(f"{there}; ask for that, or say --out for another")


def _next_command(recipe: Recipe, folder: Path) -> str:
    return f"lecturelib sample {folder}" if recipe.kind == "language" else f"lecturelib translate {folder} TEXT"


def _say(text: str) -> None:
    """Print above the progress bar, if there is one."""
    from tqdm.std import tqdm

    tqdm.write(text, file=sys.stdout)
    sys.stdout.flush()


def _silence(text: str) -> None:
    pass
