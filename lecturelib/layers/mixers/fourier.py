"""FNet's mixer: a Fourier transform and nothing to learn."""

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import Memory
from lecturelib.layers.mixers.mixer import check_alone, check_whole
from lecturelib.layers.precision import precise


class FourierMixing(nn.Module):
    """The real part of a Fourier transform over the length and the width: T · D · log(T · D) operations.

    Paper: Lee-Thorp et al. 2022 [leethorp2022fnet], Equation 3.
    Differs: nothing. Padding is mixed in like any token, as in the paper.

    Shapes: (B, T, D) -> (B, T, D)
    """

    def forward(
        self,
        x: Tensor,
        key: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: Memory | None = None,
    ) -> Tensor:
        """Transform; `key`, `mask`, `is_causal` and `cache` are refused."""
        check_alone("FourierMixing", key, cache)
        check_whole("FourierMixing", mask, is_causal)
        return torch.fft.fft2(precise(x)).real.to(x.dtype) if x.numel() else x
