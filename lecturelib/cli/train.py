"""`lecturelib train`: train a model on a data set, watch it learn, keep what it learned."""

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lecturelib.recipes.recipe import RECIPES, Recipe, find_recipe
from lecturelib.recipes.settings import DATA, check_settings, new_settings, old_settings

if TYPE_CHECKING:
    from torch import nn

    from lecturelib.recipes.tasks import Trainable
    from lecturelib.training import TrainConfig

ASKED = (
    "model",
    "data",
    "preset",
    "seed",
    "steps",
    "batch_size",
    "learning_rate",
    "evaluate_every",
    "precision",
    "ema",
)
SHARED = ("learning_rate", "accumulate", "precision", "seed", "evaluate_every", "ema")  # with TrainConfig

EXAMPLES = """
examples:
  lecturelib train gpt --data shakespeare --preset tiny     write like Shakespeare, a minute or two on a laptop
  lecturelib train seq2seq --data dates                     "Tuesday, 3 March 2026" -> "2026-03-03"
  lecturelib train bert                                     fill in the gaps of a text
  lecturelib train gpt --data shakespeare --resume          go on where Ctrl-C, or a crash, stopped it
  torchrun --nproc-per-node 2 -m lecturelib train gpt --data shakespeare --preset small

what you see: every so often the loss (the mean surprise at the next symbol, in nats; lower is better), the same on
text held out from training, and a sample of what the model does. The run's folder keeps what the runs that came with
lecturelib keep (run.json, history.jsonl with a line a step, the best weights, the tokens), and its checkpoints.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `train`."""
    models = "\n".join(
        f"  {name:<12} {recipe.about}\n{'':15}presets: {', '.join(recipe.presets)}" for name, recipe in RECIPES.items()
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
        help="data set: shakespeare for gpt, rnn and bert; dates, cmudict or greek_english for the others",
    )
    parser.add_argument("--preset", help="how large a model (default: tiny)")
    parser.add_argument("--steps", type=int, help="optimizer steps in all")
    parser.add_argument("--batch-size", type=int, help="texts or pairs in one step")
    parser.add_argument("--learning-rate", type=float, help="its peak; it warms up, then falls along a cosine")
    parser.add_argument("--evaluate-every", type=int, help="steps between evaluations (default: a tenth of all)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 or mps (default: auto, the fastest)")
    parser.add_argument("--precision", choices=("fp32", "bf16", "fp16"), help="default: fp32; bf16 suits recent GPUs")
    parser.add_argument("--ema", type=float, metavar="DECAY", help="average the weights, for example with 0.999")
    parser.add_argument("--parallel", default="replicate", choices=("replicate", "shard"), help="under torchrun")
    parser.add_argument("--seed", type=int, help="the same seed gives the same run (default: 0)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="the run's folder (default: runs/MODEL-DATA-PRESET)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in that folder, exactly where it was, with the settings it was started with",
    )
    parser.set_defaults(run=run, computes=True)


def run(arguments: argparse.Namespace) -> int:
    """Train, and say at the end what the model is worth and how to use it."""
    recipe = find_recipe(arguments.model)
    asked = {name: getattr(arguments, name) for name in ASKED}
    check_settings(asked)
    defaults = {"data": arguments.data or DATA[recipe.kind], "preset": arguments.preset or "tiny"}
    folder = arguments.out or Path("runs") / "-".join((arguments.model, *defaults.values()))
    facts = _facts_to_go_on_with(folder, resume=arguments.resume)

    from lecturelib.training import choose_device
    from lecturelib.training.devices import check_precision
    from lecturelib.training.distributed import join_world

    device = choose_device(arguments.device)
    check_precision(arguments.precision or "fp32", device)
    world, device = join_world(device)
    if facts is None:
        settings = new_settings(recipe, asked | defaults, world.size)
    else:
        settings = old_settings(folder, facts, asked)
    with _no_trace_of_a_refusal(folder, mine=world.rank == 0):
        return _train(recipe, settings, folder, arguments, rank=world.rank, is_new=facts is None)


