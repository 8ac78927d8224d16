"""Measure on SmolLM2's weights what chapter 20 shows and a page cannot wait for: `python book/runs/inside_smollm2.py`.

Patching every head, answers after more and more examples, also with heads switched off, the loss by position, sums, and
the price of fewer bits: seven minutes on one core, nothing is trained. Writes lecturelib/runs/inside_smollm2/, a row of
history for each measurement; what is in the history already is not measured again. The chapter measures parts of it
once more.
"""

import argparse
import math
import platform
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lecturelib.data import shakespeare
from lecturelib.evaluation import attention_of, generate, head_averages, induction_scores, patched, switched_off
from lecturelib.layers import quantise, stored_bytes
from lecturelib.models import Llama
from lecturelib.recipes.pretrained import Pretrained, load_pretrained
from lecturelib.tokens import BPETokenizer
from lecturelib.training import save_run, shipped_run

RUN = Path(__file__).resolve().parents[2] / "lecturelib" / "runs" / "inside_smollm2"
SHOTS = (0, 1, 2, 4, 8)
CONTEXT, TEXTS = 256, 16  # tokens of a passage, and how many passages
BITS = (32, 8, 4)
FEWER = (3, 2)  # bits that no layer of ours stores: the weights are rounded to what so many bits would leave
INDUCERS, PERIOD, DRAWS = 6, 24, 5  # how many heads are switched off, the block that finds them, and draws of others

Heads = list[tuple[int, int]]

TASKS = {
    "capitals": "France Paris Japan Tokyo Italy Rome Egypt Cairo Spain Madrid Norway Oslo Greece Athens Cuba Havana "
    "Poland Warsaw Kenya Nairobi Peru Lima Austria Vienna Russia Moscow Germany Berlin Portugal Lisbon Ireland Dublin",
    "opposites": "hot cold big small up down fast slow day night wet dry old young good bad high low rich poor open "
    "closed happy sad light dark full empty early late hard soft",
    "past tense": "go went see saw eat ate run ran take took give gave write wrote sing sang come came know knew think "
    "thought buy bought find found make made break broke speak spoke",
}


class Prompts(NamedTuple):
    """Sentences with two names, the same with the giver exchanged, and the two names as tokens. Shapes: (B, T), (B,)"""

    clean: Tensor
    other: Tensor
    right: Tensor  # who receives: the name that has been said once
    wrong: Tensor  # who gives: the name that has been said twice


def indirect_objects(tokenizer: BPETokenizer) -> Prompts:
    """32 sentences in which one of two people gives something to the other, as many for each name."""
    clean, other, right, wrong = [], [], [], []
    for first, second in (("Mary", "John"), ("Anna", "Peter"), ("Alice", "Bob"), ("Sarah", "David")):
        for place in ("the store", "the park"):
            for start, gift in (("When", "drink"), ("After", "book")):
                for giver, receiver in ((second, first), (first, second)):
                    scene = f"{start} {first} and {second} went to {place},"
                    clean.append(tokenizer.encode(f"{scene} {giver} gave a {gift} to"))
                    other.append(tokenizer.encode(f"{scene} {receiver} gave a {gift} to"))
                    right += tokenizer.encode(f" {receiver}")
                    wrong += tokenizer.encode(f" {giver}")
    return Prompts(*map(torch.tensor, (clean, other, right, wrong)))


@torch.no_grad()
def margins(model: Llama, texts: Tensor, prompts: Prompts) -> Tensor:
    """The logit of the right name less that of the wrong one, after each text. Shapes: (B, T) -> (B,)"""
    logits = model.head(model.features(texts)[:, -1])  # (B, V)
    return (logits.gather(1, prompts.right[:, None]) - logits.gather(1, prompts.wrong[:, None])).squeeze(1)


