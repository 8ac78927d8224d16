"""Layers that compute what their plain ones do, in fewer or cheaper steps. They know no gradients.

Each is a subclass of its plain layer, so that a prepared model differs from the plain one in nothing else.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

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


class RowProduct:
    """Products with the transpose of one matrix, made for few rows.

    For a single row of x the time goes into bringing the matrix from memory, and in full precision torch leaves that to
    one thread. The same product as a batch of as many as there are threads, each with a share of the matrix' rows,
    keeps all of them at it: on two cores it takes half the time.

    Args:
        weight: (Dout, Din); it is not copied, so that what is written into it counts

    Shapes: x (B, Din) -> (B, Dout)
    """

    def __init__(self, weight: Tensor) -> None:
        self.whole = weight.detach().T  # (Din, Dout)
        threads = torch.get_num_threads()
        can_share = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)
        shares = threads if can_share and len(weight) % threads == 0 else 1
        self.shares = weight.detach().view(shares, -1, weight.shape[1]).transpose(1, 2)  # (P, Din, Dout / P)

    def __call__(self, x: Tensor) -> Tensor:
        if len(x) != 1 or len(self.shares) == 1:
            return torch.mm(x, self.whole)
        return torch.bmm(x.expand(len(self.shares), 1, -1), self.shares).view(1, -1)

    def add_to(self, stream: Tensor, x: Tensor) -> None:
        """Add the product to a stream (B, Dout), in place."""
        if len(x) != 1 or len(self.shares) == 1:
            stream.addmm_(x, self.whole)
        else:
            parts = stream.view(len(self.shares), 1, -1)  # (P, 1, Dout / P)
            parts.baddbmm_(x.expand(len(self.shares), 1, -1), self.shares)


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
