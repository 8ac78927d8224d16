"""Reformer: tokens are sorted by a hash that close vectors share, and attend to their neighbours in that order."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lecturelib.layers.mixers.mixer import SelfMixer
from lecturelib.layers.precision import precise

TO_ITSELF = -1e5  # the score of a token with itself: taken only where there is nothing else


class Reformer(SelfMixer):
    """Attend among tokens of equal hash: sorted by bucket, in chunks that see themselves and the chunk before (LSH).

    Queries and keys are one vector. A random rotation and an argmax hash it (its bucket); similar vectors fall into one
    bucket more often than others. Several rounds with other rotations are averaged, each weighted by its softmax's sum.

    Paper: Kitaev et al. 2020 [kitaev2020reformer], Section 2.
    Differs: nothing in what attends to what, as in transformers. Rotations are drawn once and kept, so that a saved
    model is the same model; the paper draws them at every pass. A pair that meets in several rounds counts in each, as
    in the authors' usual setting. The paper's reversible layers, which have nothing to do with attention, are not here.

    Args:
        d_model, num_heads, bias: as in `MultiHeadAttention`; there is no key projection
        num_buckets: of a hash, even; about T / chunk in the paper
        chunk: tokens in a chunk; the sequence is padded to a multiple of it
        num_hashes: rounds

    Shapes: (B, T, D) -> (B, T, D)
    """

    rotations: Tensor

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_buckets: int,
        chunk: int = 64,
        num_hashes: int = 4,
        bias: bool = False,
    ) -> None:
        super().__init__(d_model, num_heads, bias=bias)
        if num_buckets < 2 or num_buckets % 2 or chunk < 1 or num_hashes < 1:
            raise ValueError(
                f"Reformer: num_buckets must be even, chunk and num_hashes at least 1, got num_buckets={num_buckets}, "
                f"chunk={chunk}, num_hashes={num_hashes}"
            )
        self.chunk, self.num_hashes, self.num_buckets = chunk, num_hashes, num_buckets
        del self.key_proj  # a query is its own key
        self.register_buffer("rotations", torch.randn(num_heads, self.head_dim, num_hashes, num_buckets // 2))

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries that are keys too, and values: (B, H, T, Dh)."""
        shared = self._split(self.query_proj(query))
        return shared, shared, self._split(self.value_proj(value))

    def buckets(self, vectors: Tensor) -> Tensor:
        """The hash of every vector in every round: (B, H, T, Dh) -> (B, H, num_hashes, T)."""
        turned = torch.einsum("bhtd,hdrn->bhrtn", vectors.detach(), self.rotations.to(vectors.dtype))
        (most, first), (least, last) = turned.max(dim=-1), turned.min(dim=-1)
        return torch.where(most >= -least, first, last + turned.shape[-1])  # the argmax of turned and -turned

    def mix(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor | None, *, is_causal: bool) -> Tensor:
        """Hash, sort, attend in chunks, sort back, and average the rounds."""
        batch, heads, length, _ = q.shape
        missing = -length % self.chunk
        if missing or real is not None:
            real = torch.ones(batch, length, dtype=torch.bool, device=q.device) if real is None else real
            real = F.pad(real, (0, missing))
            q, v = (F.pad(x, (0, 0, 0, missing)) for x in (q, v))
        buckets = self.buckets(q)  # (B, H, rounds, T)
        if real is not None:
            buckets = buckets.masked_fill(~real[:, None, None], self.num_buckets)  # padding goes last
        places = buckets.argsort(dim=-1, stable=True)  # (B, H, rounds, T)
        total = q.shape[2]
        rows = torch.arange(batch * heads, device=q.device).view(batch, heads, 1, 1) * total
        taken = (places + rows).flatten()  # rows of q and v with batch and heads flattened

        def sort(x: Tensor) -> Tensor:
            x = x.flatten(0, 2).index_select(0, taken)  # (B · H · rounds · T, width)
            return x.view(batch, heads, self.num_hashes * total // self.chunk, self.chunk, x.shape[-1])

        q, v = sort(q), sort(v)
        mixed, log_sum = self._in_chunks(q, v, places, real, is_causal)
        order = torch.arange(total, device=q.device).expand_as(places)
        back = torch.empty_like(places).scatter(-1, places, order)  # (B, H, rounds, T), the inverse
        back = back + torch.arange(batch * heads * self.num_hashes, device=q.device).view(*back.shape[:3], 1) * total
        mixed = (
            mixed.flatten(0, 3).index_select(0, back.flatten()).view(*back.shape, mixed.shape[-1])
        )  # (B, H, rounds, T, Dh)
        shares = log_sum.flatten()[back].softmax(dim=2)  # (B, H, rounds, T)
        return (mixed * shares[..., None].to(mixed.dtype)).sum(dim=2)[:, :, :length]

    def _in_chunks(
        self, q: Tensor, v: Tensor, places: Tensor, real: Tensor | None, is_causal: bool
    ) -> tuple[Tensor, Tensor]:
        """Attend in sorted chunks; -> mixed (B, H, chunks, chunk, Dh), and its log-sum."""

        def with_previous(x: Tensor) -> Tensor:
            return torch.cat((x.roll(1, dims=2), x), dim=3)  # (B, H, chunks, 2 · chunk, ...)

        k = q * (q.square().mean(dim=-1, keepdim=True) + 1e-6).rsqrt() / math.sqrt(q.shape[-1])  # length 1
        scores = precise(q @ with_previous(k).transpose(-2, -1))  # (B, H, chunks, chunk, 2 · chunk)
        asking = places.int().flatten(2).unflatten(2, (-1, self.chunk))  # (B, H, chunks, chunk)
        asked = with_previous(asking)[..., None, :]
        asking = asking[..., None]
        if is_causal:
            scores = scores.masked_fill(asking < asked, -1e9)
        if real is not None:
            absent = ~real[:, None].expand(-1, q.shape[1], -1).gather(2, places.flatten(2))  # (B, H, rounds · T)
            absent = with_previous(absent.unflatten(2, (-1, self.chunk)))[..., None, :]
            scores = scores.masked_fill(absent, -1e9)
        scores = scores.masked_fill(asking == asked, TO_ITSELF)
        log_sum = scores.logsumexp(dim=-1)
        weights = (scores - log_sum[..., None]).exp().to(v.dtype)
        return weights @ with_previous(v), log_sum
