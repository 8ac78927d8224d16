"""Swin V2: Swin, changed so that it stays calm when deep and carries over to larger windows."""

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import AttentionPositions, MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, Wiring, find_activation
from lecturelib.layers.initialisation import initialise
from lecturelib.layers.patches import PatchEmbedding, check_images, pad_to_patches
from lecturelib.layers.positions.window import relative_index
from lecturelib.layers.residual import StochasticDepth, depth_rates
from lecturelib.layers.windows import Window, WindowAttention, join_neighbours
from lecturelib.models.swin import SwinConfig


@dataclass(frozen=True, kw_only=True)
class SwinV2Config(SwinConfig):
    """The sizes of a Swin V2: those of a Swin, and the window of each stage in pre-training, if it was another.

    Offsets are measured in the pre-training window, so that a larger one continues where the smaller one ended.
    """

    image_size: int | tuple[int, int] = 256
    window: int = 8
    pretrained_window: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pretrained_window is not None and len(self.pretrained_window) != len(self.num_layers):
            raise ValueError(
                f"SwinV2Config: pretrained_window needs a side for each of {len(self.num_layers)} stages, 0 for the "
                f"window itself, got {self.pretrained_window}"
            )


SWIN_V2_TINY = SwinV2Config(d_model=96, num_layers=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), drop_path=0.2)
SWIN_V2_SMALL = SwinV2Config(d_model=96, num_layers=(2, 2, 18, 2), num_heads=(3, 6, 12, 24), drop_path=0.3)
SWIN_V2_BASE = SwinV2Config(d_model=128, num_layers=(2, 2, 18, 2), num_heads=(4, 8, 16, 32), drop_path=0.5)