@torch.no_grad()
def patching(model: Llama, prompts: Prompts, layers: range) -> list[list[float]]:
    """How far each head of some layers moves the margin towards the other sentence's, when it is given its output.

    0 is no effect; 1 is all of the difference between the two sentences.
    """
    before, after = (float(margins(model, texts, prompts).mean()) for texts in (prompts.clean, prompts.other))
    averages = head_averages(model, prompts.other)
    rows = []
    for layer in layers:
        rows.append([])
        for head in range(model.config.num_heads):
            with patched(model, {(layer, head): averages[layer, :, :, head]}):
                now = float(margins(model, prompts.clean, prompts).mean())
            rows[-1].append(round((before - now) / (before - after), 4))
    return rows


@torch.no_grad()
def few_shot(pretrained: Pretrained, task: str, shots: int, count: int = 16) -> dict[str, float]:
    """How often the likeliest next token is the answer after so many solved examples, and what the answer costs."""
    model, tokenizer = pretrained
    words = TASKS[task].split()
    pairs = list(zip(words[0::2], words[1::2], strict=True))
    right, losses = 0, 0.0
    for number, (asked, answer) in enumerate(pairs[:count]):
        others = [pair for pair in pairs if pair[0] != asked]
        shown = random.Random(number).sample(others, shots)
        prompt = "".join(f"{a} -> {b}\n" for a, b in shown) + f"{asked} ->"
        logits = model.head(model.features(torch.tensor([tokenizer.encode(prompt)]))[0, -1])
        first = tokenizer.encode(f" {answer}")[0]
        right += int(logits.argmax()) == first
        losses -= float(logits.log_softmax(dim=-1)[first])
    return {"right": round(right / count, 4), "loss": round(losses / count, 4)}


def inducers(model: Llama) -> Heads:
    """The heads with the largest induction scores, on four blocks of random tokens read twice, as in the chapter."""
    block = torch.randint(1000, 40_000, (4, PERIOD), generator=torch.Generator().manual_seed(0))
    twice = torch.cat([torch.zeros(4, 1, dtype=torch.long), block, block], dim=1)  # (4, 1 + 2 PERIOD)
    scores = induction_scores(attention_of(model, twice), period=PERIOD)  # (L, H)
    return [divmod(int(index), model.config.num_heads) for index in scores.flatten().topk(INDUCERS).indices]


def others(heads: Heads, num_heads: int, seed: int) -> Heads:
    """As many other heads, drawn from the same layers."""
    draw = random.Random(seed)
    drawn: Heads = []
    for layer, _ in heads:
        drawn.append((layer, draw.choice([n for n in range(num_heads) if (layer, n) not in [*heads, *drawn]])))
    return drawn


def few_shot_without(pretrained: Pretrained, heads: Heads, shots: int) -> dict[str, Any]:
    """The same over all tasks, with some heads switched off."""
    with switched_off(pretrained.model, heads):
        found = [few_shot(pretrained, task, shots) for task in TASKS]
    return {name: round(sum(row[name] for row in found) / len(found), 4) for name in ("right", "loss")} | {
        "heads": [list(head) for head in heads]
    }


@torch.no_grad()
def sums(pretrained: Pretrained, digits: int, count: int = 16) -> float:
    """The share of additions of two numbers that it continues correctly, after four that are solved."""
    model, tokenizer = pretrained
    draw = random.Random(digits)
    low, high = (1, 9) if digits == 1 else (10 ** (digits - 1), 10**digits - 1)
    right = 0
    for _ in range(count):
        pairs = [(draw.randint(low, high), draw.randint(low, high)) for _ in range(5)]
        prompt = "".join(f"{a}+{b}={a + b}\n" for a, b in pairs[:-1]) + "{}+{}=".format(*pairs[-1])
        ids = torch.tensor([tokenizer.encode(prompt)])
        written = tokenizer.decode(generate(model, ids, max_new_tokens=5)[0, ids.shape[1] :].tolist())
        number = re.match(r"\d+", written)
        right += number is not None and int(number[0]) == sum(pairs[-1])
    return round(right / count, 4)


@cache
def passages(tokenizer: BPETokenizer, count: int = TEXTS) -> Tensor:
    """Held-out Shakespeare in pieces. Shapes: -> (count, CONTEXT + 1)"""
    ids = torch.tensor(tokenizer.encode(shakespeare().test[: 8 * count * CONTEXT]))
    return ids[: count * (CONTEXT + 1)].view(count, CONTEXT + 1)