def _train(
    recipe: Recipe, settings: dict[str, Any], folder: Path, arguments: argparse.Namespace, *, rank: int, is_new: bool
) -> int:
    import torch

    from lecturelib.evaluation import count_parameters
    from lecturelib.recipes.tasks import make_task
    from lecturelib.training import NonFiniteError, save_run, train
    from lecturelib.training.distributed import gathered

    say = _say if rank == 0 else _silence
    task, config = make_task(recipe, settings["data"], settings["preset"])
    plan = _plan(task, settings, arguments)
    torch.manual_seed(settings["seed"])
    model = recipe.build(config)
    facts = _facts(settings, config, torch.__version__)
    say(f"{arguments.model} ({settings['preset']}), {count_parameters(model):,} parameters, on {settings['data']}")
    if rank == 0 and is_new:
        folder.mkdir(parents=True, exist_ok=True)
        task.save(folder)
        save_run(folder, facts)
    try:
        history = train(
            model,
            task.batches(settings["batch_size"] // settings["accumulate"], settings["seed"]),
            task.loss,
            plan,
            evaluate=_Reporter(task, say),
            folder=folder,
            resume=arguments.resume,
        )
    except NonFiniteError as error:
        raise ValueError(f"training stopped: {error}") from error
    if history.stop == "interrupted":
        say(f"stopped after step {len(history)}; the same command with --resume goes on from here")
        return 130
    with gathered(model.eval()), torch.no_grad():
        line, results = task.final(model)
    if rank == 0:
        save_run(folder, facts | {"results": results})
    say(f"{line}\nkept in {folder}{_next_command(recipe, folder)}")
    return 0


class _Reporter:
    """Evaluate, and print the numbers with a sample of what the model does."""

    def __init__(self, task: "Trainable", say: Callable[[str], None]) -> None:
        self.task, self.say = task, say

    def __call__(self, model: "nn.Module") -> dict[str, float]:
        numbers = self.task.evaluate(model)
        listed = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in numbers.items())
        self.say(f"\n── held out: {listed} " + "─" * 20 + f"\n{self.task.show(model)}")
        return numbers


def _plan(task: "Trainable", settings: dict[str, Any], arguments: argparse.Namespace) -> "TrainConfig":
    from lecturelib.training import Cosine, TrainConfig

    steps = settings["steps"]
    return TrainConfig(
        steps=steps,
        schedule=Cosine(steps=steps, warmup=min(steps - 1, 100), floor=0.05),
        checkpoint_every=settings["evaluate_every"],
        monitor=task.monitor,
        higher_is_better=task.higher_is_better,
        device=arguments.device,
        parallel=arguments.parallel,
        **{name: settings[name] for name in SHARED},
    )


def _facts(settings: dict[str, Any], config: Any, torch_version: str) -> dict[str, Any]:
    """What run.json says, with the results still open."""
    named = ("model", "data", "preset", "seed")
    options = (name for name in ASKED if name != "model" and settings[name] is not None)
    words = [f"--{name.replace('_', '-')} {settings[name]}" for name in options]
    return {
        "command": " ".join(["lecturelib train", settings["model"], *words]),
        **{name: settings[name] for name in named},
        "config": dataclasses.asdict(config),
        "training": {name: value for name, value in settings.items() if name not in named},
        "results": {},
        "versions": {"torch": torch_version},
    }


def _facts_to_go_on_with(folder: Path, *, resume: bool) -> dict[str, Any] | None:
    """The facts of the run in a folder, None where there is none yet; two runs are never mixed."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; say --out for a folder")
    if not (folder / "run.json").exists():
        return None

    from lecturelib.training import read_run
    from lecturelib.training.checkpoint import WEIGHTS, CheckpointFolder

    has_checkpoint = CheckpointFolder(folder).holds_a_run()
    if not has_checkpoint and not (folder / WEIGHTS).exists():
        return None  # killed before it had anything to keep
    if not resume:
        raise ValueError(f"{folder} already holds a run; say --resume to go on with it, or --out for another folder")
    facts = read_run(folder).facts
    if not has_checkpoint or not {"model", "data", "preset", "training"} <= facts.keys():
        raise ValueError(f"{folder} holds a finished run, without what it takes to go on; say --out for another folder")
    return facts


@contextlib.contextmanager
def _no_trace_of_a_refusal(folder: Path, *, mine: bool) -> Iterator[None]:
    """Take away what a run wrote that failed before its first checkpoint, so that it is not in the way of the next."""
    before = set(folder.iterdir()) if folder.is_dir() else None
    try:
        yield
    except (ValueError, LookupError, OSError):
        from lecturelib.training.checkpoint import CheckpointFolder

        if mine and folder.is_dir() and not CheckpointFolder(folder).holds_a_run():
            for path in set(folder.iterdir()) - (before or set()):
                path.unlink()
            if before is None:
                folder.rmdir()
        raise


def _next_command(recipe: Recipe, folder: Path) -> str:
    words = {"language": f"sample {folder}", "pairs": f"translate {folder} TEXT"}
    return f"; try: lecturelib {words[recipe.kind]}" if recipe.kind in words else ""


def _say(text: str) -> None:
    """Print above the progress bar, if there is one."""
    from tqdm.std import tqdm

    tqdm.write(text, file=sys.stdout)
    sys.stdout.flush()


def _silence(text: str) -> None:
    pass