class CosineWindowBias(AttentionPositions):
    """Score by the cosine of query and key, times a learned sharpness, plus a smooth function of their offset.

    The offset enters on a logarithmic scale, and a small net turns it into a bias between 0 and 16 for each head: so it
    is defined for any window, and large windows leave little to extrapolate.

    Paper: Liu et al. 2022 [liu2022swin], Equations 2 to 4.
    Differs: the bias passes 16 · sigmoid, and sharpness is at most 100, as in the authors' code; its logarithm is
    learned where the paper has 1 / τ.

    Args:
        num_heads: a sharpness and a bias for each
        window: rows and columns
        pretrained_window: side of the window that offsets are measured in; the window itself when 0
        hidden_dim: of the small net
    """

    index: Tensor
    offsets: Tensor

    def __init__(self, num_heads: int, window: Window, *, pretrained_window: int = 0, hidden_dim: int = 512) -> None:
        super().__init__()
        self.log_sharpness = nn.Parameter(torch.full((num_heads, 1, 1), math.log(10.0)))
        self.net = nn.Sequential(nn.Linear(2, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, num_heads, bias=False))
        self.register_buffer("index", relative_index(window), persistent=False)
        self.register_buffer("offsets", log_offsets(window, pretrained_window), persistent=False)

    def bias(self) -> Tensor:
        """The net's numbers for all pairs of a window. Shapes: -> (H, T, T)"""
        table = 16 * torch.sigmoid(self.net(self.offsets))  # ((2h - 1)(2w - 1), H)
        return table[self.index.flatten()].unflatten(0, self.index.shape).permute(2, 0, 1)  # (H, T, T)

    def turn(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Queries and keys of one length, whose dot product, divided by sqrt(Dh), is the sharpened cosine."""
        sharpness = self.log_sharpness.clamp(max=math.log(100.0)).exp()  # (H, 1, 1)
        length = (sharpness * math.sqrt(heads.shape[-1])).sqrt()
        return F.normalize(heads, dim=-1) * length.to(heads.dtype)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """The same for all queries and keys."""
        return self.bias()


def log_offsets(window: Window, pretrained_window: int = 0) -> Tensor:
    """All offsets of a window, log-spaced: ±log(1 + 8 |Δ| / (side - 1)) / log 8, about ±1 at the edge of the window.

    Paper: Liu et al. 2022 [liu2022swin], Equation 4.
    Differs: offsets are first scaled to ±8 at the edge, as in the authors' code.

    Shapes: -> ((2h - 1)(2w - 1), 2), in the order of `relative_index`
    """
    axes = []
    for side in window:
        reach = max(1, (pretrained_window or side) - 1)
        axes.append(8 * torch.arange(1 - side, side, dtype=torch.get_default_dtype()) / reach)
    offsets = torch.cartesian_prod(*axes)  # ((2h - 1)(2w - 1), 2)
    return offsets.sign() * torch.log2(1 + offsets.abs()) / 3


class ResPostNorm(Wiring):
    """Normalise what the sublayer says before it is added, so that the stream grows slowly: x + norm(f(x)).

    Paper: Liu et al. 2022 [liu2022swin], Section 3.2.
    Differs: the gain of the norm starts at 1; the authors' code starts it at 0, so that a fresh block adds nothing.
    """

    def join(self, x: Tensor, out: Tensor) -> Tensor:
        """The stream plus the normalised output."""
        return x + self.through_branch(self.norm(out))


class PatchMerging(nn.Module):
    """Join each 2 × 2 patches into one of twice the width: one matrix, then the norm.

    Paper: Liu et al. 2022 [liu2022swin], in the authors' code: V1 has the norm before the matrix.
    Differs: nothing.

    Shapes: (B, rows, columns, D) -> (B, rows / 2, columns / 2, 2 · D)
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.reduce = nn.Linear(4 * d_model, 2 * d_model, bias=False)
        self.norm = nn.LayerNorm(2 * d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Half the sides, twice the width."""
        return self.norm(self.reduce(join_neighbours(x)))


class SwinV2(nn.Module):
    """Classify images by the mean of the last stage's patches.

    Paper: Liu et al. 2022 [liu2022swin], Section 3.
    Differs: the extra norms that the paper's largest models have every few layers are left out. Images may have any
    height and width: what patches, windows and merging do not cover is padded with zeros. An axis that fits in one
    window at `image_size` is not shifted in larger images either, as in the authors' code.
    """

    def __init__(self, config: SwinV2Config) -> None:
        super().__init__()
        self.config = config
        rates = iter(depth_rates(config.drop_path, sum(config.num_layers)))
        self.patches = PatchEmbedding(config.num_channels, config.d_model, config.patch_size)
        self.patch_norm = nn.LayerNorm(config.d_model)
        self.stages = nn.Sequential(*(_stage(config, stage, rates) for stage in range(len(config.num_layers))))
        last = config.width(len(config.num_layers) - 1)
        self.norm = nn.LayerNorm(last)
        self.head = nn.Linear(last, config.num_classes)
        self.apply(initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the classes.

        Shapes: images (B, channels, height, width) -> (B, classes)
        """
        check_images(images, self.config.num_channels)
        x = self.patch_norm(self.patches(pad_to_patches(images, self.config.patch_size)))  # (B, rows, columns, D)
        x = self.stages(x)  # (B, rows / 2 ** (stages - 1), columns / 2 ** (stages - 1), D · 2 ** (stages - 1))
        return self.head(self.norm(x).mean(dim=(1, 2)))


def _stage(config: SwinV2Config, stage: int, rates: Iterator[float]) -> nn.Sequential:
    merging = PatchMerging(config.width(stage - 1)) if stage else nn.Identity()
    blocks = [_block(config, stage, layer, next(rates)) for layer in range(config.num_layers[stage])]
    return nn.Sequential(OrderedDict(merging=merging, blocks=nn.Sequential(*blocks)))


def _block(config: SwinV2Config, stage: int, layer: int, drop_path: float) -> Block:
    width, num_heads, window = config.width(stage), config.num_heads[stage], config.stage_window(stage)
    pretrained = config.pretrained_window[stage] if config.pretrained_window else 0
    attention = MultiHeadAttention(
        width, num_heads, positions=CosineWindowBias(num_heads, window, pretrained_window=pretrained)
    )
    attention.key_proj = nn.Linear(width, width, bias=False)  # V2's keys have no bias
    fits = [side <= config.window for side in config.stage_grid(stage)]  # in one window, in an image of image_size
    shift = (0 if fits[0] else window[0] // 2, 0 if fits[1] else window[1] // 2) if layer % 2 else (0, 0)
    return Block(
        WindowAttention(attention, window, shift),
        FeedForward(width, int(config.mlp_ratio * width), activation=find_activation(config.activation)),
        partial(ResPostNorm, width, branch=StochasticDepth(drop_path)),
    )
