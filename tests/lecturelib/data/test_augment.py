"""Flips, crops, erased boxes and repeated pictures: how much changes, how often, and when nothing does."""

import pytest
import torch

from lecturelib.data.augment.simple import random_crop, random_erasing, random_flip, repeated_indices


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count=5, height=6, width=9):
    return 2 + torch.rand(count, 3, height, width, generator=seeded(9))  # nothing below 2, so black and noise show


def test_flip_mirrors_left_for_right_half_of_the_time():
    images = pictures(1000)
    out = random_flip(images, generator=seeded())
    flipped = (out == images.flip(-1)).flatten(1).all(1)
    assert ((out == images).flatten(1).all(1) ^ flipped).all()
    assert flipped.float().mean().item() == pytest.approx(0.5, abs=0.07)
    assert torch.equal(random_flip(images, probability=0.0), images)
    assert torch.equal(random_flip(images, probability=1.0), images.flip(-1))


def test_crop_moves_pictures_by_at_most_its_padding():
    images = pictures(400)
    out = random_crop(images, padding=2, generator=seeded())
    seen = set()
    for before, after in zip(images, out, strict=True):
        padded = torch.nn.functional.pad(before, (2, 2, 2, 2))
        matches = [(r, c) for r in range(5) for c in range(5) if torch.equal(padded[:, r : r + 6, c : c + 9], after)]
        assert len(matches) == 1
        seen |= set(matches)
    assert len(seen) == 25  # every move happens
    assert torch.equal(random_crop(images, padding=0), images)


def test_erasing_makes_one_box_of_the_promised_size():
    images = torch.full((2000, 2, 32, 40), 2.0)
    out = random_erasing(images, probability=1.0, area=(0.1, 0.3), aspect=2.0, generator=seeded())
    box = (out != images).any(1)  # (B, height, width)
    rows, columns = box.any(2), box.any(1)
    assert torch.equal(box, rows[:, :, None] & columns[:, None, :])
    area = box.float().mean(dim=(1, 2))
    assert area.min() > 0.09
    assert area.max() < 0.315  # whole pixels
    assert area.mean().item() == pytest.approx(0.2, abs=0.006)
    tall, wide = rows.sum(1), columns.sum(1)
    assert (tall / wide).max() < 2.2
    assert (tall / wide).min() > 1 / 2.2
    assert (tall / wide).log().mean().item() == pytest.approx(0.0, abs=0.05)
    assert out[box[:, None].expand_as(out)].mean().item() == pytest.approx(0.5, abs=0.01)  # noise from 0 to 1
    centre = (rows.float() @ torch.arange(32.0) / tall).mean().item()
    assert centre == pytest.approx(15.5, abs=0.7)


def test_erasing_happens_as_often_as_asked_and_never_at_zero():
    images = pictures(2000)
    changed = (random_erasing(images, probability=0.25, generator=seeded()) != images).flatten(1).any(1)
    assert changed.float().mean().item() == pytest.approx(0.25, abs=0.05)
    assert torch.equal(random_erasing(images, probability=0.0), images)
    assert torch.equal(random_erasing(images, probability=1.0, area=(0.0, 0.0)), images)
    everything = random_erasing(images[:3], probability=1.0, area=(1.0, 1.0), aspect=1.5, fill=0.0, generator=seeded())
    assert everything.min() in (0.0, images[:3].min())


def test_erasing_is_seeded_and_fills_with_what_it_is_told():
    images = pictures(50)
    first, again = (random_erasing(images, probability=1.0, generator=seeded(2)) for _ in range(2))
    assert torch.equal(first, again)
    filled = random_erasing(images, probability=1.0, fill=7.0, generator=seeded(2))
    assert set(filled[filled != images].tolist()) == {7.0}
    assert random_erasing(images[:0], generator=seeded()).shape == (0, 3, 6, 9)
    assert random_erasing(images.bfloat16(), generator=seeded()).dtype == torch.bfloat16
    with pytest.raises(ValueError, match=r"area <= 1, .* got \(0.5, 0.2\)"):
        random_erasing(images, area=(0.5, 0.2))


def test_repeated_batches_hold_each_example_three_times():
    chosen = repeated_indices(100, 24, repeats=3, step=5, seed=1)
    _, counts = chosen.unique(return_counts=True)
    assert counts.tolist() == [3] * 8
    assert torch.equal(chosen, repeated_indices(100, 24, repeats=3, step=5, seed=1))
    assert not torch.equal(chosen, repeated_indices(100, 24, repeats=3, step=5, seed=2))


def test_repeated_batches_walk_through_all_data_and_then_shuffle_anew():
    passes = [torch.cat([repeated_indices(40, 12, repeats=3, step=10 * p + s) for s in range(10)]) for p in range(2)]
    for walked in passes:
        assert walked.unique().tolist() == list(range(40))
    assert not torch.equal(*passes)
    plain = torch.cat([repeated_indices(40, 8, repeats=1, step=step) for step in range(5)])
    assert sorted(plain.tolist()) == list(range(40))


def test_repeated_batches_say_what_is_wrong():
    with pytest.raises(ValueError, match="multiple of repeats, got 10 and 3"):
        repeated_indices(100, 10, repeats=3, step=0)
    with pytest.raises(ValueError, match="8 different examples, and the data 5"):
        repeated_indices(5, 8, repeats=1, step=0)
