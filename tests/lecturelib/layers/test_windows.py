"""Windows of a grid: cutting and putting back, who may see whom after a shift, and when windows are all there is."""

import pytest
import torch
from torch.testing import assert_close

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.positions import relative_index
from lecturelib.layers.windows import (
    WindowAttention,
    join_neighbours,
    merge_windows,
    partition_windows,
    shift_mask,
)


def test_partition_takes_windows_row_by_row_and_merge_puts_them_back():
    x = torch.arange(2 * 4 * 9 * 3).view(2, 4, 9, 3)
    windows = partition_windows(x, (2, 3))
    assert windows.shape == (2 * 2 * 3, 6, 3)
    assert torch.equal(windows[1], x[0, :2, 3:6].reshape(6, 3))
    assert torch.equal(windows[2 * 3 + 3], x[1, 2:, :3].reshape(6, 3))
    assert torch.equal(merge_windows(windows, (2, 3), (4, 9)), x)
    assert merge_windows(windows[:0], (2, 3), (4, 9)).shape == (0, 4, 9, 3)
    with pytest.raises(ValueError, match=r"windows of 2 × 4 do not tile a grid of 4 × 9; pad the grid"):
        partition_windows(x, (2, 4))


@pytest.mark.parametrize(
    ("grid", "window", "shift"), [((6, 8), (3, 4), (1, 2)), ((6, 4), (3, 4), (2, 0)), ((4, 6), (2, 2), (1, 1))]
)
def test_shift_mask_allows_exactly_what_touched_before_the_roll(grid, window, shift):
    """By brute force: cut the unrolled plane by the shifted lines, and compare the pieces' names."""
    rows, columns = (torch.arange(size) for size in grid)
    down = (rows - shift[0]).div(window[0], rounding_mode="floor")
    across = (columns - shift[1]).div(window[1], rounding_mode="floor")
    piece = down[:, None] * 100 + across  # (rows, columns), before the roll
    rolled = piece.roll((-shift[0], -shift[1]), dims=(0, 1))
    of_window = partition_windows(rolled[None, :, :, None], window)[..., 0]
    want = of_window[:, :, None] == of_window[:, None, :]
    mask = shift_mask(grid, window, shift)
    assert torch.equal(mask, want)
    assert not mask.all()
    assert mask.diagonal(dim1=1, dim2=2).all()
    assert shift_mask(grid, window, (0, 0)).all()


def test_window_attention_equals_full_attention_when_the_window_covers_all():
    attention = MultiHeadAttention(12, 3)
    x = torch.randn(2, 4, 5, 12)
    want = attention(x.flatten(1, 2)).view(2, 4, 5, 12)
    assert_close(WindowAttention(attention, (4, 5))(x), want)
    assert_close(WindowAttention(attention, (4, 5), (2, 1))(x), want)  # one window is never shifted


def test_window_attention_reaches_its_shifted_window_and_no_further():
    mixer = WindowAttention(MultiHeadAttention(12, 3), (2, 2), (1, 1))
    x = torch.randn(1, 4, 6, 12, requires_grad=True)
    for patch, seen in {
        (0, 0): [(0, 0)],
        (1, 1): [(1, 1), (1, 2), (2, 1), (2, 2)],
        (3, 5): [(3, 5)],
        (0, 3): [(0, 3), (0, 4)],
    }.items():
        (grad,) = torch.autograd.grad(mixer(x)[0, patch[0], patch[1]].square().sum(), x)
        assert [tuple(where) for where in grad[0].abs().sum(-1).nonzero().tolist()] == seen


def test_window_attention_pads_on_the_right_and_below():
    attention = MultiHeadAttention(12, 3)
    x = torch.randn(2, 3, 5, 12)
    padded = torch.nn.functional.pad(x, (0, 0, 0, 1, 0, 1))
    want = WindowAttention(attention, (2, 2))(padded)[:, :3, :5]
    assert_close(WindowAttention(attention, (2, 2))(x), want)


def test_window_attention_says_what_is_wrong():
    mixer = WindowAttention(MultiHeadAttention(12, 3), (2, 2))
    with pytest.raises(ValueError, match=r"\(batch, rows, columns, width\), got \(2, 4, 12\)"):
        mixer(torch.randn(2, 4, 12))
    with pytest.raises(ValueError, match="no key, mask"):
        mixer(torch.randn(2, 4, 4, 12), is_causal=True)
    with pytest.raises(ValueError, match=r"less than the window, got \(2, 0\) and \(2, 2\)"):
        WindowAttention(MultiHeadAttention(12, 3), (2, 2), (2, 0))


def test_relative_index_numbers_offsets():
    index = relative_index((2, 3))
    assert index.unique().tolist() == list(range(3 * 5))
    assert index.diagonal().unique().tolist() == [7]  # no offset is the middle one
    assert torch.equal(index + index.T, torch.full((6, 6), 14))  # the way back is the opposite offset


def test_join_neighbours_puts_four_in_one_and_pads_odd_sides():
    x = torch.arange(1, 1 + 3 * 5).view(1, 3, 5, 1)
    joined = join_neighbours(x)
    assert joined.shape == (1, 2, 3, 4)
    assert joined[0, 0, 0].tolist() == [1, 6, 2, 7]  # below before beside
    assert joined[0, 1, 2].tolist() == [15, 0, 0, 0]
