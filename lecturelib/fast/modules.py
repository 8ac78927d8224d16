"""Layers that compute what their plain ones do, in fewer or cheaper steps. They know no gradients.

Each is a subclass of its plain layer, so that a prepared model differs from the plain one in nothing else.
"""

from collections.abc import Callable
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import FeedForward
from lecturelib.layers.windows import WindowAttention, partition_windows, shift_mask

FUSE_UP_TO = 512  # a wider product takes so long that one call is no faster than three, and the copy is large


def joined_projections(attention: MultiHeadAttention) -> tuple[Tensor, Tensor | None]:
    """Copies of the matrices and biases of queries, keys and values, one below the other; a missing bias is zeros.

    Shapes: -> (3D, D), and (3D,) if one of the three has a bias; with grouped queries, fewer rows than 3D
    """
    projections = (attention.query_proj, attention.key_proj, attention.value_proj)
    weight = torch.cat([linear.weight.detach() for linear in projections])  # (3D, D)
    if all(linear.bias is None for linear in projections):
        return weight, None
    zeros = weight.new_zeros(attention.d_model)
    return weight, torch.cat([zeros if linear.bias is None else linear.bias.detach() for linear in projections])


class RowLinear:
    """A linear layer for few rows.

    For a single row the time goes into bringing the matrix from memory, and a library for products may leave that to
    one thread, whatever the number of cores. In full precision (float32 and float64 on a CPU) the product is therefore
    made as a batch, one share of the matrix' rows for each thread; `benchmarks/llama.py` shows what that brings.

    Args:
        weight: (Dout, Din); neither it nor the bias is copied, so that what is written into them counts
        bias: (Dout,)

    Shapes: x (B, Din) -> (B, Dout)
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        threads = torch.get_num_threads()
        can_share = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)
        self.count = threads if can_share and len(weight) % threads == 0 else 1
        self.shares = self.weight.view(self.count, -1, weight.shape[1]).transpose(1, 2)  # (P, Din, Dout / P)
        self.biases = None if self.bias is None else self.bias.view(self.count, 1, -1)  # (P, 1, Dout / P)

    @classmethod
    def of(cls, linear: nn.Linear) -> Self:
        """A plain layer's."""
        return cls(linear.weight, linear.bias)

    def __call__(self, x: Tensor) -> Tensor:
        if len(x) != 1 or self.count == 1:
            return F.linear(x, self.weight, self.bias)
        x = x.expand(self.count, 1, -1)
        out = torch.bmm(x, self.shares) if self.biases is None else torch.baddbmm(self.biases, x, self.shares)
        return out.view(1, -1)


def row_head(model: Any, output: nn.Module) -> Callable[[Tensor], Tensor]:
    """What makes a model's logits of one row: its `output`, be that an embedding or a linear layer, by all threads."""
    if type(output) is nn.Linear:
        return RowLinear.of(output)
    return RowLinear(output.weight) if type(output) is nn.Embedding else model.head


class OneProjection(MultiHeadAttention):
    """Attention whose queries, keys and values come of one product, where they come of one input."""

    joined: tuple[Tensor, Tensor | None]

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As the plain layer's, in one product."""
        if not (query is key is value):
            return super().project(query, key, value)
        heads = F.linear(query, *self.joined).unflatten(-1, (3, self.num_heads, self.head_dim))  # (B, T, 3, H, Dh)
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind()
        return q, k, v


class InPlaceGELU(FeedForward):
    """A feed-forward net whose activation overwrites its input: a second tensor of that size costs page faults."""

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """As the plain layer's in eval mode."""
        hidden = self.widen(x)
        return self.narrow(self.activation(hidden, out=hidden))


class PreparedWindows(WindowAttention):
    """Attention in shifted windows that rolls and cuts in one copy and puts back in another; a roll takes two."""

    plans: dict[tuple[int, int, torch.device], tuple[Tensor, Tensor]]

    def forward(
        self, x: Tensor, key: None = None, *, mask: None = None, is_causal: bool = False, cache: None = None
    ) -> Tensor:
        """As the plain layer's."""
        rows, columns = x.shape[1:3]
        is_tiled = rows % self.window[0] == columns % self.window[1] == 0
        if not any(self.effective_shift((rows, columns))) or not is_tiled:
            return super().forward(x, key, mask=mask, is_causal=is_causal, cache=cache)
        order, allowed = self._plan(rows, columns, x.device)
        windows = x.flatten(1, 2).index_select(1, order).view(-1, allowed.shape[-1], x.shape[-1])
        attended = self.attention(windows, mask=allowed.repeat(len(x), 1, 1))  # (B · windows, T, D)
        return attended.reshape(len(x), len(order), -1).index_select(1, order.argsort()).view(x.shape)

    def _plan(self, rows: int, columns: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """The patches' numbers in the order of the shifted windows (N,), and who may attend there (windows, T, T)."""
        if (rows, columns, device) not in self.plans:
            down, right = self.effective_shift((rows, columns))
            numbers = torch.arange(rows * columns, device=device).view(1, rows, columns, 1)
            order = partition_windows(numbers.roll((-down, -right), dims=(1, 2)), self.window).flatten()
            allowed = shift_mask((rows, columns), self.window, (down, right), device)
            self.plans[rows, columns, device] = order, allowed
        return self.plans[rows, columns, device]
