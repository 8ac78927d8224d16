"""The committed runs of chapter 14: what cheap mixers can and cannot do, learned spans, and time to think.

    python book/runs/efficient_attention.py efficient_adding    # all mixers: two numbers far apart, equal FLOPs
    python book/runs/efficient_attention.py efficient_recall    # all mixers: associative recall, equal FLOPs
    python book/runs/efficient_attention.py efficient_spans     # how far each head of an adaptive span learns to look
    python book/runs/efficient_attention.py efficient_ponder    # how long a universal transformer thinks (ACT)

Each writes lecturelib/runs/NAME, a row of history for every model trained. What is in the history already is not
trained again, so an interrupted run goes on where it stopped. In the first two every model has the same width, blocks,
steps and batches, and a feed-forward net just as wide as makes a forward pass cost what exact attention costs.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data import SequenceBatch
from lecturelib.data.sets.sequences import IGNORE, adding, copying, hopping, looking_up
from lecturelib.evaluation import count_flops, count_parameters
from lecturelib.layers import (
    AdaptiveSpan,
    BigBird,
    Block,
    FeedForward,
    FourierMixing,
    LatentMixing,
    Linformer,
    LocalAttention,
    MultiHeadAttention,
    Performer,
    PreNorm,
    Reformer,
    SharedWorkspace,
    Thought,
    TokenMixing,
    UniversalTransformer,
)
from lecturelib.models import TokenLabeller, TokenLabellerConfig
from lecturelib.training import Cosine, TrainConfig, read_run, save_run, train
from lecturelib.training.runs import RUNS

Row = dict[str, Any]
Task = tuple[Row, Callable[[], tuple[Row, nn.Module | None]]]  # a case, and how to train and measure it
BATCH, TESTED = 32, 512

# Quality

LENGTH, WIDTH, HEADS, BLOCKS = 64, 32, 2, 2
SIZES = {"window": 4, "memory tokens": 4, "block": 4, "chunk": 8, "mixtures": 8, "features": 16, "latents": 8}
SIZES |= {"slots": 8, "longest span": 8}


def thinking(d_ff: int) -> nn.Module:
    """The universal transformer as a mixer: one block, as often as the others have blocks."""
    block = Block(
        MultiHeadAttention(WIDTH, HEADS), FeedForward(WIDTH, d_ff, activation=F.gelu), partial(PreNorm, WIDTH)
    )
    return UniversalTransformer(block, WIDTH, max_steps=BLOCKS)


MIXERS: dict[str, Callable[[int], nn.Module]] = {  # each is given the width of the feed-forward net
    "exact attention": lambda _: MultiHeadAttention(WIDTH, HEADS),
    "local": lambda _: LocalAttention(WIDTH, HEADS, window=SIZES["window"]),
    "local + memory": lambda _: LocalAttention(WIDTH, HEADS, window=SIZES["window"], num_memory=SIZES["memory tokens"]),
    "Big Bird": lambda _: BigBird(WIDTH, HEADS, max_len=LENGTH, block=SIZES["block"], num_random=1),
    "Reformer": lambda _: Reformer(WIDTH, HEADS, num_buckets=8, chunk=SIZES["chunk"], num_hashes=2),
    "Linformer": lambda _: Linformer(WIDTH, HEADS, max_len=LENGTH, k=SIZES["mixtures"]),
    "Performer": lambda _: Performer(WIDTH, HEADS, num_features=SIZES["features"]),
    "Perceiver": lambda _: LatentMixing(WIDTH, HEADS, num_latents=SIZES["latents"]),
    "Shared Workspace": lambda _: SharedWorkspace(WIDTH, HEADS, num_slots=SIZES["slots"], num_writers=8),
    "adaptive span": lambda _: AdaptiveSpan(WIDTH, HEADS, max_span=SIZES["longest span"], ramp=4, start=4.0),
    "Universal Transformer": thinking,
    "FNet": lambda _: FourierMixing(),
    "MLP-Mixer": lambda _: TokenMixing(LENGTH, LENGTH),
}


def recall(batch_size: int, *, seed: int) -> SequenceBatch:
    half = LENGTH // 2
    return looking_up(batch_size, num_pairs=half, num_queries=half, num_keys=half, num_values=8, seed=seed)


def far_sums(batch_size: int, *, seed: int) -> SequenceBatch:
    return adding(batch_size, length=LENGTH - 1, base=4, seed=seed)


def labeller(mixer: str, vocab_size: int, d_ff: int) -> TokenLabeller:
    """A model of two blocks, or of one whose mixer is itself a block that is used twice."""
    config = TokenLabellerConfig(
        vocab_size=vocab_size,
        num_labels=8,
        max_len=LENGTH,
        d_model=WIDTH,
        num_layers=1 if mixer == "Universal Transformer" else BLOCKS,
        d_ff=d_ff,
    )
    return TokenLabeller(config, partial(MIXERS[mixer], d_ff))


def equal_width(mixer: str, vocab_size: int) -> tuple[int, int]:
    """The width of the feed-forward net that makes the model cost what exact attention does, and what it costs."""
    one = torch.zeros(1, LENGTH, dtype=torch.long)

    def flops(name: str, d_ff: int) -> int:
        return count_flops(labeller(name, vocab_size, d_ff).eval(), one)

    wanted = flops("exact attention", 4 * WIDTH)
    least, more = flops(mixer, WIDTH), flops(mixer, 2 * WIDTH)
    d_ff = WIDTH + round((wanted - least) * WIDTH / (more - least))  # the cost is linear in the width
    if d_ff < 1:
        raise ValueError(f"{mixer} costs more than exact attention, even without a feed-forward net")
    return d_ff, flops(mixer, d_ff)


def label_loss(model: nn.Module, batch: SequenceBatch) -> Tensor:
    return F.cross_entropy(model(batch.inputs).flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE)


@torch.no_grad()
def right(model: nn.Module, batch: SequenceBatch) -> float:
    """The part of right answers among those asked for."""
    asked = batch.targets != IGNORE
    return round(float((model.eval()(batch.inputs).argmax(dim=-1) == batch.targets)[asked].float().mean()), 4)


def fit(
    model: nn.Module,
    batches: Callable[[int], Any],
    loss: Callable[..., Tensor],
    steps: int,
    seed: int,
    learning_rate: float = 5e-3,
) -> None:
    schedule = Cosine(steps=steps, warmup=steps // 20)
    plan = TrainConfig(
        steps=steps, learning_rate=learning_rate, schedule=schedule, seed=seed, device="cpu", progress=False
    )
    if train(model, batches, loss, plan).stop == "interrupted":
        raise KeyboardInterrupt  # half a training is no measurement


def quality_cases(make: Callable[..., SequenceBatch], steps: int, seeds: range) -> Iterator[Task]:
    def work(mixer: str, seed: int) -> tuple[Row, None]:
        d_ff, flops = equal_width(mixer, make(1, seed=0).vocab_size)
        torch.manual_seed(seed)
        model = labeller(mixer, make(1, seed=0).vocab_size, d_ff)
        fit(model, lambda step: make(BATCH, seed=1_000_000 * (seed + 1) + step), label_loss, steps, seed)
        row = {"d_ff": d_ff, "flops": flops, "parameters": count_parameters(model)}
        return row | {"right": right(model, make(TESTED, seed=-1))}, None

    for seed in seeds:
        for mixer in MIXERS:
            yield {"mixer": mixer, "seed": seed}, partial(work, mixer, seed)


# Spans: copying asks at every place for the symbol that stands a fixed distance before

DISTANCES, SPAN, SPAN_HEADS, SPAN_PRICE = (8, 16, 32), 48, 4, 0.3


def span_cases(steps: int, seeds: range) -> Iterator[Task]:
    def work(distance: int, seed: int) -> tuple[Row, None]:
        make = partial(copying, length=8, gap=distance - 8)
        batch = make(1, seed=0)
        config = TokenLabellerConfig(
            vocab_size=batch.vocab_size,
            num_labels=batch.vocab_size,
            max_len=batch.inputs.shape[1],
            d_model=WIDTH,
            num_layers=1,
            is_causal=True,
        )
        torch.manual_seed(seed)
        layer = AdaptiveSpan(WIDTH, SPAN_HEADS, max_span=SPAN, ramp=4)
        with torch.no_grad():
            layer.fractions.copy_(torch.arange(1, SPAN_HEADS + 1) / SPAN_HEADS)  # heads begin apart
        model = TokenLabeller(config, lambda: layer)

        def loss(model: nn.Module, batch: SequenceBatch) -> Tensor:
            return label_loss(model, batch) + SPAN_PRICE * layer.spans.mean() / SPAN

        fit(model, lambda step: make(BATCH, seed=1_000_000 * (seed + 1) + step), loss, steps, seed)
        row = {"right": right(model, make(TESTED, seed=-1))}
        return row | {"spans": [round(span, 2) for span in layer.spans.tolist()]}, None

    for seed in seeds:
        for distance in DISTANCES:
            yield {"distance": distance, "seed": seed}, partial(work, distance, seed)


# Pondering: the farther the pointers lead, the more steps are needed

NODES, MAX_HOPS, MAX_STEPS = 6, 3, 6
PRICES = (0.01, 0.0)
FREE_PART, FULL_FROM = 0.4, 0.6  # of the training: thinking is free at first, and has its full price from then on


class Thinker(nn.Module):
    """Tokens, a universal transformer, and the node that each question leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(NODES * (NODES + MAX_HOPS + 1), WIDTH)
        nn.init.normal_(self.embed.weight)  # larger than the positions that every step adds
        block = Block(
            MultiHeadAttention(WIDTH, HEADS), FeedForward(WIDTH, 4 * WIDTH, activation=F.gelu), partial(PreNorm, WIDTH)
        )
        self.universal = UniversalTransformer(block, WIDTH, max_steps=MAX_STEPS)
        nn.init.constant_(self.universal.halt.bias, -2.0)  # think long at first: who halts early never learns to hop
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, NODES)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Thought]:
        """Shapes: (B, T) -> logits (B, T, nodes), and how long each token took"""
        thought = self.universal.think(self.embed(tokens))
        return self.head(self.norm(thought.hidden)), thought


