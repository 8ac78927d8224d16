"""`lecturelib translate`: let a trained encoder-decoder rewrite lines of text."""

import argparse
import sys
from pathlib import Path


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `translate`."""
    parser = subparsers.add_parser(
        "translate",
        help="let a trained encoder-decoder translate",
        description="Translate texts with a trained model: Greek into English, or dates into ISO dates.",
        epilog='examples: `lecturelib translate transformer_greek "Ἐν ἀρχῇ ἦν ὁ λόγος"` uses a model that came with '
        'lecturelib, `lecturelib translate runs/seq2seq-dates-tiny "Tuesday, 3 March 2026"` one that you trained. '
        "Without texts it reads lines from standard input. A beam keeps the K best beginnings at every step instead "
        "of the one best.",
    )
    parser.add_argument(
        "folder", type=Path, metavar="RUN", help="the run's folder, or the name of one that came with lecturelib"
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="what to translate")
    parser.add_argument("--beam", type=int, default=4, metavar="K", help="beam size; 1 is greedy (default: 4)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    parser.set_defaults(run=run, computes=True)


def run(arguments: argparse.Namespace) -> int:
    """Print one line for each text."""
    if arguments.beam < 1:
        raise ValueError(f"--beam {arguments.beam} must be at least 1")

    from lecturelib.recipes.pairs import PairTask
    from lecturelib.recipes.runs import load_model
    from lecturelib.training import find_run

    found = find_run(arguments.folder)
    model = load_model(found, "pairs", arguments.device)
    texts = arguments.texts or [line.rstrip("\n") for line in sys.stdin]
    for line in PairTask.load(found).translate(model, texts, beam_size=arguments.beam):
        print(line)
    return 0
