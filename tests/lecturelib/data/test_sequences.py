"""Remembering, copying, recalling, adding, and the three rules of chapter 21."""

import pytest
import torch

from lecturelib.data import (
    RULES,
    adding,
    copying,
    hopping,
    looking_up,
    mixed_rules,
    neighbouring,
    pairing,
    recalling,
    remembering,
    walking,
)
from lecturelib.data.sets.sequences import IGNORE


def test_remembering_asks_for_the_first_symbol_and_nothing_else():
    batch = remembering(50, gap=7, num_symbols=3, seed=1)
    assert batch.inputs.shape == (50, 9)
    assert torch.equal(batch.targets[:, -1], batch.inputs[:, 0])
    assert (batch.targets[:, :-1] == IGNORE).all()
    assert set(batch.inputs[:, 0].tolist()) == {1, 2, 3}
    assert set(batch.inputs[:, 1:-1].flatten().tolist()) == {4, 5, 6}
    assert batch.vocab_size == 7
    assert remembering(2, gap=0).inputs.shape == (2, 2)


@pytest.mark.parametrize("reverse", [False, True])
def test_copying_asks_for_the_symbols_again(reverse):
    batch = copying(6, length=4, gap=3, num_symbols=5, reverse=reverse)
    symbols = batch.inputs[:, :4]
    assert (batch.inputs[:, 4:] == 0).all()
    assert (batch.targets[:, :7] == IGNORE).all()
    assert torch.equal(batch.targets[:, 7:], symbols.flip(1) if reverse else symbols)
    assert symbols.min() >= 1
    assert symbols.max() < batch.vocab_size == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: remembering(9, gap=5, seed=seed),
        lambda seed: copying(9, length=5, seed=seed),
        lambda seed: mixed_rules(9, length=6, seed=seed),
        lambda seed: recalling(9, num_pairs=5, num_queries=3, seed=seed),
        lambda seed: adding(9, length=8, seed=seed),
    ],
)
def test_sequences_are_a_function_of_the_seed(make):
    assert torch.equal(make(3).inputs, make(3).inputs)
    assert not torch.equal(make(3).inputs, make(4).inputs)
    assert not torch.equal(make(3).inputs, make(-3).inputs)


def test_sequences_name_a_size_that_makes_no_sense():
    with pytest.raises(ValueError, match="gap=-1 must be at least 0"):
        remembering(4, gap=-1)
    with pytest.raises(ValueError, match="length=0 must be at least 1"):
        copying(4, length=0)


def test_neighbouring_is_a_table_of_two_symbols():
    batch = neighbouring(60, length=9, num_symbols=4, seed=2)
    assert (batch.targets[:, :2] == IGNORE).all()
    pairs = torch.stack([batch.inputs[:, :-2], batch.inputs[:, 2:], batch.targets[:, 2:]], dim=-1).flatten(0, 1)
    seen = {}
    for before, now, target in pairs.tolist():
        assert seen.setdefault((before, now), target) == target
    assert len(seen) == 16
    assert len(set(seen.values())) > 1


def test_walking_stops_at_walls_and_follows_its_symbols():
    batch = walking(40, length=11, fields=3, seed=2)
    steps = [0, 0, 0, 0, 1, 1, -1, -1]
    for symbols, fields in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        here = 0
        for symbol, field in zip(symbols, fields, strict=True):
            here = min(max(here + steps[symbol], 0), 2)
            assert field == here
    assert set(batch.targets.flatten().tolist()) == {0, 1, 2}
    with pytest.raises(ValueError, match="multiple of 4"):
        walking(1, length=3, num_symbols=6)


def test_pairing_asks_where_a_name_comes_again():
    batch = pairing(30, length=14, num_symbols=5, seed=2)
    for symbols, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        known = {}
        for name, thing, wanted, after in zip(symbols[::2], symbols[1::2], targets[::2], targets[1::2], strict=True):
            assert wanted == known.get(name, IGNORE)
            assert known.setdefault(name, thing - 5) == thing - 5
            assert after == IGNORE
    with pytest.raises(ValueError, match="even"):
        pairing(1, length=7)


def test_mixed_rules_come_in_turn_with_alphabets_of_their_own():
    batch = mixed_rules(7, length=6, seed=3)
    alone = [make(3, length=6, seed=3) for make in RULES.values()]
    assert batch.inputs.shape == (7, 6)
    assert torch.equal(batch.inputs[1::3], alone[1].inputs[:2] + alone[0].vocab_size)
    assert torch.equal(batch.targets[2::3], alone[2].targets[:2])
    assert batch.vocab_size == sum(part.vocab_size for part in alone)


def test_recalling_asks_for_the_value_that_each_key_had():
    batch = recalling(40, num_pairs=5, num_queries=3, num_keys=7, num_values=4)
    assert batch.inputs.shape == (40, 13)
    assert batch.vocab_size == 12
    assert (batch.targets[:, :10] == -100).all()
    for row, answers in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        value_of = dict(zip(row[:10:2], row[1:10:2], strict=True))
        assert len(value_of) == 5
        assert set(value_of) <= set(range(1, 8))
        assert set(value_of.values()) <= set(range(8, 12))
        assert len(set(row[10:])) == 3
        assert [value_of[key] for key in row[10:]] == answers[10:]
    with pytest.raises(ValueError, match="num_queries <= num_pairs <= num_keys, got 3, 9 and 8"):
        recalling(2, num_pairs=9, num_queries=3, num_keys=8)


def test_looking_up_gives_each_question_the_value_beside_its_key():
    batch = looking_up(40, num_pairs=5, num_queries=3, num_keys=7, num_values=4)
    assert batch.inputs.shape == (40, 8)
    assert batch.vocab_size == 35
    assert (batch.targets[:, :5] == -100).all()
    for row, answers in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        value_of = dict(divmod(line, 4) for line in row[:5])
        assert len(value_of) == 5
        assert [value_of[asked - 28] for asked in row[5:]] == answers[5:]


def test_hopping_follows_the_pointers_as_often_as_asked():
    batch, hops = hopping(30, num_nodes=5, num_queries=7, max_hops=3)
    assert batch.inputs.shape == hops.shape == (30, 12)
    assert batch.vocab_size == 5 * (5 + 4)
    assert set(hops[:, 5:].flatten().tolist()) == {0, 1, 2, 3}
    for row, answers, asked in zip(batch.inputs.tolist(), batch.targets.tolist(), hops.tolist(), strict=True):
        pointers = dict(divmod(line, 5) for line in row[:5])
        assert sorted(pointers) == sorted(pointers.values()) == list(range(5))
        for question, answer, many in zip(row[5:], answers[5:], asked[5:], strict=True):
            here, said = divmod(question - 25, 4)
            assert said == many
            for _ in range(many):
                here = pointers[here]
            assert here == answer
        assert answers[:5] == [-100] * 5
        assert asked[:5] == [-1] * 5


def test_adding_marks_a_digit_in_each_half_and_asks_for_their_sum():
    batch = adding(60, length=9, base=6)
    assert batch.inputs.shape == (60, 10)
    assert batch.vocab_size == 13
    assert (batch.inputs[:, -1] == 12).all()
    assert (batch.targets[:, :-1] == -100).all()
    marked = (batch.inputs >= 6) & (batch.inputs < 12)
    assert marked[:, :4].sum(1).tolist() == marked[:, 4:].sum(1).tolist() == [1] * 60
    assert torch.equal(((batch.inputs - 6) * marked).sum(1), batch.targets[:, -1])
    with pytest.raises(ValueError, match="length=1 must be at least 2"):
        adding(4, length=1)