@torch.no_grad()
def losses(model: Llama, texts: Tensor) -> Tensor:
    """What each token costs, in nats, given those before it. Shapes: (B, 1 + T) -> (B, T)"""
    rows = [F.cross_entropy(model(row[None, :-1])[0], row[1:], reduction="none") for row in texts]
    return torch.stack(rows)


@torch.no_grad()
def round_weights(model: Llama, bits: int) -> Llama:
    """Leave of each block of 32 weights, in place, what so many bits would: steps from the block's least value up."""
    for part in model.modules():
        if isinstance(part, torch.nn.Linear):
            blocks = part.weight.view(-1, 32)
            least = blocks.amin(dim=1, keepdim=True)
            step = (blocks.amax(dim=1, keepdim=True) - least).clamp(min=1e-12) / (2**bits - 1)
            blocks.sub_(least).div_(step).round_().mul_(step).add_(least)
    return model


def measurements(pretrained: Pretrained) -> dict[str, Callable[[], dict[str, Any]]]:
    """What is measured, by name; the last one spoils the model, which is loaded again."""
    model, tokenizer = pretrained

    def heads() -> dict[str, Any]:
        prompts = Prompts(*(part[:8] for part in indirect_objects(tokenizer)))
        return {"effect": patching(model, prompts, range(model.config.num_layers))}

    def position() -> dict[str, Any]:
        return {"losses": [round(value, 3) for value in losses(model, passages(tokenizer)).mean(dim=0).tolist()]}

    def quantised(bits: int) -> dict[str, Any]:
        kept = load_pretrained().model if bits < 32 else model
        small = quantise(kept, bits=bits) if bits < 32 else kept
        loss = float(losses(small, passages(tokenizer)[:8]).mean())
        return {"perplexity": round(math.exp(loss), 3), "megabytes": round(stored_bytes(small) / 1e6, 1)}

    def coarse(bits: int) -> dict[str, Any]:
        loss = float(losses(round_weights(load_pretrained().model, bits), passages(tokenizer)[:8]).mean())
        return {"perplexity": round(math.exp(loss), 3)}

    def without(draw: int | None) -> dict[str, Any]:
        heads = inducers(model)
        off = heads if draw is None else others(heads, model.config.num_heads, draw)
        return few_shot_without(pretrained, off, SHOTS[-1])

    found: dict[str, Callable[[], dict[str, Any]]] = {"patching": heads, "position": position}
    for task in TASKS:
        for shots in SHOTS:
            found[f"{task}, {shots} shown"] = lambda task=task, shots=shots: few_shot(pretrained, task, shots)
    found["without induction heads"] = lambda: without(None)
    for draw in range(DRAWS):
        found[f"without other heads, draw {draw}"] = lambda draw=draw: without(draw)
    for digits in (1, 2, 3):
        found[f"sums of {digits} digits"] = lambda digits=digits: {"right": sums(pretrained, digits)}
    for bits in BITS:
        found[f"{bits} bits"] = lambda bits=bits: quantised(bits)
    for bits in FEWER:
        found[f"rounded to {bits} bits"] = lambda bits=bits: coarse(bits)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=RUN, help="where the run goes")
    parser.add_argument("--only", nargs="+", default=None, help="names of measurements (default: all)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = arguments.folder
    rows = shipped_run(folder.name, folder.parent).rows if (folder / "run.json").exists() else []
    pretrained = load_pretrained()
    for name, measure in measurements(pretrained).items():
        if any(row["name"] == name for row in rows) or (arguments.only and name not in arguments.only):
            continue
        rows.append({"name": name, **measure()})
        print(str(rows[-1])[:200], flush=True)
        facts = {
            "command": "python book/runs/inside_smollm2.py",
            "seed": 0,
            "config": {"model": "smollm2", "context": CONTEXT, "passages": TEXTS, "patched_sentences": 8},
            "results": {row["name"]: row["right"] for row in rows if "right" in row},
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
        }
        save_run(folder, facts, rows)


if __name__ == "__main__":
    main()
