"""VOLO's outlooker: each patch writes down, without comparing, how its neighbours are to be mixed."""

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.block import FeedForward, PreNorm
from lecturelib.layers.checks import check_heads


class OutlookAttention(nn.Module):
    """Mix every K × K neighbourhood by weights that one matrix reads off its central patch.

    There are no queries and no keys. The centre's K² × K² weights say how each of the K² positions is filled from
    all of them; overlapping neighbourhoods are then added up.

    Paper: Yuan et al. 2021 [yuan2021volo], Section 3.1 and Algorithm 1.
    Differs: nothing; values have no bias, the other two matrices do, as in the authors' code.

    Args:
        d_model: width
        num_heads: must divide d_model
        kernel: K, odd
        stride: of the centres; between them the patches are averaged

    Shapes: (B, rows, columns, D) -> (B, rows, columns, D)
    """

    def __init__(self, d_model: int, num_heads: int, *, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        check_heads(d_model, num_heads, "OutlookAttention")
        if kernel < 1 or kernel % 2 == 0 or stride < 1:
            raise ValueError(f"kernel must be odd, to have a centre, and stride 1 or more, got {kernel} and {stride}")
        self.num_heads, self.kernel, self.stride = num_heads, kernel, stride
        self.value_proj = nn.Linear(d_model, d_model, bias=False)
        self.weight_proj = nn.Linear(d_model, num_heads * kernel**4)
        self.out_proj = nn.Linear(d_model, d_model)

    def weights(self, x: Tensor) -> Tensor:
        """What each centre wrote down.

        Shapes: (B, rows, columns, D) -> (B, H, centres, K², K²), the last axis summing to 1
        """
        if x.dim() != 4:
            raise ValueError(f"a grid must be (batch, rows, columns, width), got {tuple(x.shape)}")
        if self.stride > 1:
            x = F.avg_pool2d(x.movedim(-1, 1), self.stride, self.stride, ceil_mode=True).movedim(1, -1)
        area = self.kernel**2
        scores = self.weight_proj(x).flatten(1, 2).unflatten(-1, (self.num_heads, area, area))  # (B, N, H, K², K²)
        head_dim = self.value_proj.out_features // self.num_heads
        return (scores.transpose(1, 2) * head_dim**-0.5).softmax(dim=-1)  # (B, H, N, K², K²)

    def forward(self, x: Tensor) -> Tensor:
        """Unfold the values into neighbourhoods, mix each, and fold them back."""
        weights = self.weights(x)  # (B, H, N, K², K²)
        grid = (x.shape[1], x.shape[2])
        around = {"kernel_size": self.kernel, "padding": self.kernel // 2, "stride": self.stride}
        values = F.unfold(self.value_proj(x).movedim(-1, 1), **around)  # (B, D · K², N)
        values = values.unflatten(1, (self.num_heads, -1, self.kernel**2)).permute(0, 1, 4, 3, 2)  # (B, H, N, K², Dh)
        mixed = (weights @ values).permute(0, 1, 4, 3, 2).flatten(1, 3)  # (B, D · K², N)
        return self.out_proj(F.fold(mixed, grid, **around).movedim(1, -1))  # (B, rows, columns, D)


class Outlooker(nn.Module):
    """A pre-norm block that mixes with outlook attention.

    Paper: Yuan et al. 2021 [yuan2021volo], Equations 1 and 2.
    Differs: no stochastic depth.

    Args:
        mixer: an `OutlookAttention`
        d_model: width
        d_ff: of the feed-forward net, 3 · d_model in the paper

    Shapes: (B, rows, columns, D) -> (B, rows, columns, D)
    """

    def __init__(self, mixer: OutlookAttention, d_model: int, d_ff: int) -> None:
        super().__init__()
        wiring = partial(PreNorm, d_model)
        self.mixer, self.mixer_wiring = mixer, wiring()
        self.feed_forward, self.feed_forward_wiring = FeedForward(d_model, d_ff, activation=F.gelu), wiring()

    def forward(self, x: Tensor) -> Tensor:
        """Neighbours mix, then each patch is transformed by itself."""
        x = self.mixer_wiring.join(x, self.mixer(self.mixer_wiring.enter(x)))
        return self.feed_forward_wiring.join(x, self.feed_forward(self.feed_forward_wiring.enter(x)))
