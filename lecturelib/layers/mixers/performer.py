"""Performer: positive random features turn the softmax into a product, and a product can be bracketed otherwise."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lecturelib.layers.mixers.mixer import SelfMixer, in_blocks
from lecturelib.layers.precision import precise, without_autocast


def orthogonal_features(num_features: int, width: int) -> Tensor:
    """Gaussian vectors, as long as Gaussian vectors are, and at right angles to each other `width` at a time.

    Paper: Choromanski et al. 2021 [choromanski2021rethinking], Section 2.4.
    Differs: nothing. A QR decomposition alone chooses the signs of its rows so that one coordinate is never positive;
    turned back by the signs of R's diagonal they are uniform, as the estimate needs (performer-pytorch leaves them).

    Shapes: -> (num_features, width)
    """
    blocks = []
    for _ in range(math.ceil(num_features / width)):
        q, r = torch.linalg.qr(torch.randn(width, width))
        blocks.append((q * r.diagonal().sign()).T)  # (width, width), rows of length 1
    return torch.cat(blocks)[:num_features] * torch.randn(num_features, width).norm(dim=1, keepdim=True)


def random_features(x: Tensor, features: Tensor, less: Callable[[Tensor], Tensor | float] = lambda _: 0.0) -> Tensor:
    """Positive features of x: products of two vectors' features average to exp(x · y).

    exp(x · y) is the mean over Gaussian w of exp(w · x - |x|² / 2) · exp(w · y - |y|² / 2).

    Paper: Choromanski et al. 2021 [choromanski2021rethinking], Lemma 1.
    Differs: the factor 1 / sqrt(m) is left out, for it cancels where attention is normalised.

    Args:
        x: (..., D)
        features: w, (m, D)
        less: what to take off the exponents against overflow, from w · x (..., m); nothing when left out

    Shapes: -> (..., m)
    """
    products = x @ features.T  # (..., m)
    return (products - (x.square().sum(dim=-1, keepdim=True) / 2 + less(products.detach()))).exp()


def linear_attention(q: Tensor, k: Tensor, v: Tensor, *, may_be_alone: bool = False) -> Tensor:
    """Normalised q (kᵀ v): keys meet values first, once for all queries.

    Args:
        may_be_alone: whether a query may have no key with a weight; it gets zeros

    Shapes: q, k (..., T, m), v (..., T, Dv) -> (..., T, Dv)
    """
    return _normalised(q @ (k.transpose(-2, -1) @ _with_ones(v)), may_be_alone)


def _normalised(mixed: Tensor, may_be_alone: bool) -> Tensor:
    """Divide by the sum of the weights, the last column: (..., T, Dv + 1) -> (..., T, Dv)."""
    total = mixed[..., -1:]
    if may_be_alone:
        total = total.masked_fill(total == 0, 1.0)
    return mixed[..., :-1] / total


def _with_ones(v: Tensor) -> Tensor:
    """The values and a column of ones, which adds the weights up: (..., T, Dv + 1)."""
    return torch.cat((v, torch.ones_like(v[..., :1])), dim=-1)


def causal_linear_attention(q: Tensor, k: Tensor, v: Tensor, *, block: int = 128, may_be_alone: bool = False) -> Tensor:
    """Normalised q (kᵀ v) over the keys up to each query's own, block by block: a memory of the blocks before.

    Args:
        may_be_alone: as in `linear_attention`

    Shapes: q, k (..., T, m), v (..., T, Dv) -> (..., T, Dv)
    """
    length = v.shape[-2]
    q, k, v = (in_blocks(x, min(block, max(length, 1))) for x in (q, k, _with_ones(v)))  # (..., blocks, block, width)
    memory = (k.transpose(-2, -1) @ v).cumsum(dim=-3)  # (..., blocks, m, Dv + 1)
    before = torch.cat((torch.zeros_like(memory[..., :1, :, :]), memory[..., :-1, :, :]), dim=-3)
    mixed = q @ before + (q @ k.transpose(-2, -1)).tril() @ v
    return _normalised(mixed.flatten(-3, -2)[..., :length, :], may_be_alone)


class Performer(SelfMixer):
    """Attention whose softmax is estimated by random features: T · m products instead of T · T scores (FAVOR+).

    Paper: Choromanski et al. 2021 [choromanski2021rethinking], Section 2.
    Differs: nothing in expectation. Features stay as they were first drawn until `redraw`; the authors' code draws
    again every thousand steps. As there, `eps` is added to the features when not causal, and the largest exponent taken
    off; the causal path does neither, for both would tell a query about later keys.

    Args:
        d_model, num_heads, bias: as in `MultiHeadAttention`
        num_features: m; Dh · ln Dh when left out
        eps: added to each feature, so that no query is without weight

    Shapes: (B, T, D) -> (B, T, D)
    """

    features: Tensor

    def __init__(
        self, d_model: int, num_heads: int, *, num_features: int | None = None, eps: float = 1e-4, bias: bool = True
    ) -> None:
        super().__init__(d_model, num_heads, bias=bias)
        if num_features is None:
            num_features = max(1, int(self.head_dim * math.log(self.head_dim)))
        if num_features < 1 or eps < 0:
            raise ValueError(f"Performer: num_features must be at least 1 and eps 0 or more, got {num_features}, {eps}")
        self.eps = eps
        self.register_buffer("features", orthogonal_features(num_features, self.head_dim))

    def redraw(self) -> None:
        """Draw new features, as one does now and then in training."""
        self.features.copy_(orthogonal_features(*self.features.shape))

    def mix(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor | None, *, is_causal: bool) -> Tensor:
        """Features of queries and keys, then two products in the cheap order."""
        with without_autocast(q):  # exponents in half precision would be no exponents
            root = self.head_dim**-0.25  # 1 / sqrt(Dh) of the scores, half of it on each side
            q, k, features = precise(q) * root, precise(k) * root, precise(self.features)
            absent = None if real is None else ~real[:, None, :, None]  # (B, 1, T, 1)

            def largest(products: Tensor) -> Tensor:
                if absent is None:
                    return products.amax((-2, -1), keepdim=True)
                highest = products.masked_fill(absent, -1e30).amax((-2, -1), keepdim=True)  # (B, H, 1, 1)
                return torch.where(absent, products, highest)  # what is left out below must not overflow before

            q = random_features(q, features, lambda products: products.amax(dim=-1, keepdim=True))  # (B, H, T, m)
            if is_causal:  # a key's exponent is at most |w|² / 2; half of that, taken off, keeps all within a float
                k = random_features(k, features, lambda _: features.square().sum(dim=-1).max() / 4)
            else:
                q, k = q + self.eps, random_features(k, features, largest) + self.eps
            k = k if absent is None else k.masked_fill(absent, 0.0)
            attend = causal_linear_attention if is_causal else linear_attention
            return attend(q, k, precise(v), may_be_alone=absent is not None).to(v.dtype)
