"""`lecturelib sample`: let a trained language model go on with a text."""

import argparse
from pathlib import Path


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `sample`."""
    parser = subparsers.add_parser(
        "sample",
        help="let a trained language model write",
        description="Let a trained language model go on with a prompt.",
        epilog="examples: `lecturelib sample gpt_shakespeare --prompt 'To be'` lets a model write that came with "
        "lecturelib, `lecturelib sample runs/gpt-shakespeare-tiny` one that you trained, `lecturelib sample smollm2` a "
        "pretrained one (93 MB to fetch). A temperature below 1 plays "
        "safe, above 1 takes risks, and 0 always takes the likeliest symbol (and soon repeats itself). --top-k and "
        "--top-p cut off the unlikely: the first keeps so many symbols, the second the fewest that together have so "
        "much probability.",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="RUN",
        help="the run's folder, the name of one that came with lecturelib, smollm2, or a GGUF file (default: the "
        "newest one in runs/)",
    )
    parser.add_argument("--prompt", default="", help="the text to go on with")
    parser.add_argument("--length", type=int, default=500, help="how many symbols to write (default: 500)")
    parser.add_argument("--temperature", type=float, default=0.8, help="default: 0.8")
    parser.add_argument("--top-k", type=int, metavar="K", help="choose among the K likeliest symbols")
    parser.add_argument("--top-p", type=float, metavar="P", help="choose among the likeliest with probability P")
    parser.add_argument("--seed", type=int, default=0, help="the same seed writes the same text (default: 0)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    parser.set_defaults(run=run, computes=True)


def run(arguments: argparse.Namespace) -> int:
    """Print the prompt and what follows."""
    if arguments.length < 0:
        raise ValueError(f"--length {arguments.length} must not be negative")
    if arguments.temperature < 0:
        raise ValueError(f"--temperature {arguments.temperature} must not be negative")

    import torch

    from lecturelib.evaluation import Sampler, greedy
    from lecturelib.recipes.pretrained import is_pretrained, load_pretrained
    from lecturelib.recipes.runs import load_model, newest_run
    from lecturelib.recipes.texts import TextTask
    from lecturelib.training import find_run

    model: torch.nn.Module
    if arguments.folder is not None and is_pretrained(arguments.folder):
        loaded = load_pretrained(arguments.folder, arguments.device)
        task, model = TextTask(loaded.tokenizer), loaded.model
    else:
        found = newest_run("language") if arguments.folder is None else find_run(arguments.folder)
        model = load_model(found, "language", arguments.device)  # first: it names what a wrong run lacks
        task = TextTask.load(found)
    generator = torch.Generator(next(model.parameters()).device).manual_seed(arguments.seed)
    if arguments.temperature == 0:
        choose = greedy
    else:
        choose = Sampler(
            temperature=arguments.temperature, top_k=arguments.top_k, top_p=arguments.top_p, generator=generator
        )
    print(task.sample(model, arguments.prompt, arguments.length, choose))
    return 0