def questions(batch_size: int, *, seed: int) -> tuple[SequenceBatch, Tensor]:
    return hopping(batch_size, num_nodes=NODES, num_queries=2 * NODES, max_hops=MAX_HOPS, seed=seed)


def ponder_cases(steps: int, seeds: range) -> Iterator[Task]:
    def work(price: float, seed: int) -> tuple[Row, nn.Module | None]:
        torch.manual_seed(seed)
        model = Thinker()

        def batches(step: int) -> tuple[SequenceBatch, float]:
            part = (step / steps - FREE_PART) / (FULL_FROM - FREE_PART)
            return questions(2 * BATCH, seed=1_000_000 * (seed + 1) + step)[0], price * min(1.0, max(0.0, part))

        def loss(model: nn.Module, drawn: tuple[SequenceBatch, float]) -> Tensor:
            batch, price_now = drawn
            logits, thought = model(batch.inputs)
            error = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE)
            return error + price_now * (thought.steps + thought.remainders).mean()

        fit(model, batches, loss, steps, seed, learning_rate=3e-3)
        return pondered(model), model if price == PRICES[0] and seed == seeds[0] else None

    for seed in seeds:
        for price in PRICES:
            yield {"price": price, "seed": seed}, partial(work, price, seed)


@torch.no_grad()
def pondered(model: nn.Module) -> Row:
    """The part of right answers, and the mean number of steps, for each number of hops asked for."""
    batch, hops = questions(TESTED, seed=-1)
    logits, thought = model.eval()(batch.inputs)
    good, asked = (logits.argmax(dim=-1) == batch.targets).float(), [hops == many for many in range(MAX_HOPS + 1)]
    return {
        "right": [round(float(good[there].mean()), 4) for there in asked],
        "steps": [round(float(thought.steps[there].mean()), 3) for there in asked],
        "steps of the table": round(float(thought.steps[hops < 0].mean()), 3),
    }


