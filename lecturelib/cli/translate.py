"""`lecturelib translate`: let a trained encoder-decoder rewrite lines of text."""

import argparse
import sys
from pathlib import Path


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `translate`."""
    parser = subparsers.add_parser(
        "translate",
        help="let a trained encoder-decoder translate",
        description="Translate texts with a model trained with `lecturelib train`: dates into ISO dates, for one.",
        epilog='example: lecturelib translate runs/seq2seq-dates-tiny "Tuesday, 3 March 2026". Without texts it reads '
        "lines from standard input. A beam keeps the K best beginnings at every step instead of the one best.",
    )
    parser.add_argument("folder", type=Path, help="the run's folder")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="what to translate")
    parser.add_argument("--beam", type=int, default=4, metavar="K", help="beam size; 1 is greedy (default: 4)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print one line for each text."""
    if arguments.beam < 1:
        raise ValueError(f"--beam {arguments.beam} must be at least 1")

    from lecturelib.cli.runs import load_run
    from lecturelib.cli.tasks import PairTask

    model, task = load_run(arguments.folder, "pairs", arguments.device)
    assert isinstance(task, PairTask)
    texts = arguments.texts or [line.rstrip("\n") for line in sys.stdin]
    for found in task.translate(model, [task.split(text) for text in texts], beam_size=arguments.beam):
        print(task.join(found))
    return 0
