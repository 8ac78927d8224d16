"""Tiled attention is exact, forward and backward, and its memory is linear in the length."""

import pytest
import torch
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from lecturelib.evaluation.cost import count_activation_bytes
from lecturelib.layers import (
    ALiBi,
    MultiHeadAttention,
    RotaryPositions,
    TiledAttention,
    attention_weights,
    dot_product_attention,
    tiled_attention,
)


class LargestTensor(TorchDispatchMode):
    """Remembers how many numbers the largest tensor has that any operation made."""

    most = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.most = max(self.most, out.numel())
        return out


@pytest.mark.parametrize(("queries", "keys", "causal"), [(7, 11, False), (11, 4, False), (13, 13, True)])
@pytest.mark.parametrize("masked", [False, True])
def test_tiled_attention_equals_the_naive_one_with_its_gradients(queries, keys, causal, masked):
    shapes = ((2, 3, queries, 6), (2, 3, keys, 6), (2, 3, keys, 5))
    ours = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    theirs = [tensor.detach().clone().requires_grad_() for tensor in ours]
    mask = None
    if masked:
        mask = torch.rand(2, 1, queries, keys) < 0.6
        mask[0, :, 1] = False  # a query that may attend to nothing
    got = tiled_attention(*ours, mask, is_causal=causal, tile=4)
    want, _ = dot_product_attention(*theirs, mask, is_causal=causal, need_weights=True)
    assert_close(got, want)
    weight = torch.randn_like(got)
    (got * weight).sum().backward()
    (want * weight).sum().backward()
    for mine, yours in zip(ours, theirs, strict=True):
        assert_close(mine.grad, yours.grad)


def test_tiled_attention_takes_masks_that_broadcast():
    q, k, v = (torch.randn(2, 3, 9, 4) for _ in range(3))
    for mask in (torch.rand(1, 9) < 0.7, torch.rand(2, 1, 1, 9) < 0.7, torch.rand(9, 1) < 0.7):
        assert_close(tiled_attention(q, k, v, mask, tile=4), dot_product_attention(q, k, v, mask))


def test_tiled_attention_needs_memory_linear_in_the_length():
    kept, most = [], []
    for length in (64, 128, 256):
        layer = TiledAttention(8, 2, tile=16)
        x = torch.randn(1, length, 8, requires_grad=True)
        kept.append(count_activation_bytes(layer, x))
        with LargestTensor() as seen:
            layer(x).sum().backward()
        most.append(seen.most)
    assert kept[2] / kept[1] == pytest.approx(2, abs=0.05)
    assert most[1:] == [2 * size for size in most[:-1]]
    assert most[2] < 256 * 256


def test_tiled_attention_layer_equals_multi_head_attention():
    x = torch.randn(2, 22, 12)
    for positions in (None, RotaryPositions(4)):
        full = MultiHeadAttention(12, 3, positions=positions)
        tiled = TiledAttention(12, 3, tile=5, positions=positions)
        tiled.load_state_dict(full.state_dict())
        assert_close(tiled(x, is_causal=True), full(x, is_causal=True))
        assert_close(tiled(x[:, :9], x), full(x[:, :9], x))
        with attention_weights(tiled) as seen:
            tiled(x)
        assert_close(seen[""], full(x, need_weights=True)[1])
    with pytest.raises(ValueError, match="not ALiBi, which adds to every score"):
        TiledAttention(12, 3, positions=ALiBi(3))(x)


def test_tiled_attention_explains_wrong_shapes():
    q = torch.randn(2, 5, 4)
    with pytest.raises(ValueError, match=r"equal leading sizes and one value for each key, got query \(2, 5, 4\)"):
        tiled_attention(q, q, q[:, :3])
    with pytest.raises(ValueError, match="must have the same width"):
        tiled_attention(q, q[..., :3], q)
    with pytest.raises(ValueError, match="is_causal needs as many queries as keys"):
        tiled_attention(q[:, :2], q, q, is_causal=True)
    with pytest.raises(ValueError, match="boolean masks only"):
        tiled_attention(q, q, q, torch.zeros(5, 5))
    with pytest.raises(ValueError, match="tile must be at least 1"):
        tiled_attention(q, q, q, tile=0)