@dataclass(frozen=True)
class Program:
    """What a run trains, how long, with how many seeds, and what to store as its config."""

    cases: Callable[[int, range], Iterator[Task]]
    steps: int
    seeds: int
    config: Row


MODEL = {"length": LENGTH, "d_model": WIDTH, "num_heads": HEADS, "num_layers": BLOCKS, "batch": BATCH}
MODEL |= {"mixers": list(MIXERS), "sizes": SIZES}
PROGRAMS = {
    "efficient_adding": Program(partial(quality_cases, far_sums), 250, 3, MODEL),
    "efficient_recall": Program(partial(quality_cases, recall), 250, 3, MODEL),
    "efficient_spans": Program(
        span_cases, 400, 3, {"distances": list(DISTANCES), "max_span": SPAN, "heads": SPAN_HEADS, "price": SPAN_PRICE}
    ),
    "efficient_ponder": Program(
        ponder_cases,
        2500,
        2,
        {"nodes": NODES, "max_hops": MAX_HOPS, "max_steps": MAX_STEPS, "prices": list(PRICES), "free_part": FREE_PART},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--steps", type=int, help="of each training (default: what the chapter shows)")
    parser.add_argument("--seeds", type=int, help="how many, from 0 on")
    parser.add_argument("--runs", type=Path, default=RUNS, help="where the folder of the run goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    program, folder = PROGRAMS[arguments.name], arguments.runs / arguments.name
    steps, seeds = arguments.steps or program.steps, range(arguments.seeds or program.seeds)
    config = program.config | {"steps": steps}
    facts = {
        "command": f"python book/runs/efficient_attention.py {arguments.name} --steps {steps} --seeds {len(seeds)}",
        "seed": list(seeds),
        "config": config,
        "torch": torch.__version__,
    }
    stored, rows = stored_rows(folder, config), []
    for case, work in program.cases(steps, seeds):
        found = next((row for row in stored if row["case"] == case), None)
        row, model = (found, None) if found else work()
        rows.append({"case": case} | row)
        print(rows[-1], flush=True)
        save_run(folder, facts | {"results": {"trained": len(rows)}}, rows, model)


def stored_rows(folder: Path, config: Row) -> list[Row]:
    """What an earlier run with the same settings and torch has measured: each row is a training of its own."""
    if not (folder / "run.json").exists():
        return []
    run = read_run(folder)
    return run.rows if (run.facts["config"], run.facts["torch"]) == (config, torch.__version__) else []


if __name__ == "__main__":
    main()
