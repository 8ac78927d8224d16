"""Sequence problems that isolate one ability: to remember over a gap, copy, look up, find and add, keep a state.

Each call makes one batch and is a function of its arguments, so `lambda step: copying(32, length=10, seed=step)` is a
stream of batches that training can resume anywhere. Test with seeds that training never reaches, negative ones say.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

IGNORE = -100  # the target of a position where nothing is asked, as torch's cross-entropy expects it
BLANK = 0


@dataclass(frozen=True)
class SequenceBatch:
    """What to read and what to answer, position by position.

    Shapes: inputs (B, T) with ids below vocab_size; targets (B, T), IGNORE where nothing is asked.
    """

    inputs: Tensor
    targets: Tensor
    vocab_size: int


def remembering(batch_size: int, *, gap: int, num_symbols: int = 8, seed: int = 0) -> SequenceBatch:
    """Say, at the end, which symbol came first; `gap` symbols of another alphabet come between.

    Ids: 0 the question, then `num_symbols` symbols to remember, then as many that only distract.
    """
    _check(1, batch_size=batch_size, num_symbols=num_symbols)
    _check(0, gap=gap)
    draw = _generator("remembering", seed)
    inputs = np.zeros((batch_size, gap + 2), dtype=np.int64)
    inputs[:, 0] = draw.integers(1, num_symbols + 1, batch_size)
    inputs[:, 1:-1] = draw.integers(num_symbols + 1, 2 * num_symbols + 1, (batch_size, gap))
    targets = np.full_like(inputs, IGNORE)
    targets[:, -1] = inputs[:, 0]
    return SequenceBatch(torch.from_numpy(inputs), torch.from_numpy(targets), 2 * num_symbols + 1)


def copying(
    batch_size: int, *, length: int, gap: int = 0, num_symbols: int = 8, reverse: bool = False, seed: int = 0
) -> SequenceBatch:
    """Read `length` symbols, wait for `gap` blanks, and write them again, in order or in reverse.

    Ids: 0 blank, then the symbols. T = 2 length + gap.
    """
    _check(1, batch_size=batch_size, num_symbols=num_symbols, length=length)
    _check(0, gap=gap)
    symbols = _generator("copying", seed).integers(1, num_symbols + 1, (batch_size, length))
    blanks = np.full((batch_size, gap + length), BLANK)
    silence = np.full((batch_size, length + gap), IGNORE)
    answer = symbols[:, ::-1] if reverse else symbols
    inputs = np.concatenate([symbols, blanks], axis=1)  # (B, T)
    targets = np.concatenate([silence, answer], axis=1)  # (B, T)
    return SequenceBatch(torch.from_numpy(inputs), torch.from_numpy(targets), num_symbols + 1)


def neighbouring(batch_size: int, *, length: int, num_symbols: int = 8, seed: int = 0) -> SequenceBatch:
    """Name what each symbol and the one two before it mean together, by a fixed table without any order in it.

    What is asked lies within three tokens. Nothing is asked of the first two.
    """
    _check(1, batch_size=batch_size, num_symbols=num_symbols)
    _check(3, length=length)
    table = _generator("table", 0).integers(0, num_symbols, (num_symbols, num_symbols))
    inputs = _generator("neighbouring", seed).integers(0, num_symbols, (batch_size, length))
    targets = np.full_like(inputs, IGNORE)
    targets[:, 2:] = table[inputs[:, :-2], inputs[:, 2:]]
    return SequenceBatch(torch.from_numpy(inputs), torch.from_numpy(targets), num_symbols)


def walking(batch_size: int, *, length: int, fields: int = 4, num_symbols: int = 8, seed: int = 0) -> SequenceBatch:
    """Say after each symbol on which field somebody stands who began on the first of a row with a wall at each end.

    Half of the symbols mean to stay, of the others half mean one step on and half one step back; a step into a wall
    does nothing. So where one stands depends on every symbol so far, and on their order.
    """
    _check(1, batch_size=batch_size, length=length)
    _check(2, fields=fields)
    if num_symbols < 4 or num_symbols % 4:
        raise ValueError(f"num_symbols={num_symbols} must be a multiple of 4: half stay, a quarter each go on and back")
    steps = np.repeat([0, 0, 1, -1], num_symbols // 4)
    inputs = _generator("walking", seed).integers(0, num_symbols, (batch_size, length))
    targets = np.empty_like(inputs)
    here = np.zeros(batch_size, dtype=np.int64)
    for t in range(length):
        here = np.clip(here + steps[inputs[:, t]], 0, fields - 1)
        targets[:, t] = here
    return SequenceBatch(torch.from_numpy(inputs), torch.from_numpy(targets), num_symbols)


def pairing(batch_size: int, *, length: int, num_symbols: int = 8, seed: int = 0) -> SequenceBatch:
    """Read pairs of a name and a thing, and say at a name that was there before which thing came with it.

    Ids: `num_symbols` names, then as many things; a target is the thing's number among the things. In one sequence a
    name always comes with the same thing, in the next with another. What is asked lies at one place, anywhere before.

    Paper: Arora et al. 2024 [arora2024zoology] call it multi-query associative recall.
    Differs: names come again in any order from the start on, not in a second half.
    """
    _check(1, batch_size=batch_size, num_symbols=num_symbols)
    if length < 2 or length % 2:
        raise ValueError(f"length={length} must be even: a name and a thing, again and again")
    draw = _generator("recalling", seed)
    names = draw.integers(0, num_symbols, (batch_size, length // 2))
    things = np.take_along_axis(draw.integers(0, num_symbols, (batch_size, num_symbols)), names, axis=1)
    inputs = np.stack([names, things + num_symbols], axis=2).reshape(batch_size, length)
    earlier = (names[:, :, None] == names[:, None, :]) & np.tri(length // 2, k=-1, dtype=bool)  # (B, pairs, pairs)
    targets = np.full_like(inputs, IGNORE)
    targets[:, ::2] = np.where(earlier.any(axis=2), things, IGNORE)
    return SequenceBatch(torch.from_numpy(inputs), torch.from_numpy(targets), 2 * num_symbols)


RULES = {"neighbouring": neighbouring, "walking": walking, "recalling": pairing}


def mixed_rules(batch_size: int, *, length: int, seed: int = 0) -> SequenceBatch:
    """Sequences of all `RULES` in turn, each rule with an alphabet of its own."""
    _check(1, batch_size=batch_size)
    share = -(-batch_size // len(RULES))
    parts = [make(share, length=length, seed=seed) for make in RULES.values()]
    firsts = np.cumsum([0, *(part.vocab_size for part in parts)])
    inputs = torch.stack([part.inputs + int(first) for part, first in zip(parts, firsts, strict=False)], dim=1)
    targets = torch.stack([part.targets for part in parts], dim=1)  # (share, rules, T)
    vocab_size = int(firsts[-1])
    return SequenceBatch(inputs.flatten(0, 1)[:batch_size], targets.flatten(0, 1)[:batch_size], vocab_size)


def recalling(
    batch_size: int, *, num_pairs: int, num_queries: int, num_keys: int = 32, num_values: int = 16, seed: int = 0
) -> SequenceBatch:
    """Read pairs of a key and a value, then, for keys asked again, say the value each had (associative recall).

    The keys of a sequence are all different, and so are those asked. Ids: 0 unused, then `num_keys` keys, then
    `num_values` values; targets are the values' ids. T = 2 num_pairs + num_queries.
    """
    _check(1, batch_size=batch_size, num_pairs=num_pairs, num_queries=num_queries, num_values=num_values)
    if not num_queries <= num_pairs <= num_keys:
        raise ValueError(
            f"a key is paired once and asked once, so num_queries <= num_pairs <= num_keys, got {num_queries}, "
            f"{num_pairs} and {num_keys}"
        )
    draw = _generator("recalling", seed)
    keys = 1 + draw.random((batch_size, num_keys)).argsort(axis=1)[:, :num_pairs]  # (B, pairs)
    values = draw.integers(1 + num_keys, 1 + num_keys + num_values, (batch_size, num_pairs))
    asked = draw.random((batch_size, num_pairs)).argsort(axis=1)[:, :num_queries]  # (B, queries), which pairs
    pairs = np.stack([keys, values], axis=2).reshape(batch_size, 2 * num_pairs)  # key, value, key, value, ...
    inputs = np.concatenate([pairs, np.take_along_axis(keys, asked, axis=1)], axis=1)  # (B, T)
    targets = np.full_like(inputs, IGNORE)
    targets[:, 2 * num_pairs :] = np.take_along_axis(values, asked, axis=1)
    return SequenceBatch(torch.from_numpy(inputs), torch.from_numpy(targets), 1 + num_keys + num_values)


def looking_up(
    batch_size: int, *, num_pairs: int, num_queries: int, num_keys: int = 32, num_values: int = 8, seed: int = 0
) -> SequenceBatch:
    """Associative recall as in `recalling`, but one token is a key with its value, as a line of a telephone book is.

    Nothing has to be put together from neighbours, so one look at the right place is all that is asked. Ids: key
    number · num_values + value number for the pairs, then `num_keys` questions; targets are the values' numbers.
    T = num_pairs + num_queries.
    """
    plain = recalling(
        batch_size, num_pairs=num_pairs, num_queries=num_queries, num_keys=num_keys, num_values=num_values, seed=seed
    )
    pairs, asked = plain.inputs[:, : 2 * num_pairs].unflatten(1, (-1, 2)), plain.inputs[:, 2 * num_pairs :]
    lines = (pairs[..., 0] - 1) * num_values + pairs[..., 1] - 1 - num_keys  # (B, pairs)
    inputs = torch.cat((lines, num_keys * num_values + asked - 1), dim=1)  # (B, T)
    answers = plain.targets[:, 2 * num_pairs :] - 1 - num_keys
    targets = torch.cat((torch.full_like(lines, IGNORE), answers), dim=1)  # (B, T)
    return SequenceBatch(inputs, targets, num_keys * (num_values + 1))


def hopping(
    batch_size: int, *, num_nodes: int, num_queries: int, max_hops: int, seed: int = 0
) -> tuple[SequenceBatch, Tensor]:
    """Read where each node points, then say for some nodes where 0 to `max_hops` steps along the pointers lead.

    Ids: node · num_nodes + where it points, then (max_hops + 1) · node + hops for the questions; targets are nodes.
    T = num_nodes + num_queries. The second result is how many hops are asked, (B, T), -1 where nothing is.
    """
    _check(1, batch_size=batch_size, num_nodes=num_nodes, num_queries=num_queries)
    _check(0, max_hops=max_hops)
    draw = _generator("hopping", seed)
    pointers = draw.random((batch_size, num_nodes)).argsort(axis=1)  # (B, nodes)
    order = draw.random((batch_size, num_nodes)).argsort(axis=1)  # where each node stands
    start = draw.integers(0, num_nodes, (batch_size, num_queries))
    hops = draw.integers(0, max_hops + 1, (batch_size, num_queries))
    here = start.copy()
    for hop in range(max_hops):
        here = np.where(hop < hops, np.take_along_axis(pointers, here, axis=1), here)
    table = order * num_nodes + np.take_along_axis(pointers, order, axis=1)  # (B, nodes)
    inputs = np.concatenate([table, num_nodes**2 + start * (max_hops + 1) + hops], axis=1)  # (B, T)
    targets = np.concatenate([np.full_like(table, IGNORE), here], axis=1)
    asked = np.concatenate([np.full_like(table, -1), hops], axis=1)
    vocab_size = num_nodes * (num_nodes + max_hops + 1)
    return SequenceBatch(torch.from_numpy(inputs), torch.from_numpy(targets), vocab_size), torch.from_numpy(asked)


def adding(batch_size: int, *, length: int, base: int = 10, seed: int = 0) -> SequenceBatch:
    """Add the two digits that are marked, one in each half of `length` digits, and say the sum at the end.

    After Hochreiter and Schmidhuber's adding problem [hochreiter1997long], with digits in place of real numbers.
    Ids: `base` digits, as many marked ones, and one that asks; targets are the sums, 0 to 2 base - 2. T = length + 1.
    """
    _check(2, length=length, base=base)
    _check(1, batch_size=batch_size)
    draw = _generator("adding", seed)
    digits = draw.integers(0, base, (batch_size, length))
    half = length // 2
    marked = np.stack([draw.integers(0, half, batch_size), draw.integers(half, length, batch_size)], axis=1)  # (B, 2)
    rows = np.arange(batch_size)[:, None]
    sums = digits[rows, marked].sum(axis=1)
    digits[rows, marked] += base
    inputs = np.concatenate([digits, np.full((batch_size, 1), 2 * base)], axis=1)  # (B, T)
    targets = np.full_like(inputs, IGNORE)
    targets[:, -1] = sums
    return SequenceBatch(torch.from_numpy(inputs), torch.from_numpy(targets), 2 * base + 1)


def _generator(task: str, seed: int) -> np.random.Generator:
    """A generator for this task and seed; any integer is a seed."""
    return np.random.Generator(np.random.PCG64([*task.encode(), abs(seed), int(seed < 0)]))


def _check(least: int, **sizes: int) -> None:
    for name, size in sizes.items():
        if size < least:
            raise ValueError(f"{name}={size} must be at least {least}")
