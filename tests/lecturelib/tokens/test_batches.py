"""Padding, bucketing, and batches as functions of the step."""

import pickle
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lecturelib.tokens import (
    ContiguousWindows,
    RandomWindows,
    StepBatches,
    collate_labelled,
    collate_pairs,
    pad,
    pair_batches,
)
from lecturelib.tokens.batches import bucket_by_length


def test_pad_fills_on_the_right_and_counts():
    ids, lengths = pad([[5, 6, 7], [], [8]], pad_id=9)
    assert ids.tolist() == [[5, 6, 7], [9, 9, 9], [8, 9, 9]]
    assert lengths.tolist() == [3, 0, 1]


def test_pad_of_nothing_is_empty():
    assert pad([], pad_id=0).ids.shape == (0, 0)
    assert pad([], pad_id=0, max_len=4).ids.shape == (0, 4)
    assert pad([[]], pad_id=0).ids.shape == (1, 0)


def test_pad_to_a_width_names_the_sequence_that_is_too_long():
    assert pad([[1]], pad_id=0, max_len=3).ids.tolist() == [[1, 0, 0]]
    with pytest.raises(ValueError, match="sequence 1 has 4 ids, more than max_len=3"):
        pad([[1], [1, 2, 3, 4]], pad_id=0, max_len=3)


def test_collate_pairs_shifts_the_target_by_one():
    batch = collate_pairs([([7, 8, 9], [5, 6]), ([7], [4])], pad_id=0, bos_id=1, eos_id=2)
    assert batch.source.tolist() == [[7, 8, 9, 2], [7, 2, 0, 0]]
    assert batch.source_lengths.tolist() == [4, 2]
    assert batch.target_in.tolist() == [[1, 5, 6], [1, 4, 0]]
    assert batch.target_out.tolist() == [[5, 6, 2], [4, 2, 0]]
    assert batch.target_lengths.tolist() == [3, 2]


def test_collate_labelled_keeps_labels_beside_their_rows():
    batch = collate_labelled([([3], 1), ([4, 5], 0)], pad_id=0)
    assert batch.ids.tolist() == [[3, 0], [4, 5]]
    assert batch.lengths.tolist() == [1, 2]
    assert batch.labels.tolist() == [1, 0]


@given(st.lists(st.integers(0, 20), max_size=60), st.integers(1, 7), st.integers(0, 3), st.integers(1, 4))
def test_bucket_deals_every_index_once(lengths, batch_size, seed, pool):
    batches = bucket_by_length(lengths, batch_size, seed=seed, pool=pool)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    assert len(batches) == -(-len(lengths) // batch_size)


def test_bucket_pads_far_less_than_a_shuffle():
    lengths = [1 + index % 40 for index in range(2000)]

    def padded(batches):
        return sum(max(lengths[i] for i in batch) * len(batch) for batch in batches) / sum(lengths)

    assert padded(bucket_by_length(lengths, 16)) < 1.1
    assert padded(bucket_by_length(lengths, 16, pool=1)) > 1.7


def test_step_batches_are_a_function_of_the_step():
    def stream(seed=5):
        return StepBatches(range(23), list, batch_size=4, seed=seed)

    forwards = [stream()(step) for step in range(20)]  # a fresh object for each step
    one = stream()
    assert [one(step) for step in reversed(range(20))] == forwards[::-1]
    assert [stream(seed=6)(step) for step in range(20)] != forwards


def test_step_batches_see_everything_once_a_pass_and_then_reshuffle():
    batches = StepBatches(range(23), list, batch_size=4)
    assert batches.steps_per_pass == 6
    passes = [[x for step in range(6 * p, 6 * p + 6) for x in batches(step)] for p in range(3)]
    assert all(sorted(one) == list(range(23)) for one in passes)
    assert all(one != other for one, other in pairwise(passes))


def test_step_batches_in_order_are_the_data():
    batches = StepBatches(range(10), list, batch_size=4)
    assert list(batches.in_order()) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_step_batches_can_be_sent_to_another_process():
    batches = StepBatches(range(23), list, batch_size=4)
    assert pickle.loads(pickle.dumps(batches))(9) == batches(9)


def test_step_batches_refuse_nothing():
    with pytest.raises(ValueError, match="no examples"):
        StepBatches([], list, batch_size=4)
    with pytest.raises(ValueError, match="batch_size=0"):
        StepBatches([1], list, batch_size=0)


def test_pair_batches_hold_every_pair_whole():
    pairs = [([3 + i] * (1 + i % 5), [4 + i] * (1 + i % 3)) for i in range(17)]
    batches = pair_batches(pairs, batch_size=4, pad_id=0, bos_id=1, eos_id=2)
    seen = []
    for step in range(batches.steps_per_pass):
        batch = batches(step)
        for row in range(len(batch.source)):
            source = batch.source[row, : batch.source_lengths[row] - 1].tolist()
            target = batch.target_out[row, : batch.target_lengths[row] - 1].tolist()
            seen.append((source, target))
    assert sorted(seen) == sorted(pairs)


def test_random_windows_are_text_and_its_next_tokens():
    batches = RandomWindows(torch.arange(100, 200), batch_size=6, length=5, seed=1)
    inputs, targets = batches(3)
    assert inputs.shape == (6, 5)
    assert torch.equal(targets, inputs + 1)
    assert torch.equal(inputs[:, 1:], inputs[:, :-1] + 1)
    assert torch.equal(batches(3).inputs, inputs)
    assert not torch.equal(batches(4).inputs, inputs)


def test_random_windows_reach_both_ends():
    batches = RandomWindows(range(7), batch_size=50, length=4)
    inputs, targets = batches(0)
    assert inputs.min() == 0
    assert targets.max() == 6
    only = RandomWindows(range(5), batch_size=2, length=4)(0)
    assert only.targets.tolist() == [[1, 2, 3, 4]] * 2


def test_contiguous_windows_go_on_where_they_stopped():
    batches = ContiguousWindows(range(24), batch_size=3, length=4)
    assert batches.steps_per_pass == 2
    first, second = batches(0), batches(1)
    assert first.inputs.tolist() == [[0, 1, 2, 3], [7, 8, 9, 10], [14, 15, 16, 17]]
    assert second.inputs.tolist() == [[4, 5, 6], [11, 12, 13], [18, 19, 20]]
    assert torch.equal(second.targets, second.inputs + 1)
    assert torch.equal(batches(2).inputs, first.inputs)


@pytest.mark.parametrize("windows", [RandomWindows, ContiguousWindows])
def test_windows_refuse_a_text_that_is_no_row(windows):
    with pytest.raises(ValueError, match=r"got shape \(2, 9\)"):
        windows(torch.zeros(2, 9, dtype=torch.int64), batch_size=1, length=3)
    with pytest.raises(ValueError, match="length=0"):
        windows(range(9), batch_size=1, length=0)


def test_windows_refuse_a_text_that_is_too_short():
    with pytest.raises(ValueError, match=r"length=5 .* the 5 ids given"):
        RandomWindows(range(5), batch_size=1, length=5)
    with pytest.raises(ValueError, match="3 ids are too few"):
        ContiguousWindows(range(3), batch_size=4, length=5)
