"""What the mixers share: they are called as `MultiHeadAttention` is, and say no to what they cannot do."""

from typing import ClassVar

import torch
from torch import Tensor

from lecturelib.layers.attention import Memory, MultiHeadAttention


def check_alone(owner: str, key: Tensor | None, cache: Memory | None) -> None:
    """Raise if a mixer is asked to read another sequence or a cache; `owner` is its name."""
    if key is not None or cache is not None:
        raise ValueError(f"{owner} mixes one sequence with itself; it takes no key and no cache")


def check_whole(owner: str, mask: Tensor | None, is_causal: bool) -> None:
    """Raise if a mixer that always mixes the whole sequence is asked to leave some of it out."""
    if mask is not None or is_causal:
        raise ValueError(f"{owner} mixes the whole sequence, padding and future too; it takes no mask, no is_causal")


def real_keys(owner: str, mask: Tensor | None, batch: int, length: int) -> Tensor | None:
    """Which tokens count, (B, T), from a padding mask (B, 1, T) or (B, 1, 1, T); any other mask is an error."""
    if mask is None:
        return None
    if mask.dtype != torch.bool or mask.shape not in ((batch, 1, length), (batch, 1, 1, length)):
        raise ValueError(
            f"{owner} takes padding masks only, boolean of shape {(batch, 1, length)}, got {mask.dtype} "
            f"{tuple(mask.shape)}; what each query may see is decided by the mixer itself"
        )
    return mask.reshape(batch, length)


def in_blocks(x: Tensor, block: int) -> Tensor:
    """Cut a sequence into blocks, the last one filled up with zeros: (..., T, D) -> (..., blocks, block, D)."""
    missing = -x.shape[-2] % block
    x = torch.nn.functional.pad(x, (0, 0, 0, missing)) if missing else x
    return x.unflatten(-2, (-1, block))  # (..., blocks, block, D)


class SelfMixer(MultiHeadAttention):
    """Heads that mix a sequence with itself in their own way, `mix`, and keep the interface of `MultiHeadAttention`.

    Weights are never stored. Where `attention_weights` asks for them they are found out: mixing the identity matrix
    instead of the values gives exactly what each output takes from each value.

    Differs: nothing; it is bookkeeping, not from a paper. No dropout of attention weights, which most of them never
    form.
    """

    can_be_causal: ClassVar[bool] = True

    def __init__(self, d_model: int, num_heads: int, *, bias: bool = True) -> None:
        super().__init__(d_model, num_heads, bias=bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
        need_weights: bool = False,
        cache: Memory | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Mix `query` (B, T, D) with itself; `mask` (B, 1, T) says which tokens are real.

        Shapes: -> (B, T, D), or a pair with the weights (B, H, T, T)
        """
        owner = type(self).__name__
        check_alone(owner, value if key is None else key, cache)
        if is_causal and not self.can_be_causal:
            raise ValueError(f"{owner} lets every token see later ones; it cannot be causal")
        return super().forward(query, mask=mask, is_causal=is_causal, need_weights=need_weights)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, is_causal: bool, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Mix in every head, and find the weights (B, H, T, T) out when they are asked for."""
        real = real_keys(type(self).__name__, mask, q.shape[0], q.shape[2])
        weights = None
        if need_weights:
            eye = torch.eye(v.shape[2], dtype=v.dtype, device=v.device).expand(*v.shape[:2], -1, -1)  # (B, H, T, T)
            weights = self.mix(q, k, eye, real, is_causal=is_causal)
        return self.mix(q, k, v, real, is_causal=is_causal), weights

    def mix(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor | None, *, is_causal: bool) -> Tensor:
        """What each query takes from the values: (B, H, T, Dh) three times, real (B, T) -> (B, H, T, width of v)."""
        raise NotImplementedError
