"""`lecturelib info`: what a model costs, before anybody trains it."""

import argparse
import contextlib
from typing import Any

from lecturelib.recipes.recipe import RECIPES, Recipe, find_recipe


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `info`."""
    models = "\n".join(f"  {name:<12} {', '.join(recipe.presets)}" for name, recipe in RECIPES.items())
    parser = subparsers.add_parser(
        "info",
        help="parameters, FLOPs and memory of a model",
        description="Say what a model costs: parameters, floating-point operations, and memory to train and to use it.",
        epilog=f"models and presets:\n{models}\n\nA transformer is built of tensors that have a shape and no content, "
        "so that\ngpt2-xl takes no more memory than tiny. A multiplication and an addition count as\ntwo FLOPs.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="which architecture, see below")
    parser.add_argument("--preset", help="which size (default: all)")
    parser.add_argument("--batch-size", type=int, default=1, help="texts at once (default: 1)")
    parser.add_argument("--length", type=int, help="tokens in each (default: as many as the model can read, else 64)")
    parser.add_argument("--vocab-size", type=int, default=256, help="for presets that leave it to the data")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a block of lines for each preset."""
    recipe = find_recipe(arguments.model)
    for name in ("batch_size", "length", "vocab_size"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} {value} must be at least 1")
    for preset in recipe.presets if arguments.preset is None else [arguments.preset]:
        _print_costs(recipe, preset, arguments)
    return 0


def _print_costs(recipe: Recipe, preset: str, arguments: argparse.Namespace) -> None:
    from lecturelib.evaluation import imagined, measure

    open_sizes = {} if preset in recipe.papers else dict.fromkeys(recipe.vocabulary, arguments.vocab_size)
    config = recipe.configure(preset, **open_sizes)
    length = arguments.length or getattr(config, "max_len", 64)
    if length > getattr(config, "max_len", length):
        raise ValueError(f"--length {length} is more than the {config.max_len} tokens that {preset} can read")
    with contextlib.nullcontext() if recipe.needs_content else imagined():
        cost = measure(recipe.build(config).eval(), *_inputs(recipe, arguments.batch_size, length))
    print(f"{recipe.model} {preset}: {cost.parameters:,} parameters")
    print(f"  weights            {_size(4 * cost.parameters)} in fp32, {_size(2 * cost.parameters)} in bf16")
    print(f"  forward pass       {cost.flops / 1e9:,.3f} GFLOPs for {arguments.batch_size} × {length} tokens")
    print(f"  training step      {cost.training_flops / 1e9:,.3f} GFLOPs, forward and backward")
    state = _size(2 * 4 * cost.parameters + cost.optimizer_bytes)
    print(f"  training memory    {state} for weights, gradients and AdamW's two moments,")
    print(f"                     {_size(cost.activation_bytes)} for activations")
    if recipe.kind != "masked":  # which reads a text at once and has nothing to keep
        _print_cache(config, arguments.batch_size, length)


def _print_cache(config: Any, batch: int, length: int) -> None:
    """Print the size of the key-value cache, for models that have one."""
    from lecturelib.evaluation import cache_bytes_of

    if hasattr(config, "num_heads") and hasattr(config, "num_layers"):
        size = cache_bytes_of(config, batch=batch, length=length)
        print(f"  key-value cache    {_size(size)} in fp32 after {length} tokens")


def _inputs(recipe: Recipe, batch: int, length: int) -> tuple[Any, ...]:
    import torch

    tokens = torch.zeros(batch, length, dtype=torch.int64)
    if recipe.kind == "pairs":
        return tokens, torch.full((batch,), length) if recipe.needs_content else None, tokens
    return (tokens,)


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.1f} GB"
