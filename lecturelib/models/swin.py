"""Swin: a pyramid of windows. Attention stays inside a window, and every other layer moves the windows."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PreNorm, find_activation
from lecturelib.layers.checks import check_config, check_heads
from lecturelib.layers.initialisation import initialise
from lecturelib.layers.patches import PatchEmbedding, Size, check_images, pad_to_patches, pair
from lecturelib.layers.positions.window import WindowBias
from lecturelib.layers.residual import StochasticDepth, depth_rates
from lecturelib.layers.windows import Window, WindowAttention, join_neighbours


@dataclass(frozen=True, kw_only=True)
class SwinConfig:
    """The sizes of a Swin: layers and heads of each stage, the width of the first, which doubles with every stage.

    `image_size` decides one thing only: where a stage's grid would be smaller than a window, the window shrinks to it.
    """

    image_size: Size = 224
    patch_size: int = 4
    num_channels: int = 3
    num_classes: int = 1000
    d_model: int
    num_heads: tuple[int, ...]
    num_layers: tuple[int, ...]
    window: int = 7
    mlp_ratio: float = 4.0
    drop_path: float = 0.0
    activation: str = "gelu"

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_config(
            self, sizes=("patch_size", "num_channels", "num_classes", "d_model", "window"), dropout=("drop_path",)
        )
        if len(self.num_heads) != len(self.num_layers) or not self.num_layers or min(self.num_layers) < 1:
            raise ValueError(
                f"{name}: num_layers and num_heads need a number of at least 1 for every stage, got "
                f"{self.num_layers} and {self.num_heads}"
            )
        for stage, heads in enumerate(self.num_heads):
            check_heads(self.width(stage), heads, f"{name}: stage {stage}")
        find_activation(self.activation)
        smallest = self.patch_size * 2 ** (len(self.num_layers) - 1)
        if min(pair(self.image_size)) < smallest:
            raise ValueError(
                f"{name}: image_size {self.image_size} leaves nothing for the last of {len(self.num_layers)} stages; "
                f"use {smallest} pixels or more, fewer stages or smaller patches"
            )

    def width(self, stage: int) -> int:
        """The width of a stage's tokens."""
        return self.d_model * 2**stage

    def stage_grid(self, stage: int) -> tuple[int, int]:
        """Rows and columns of a stage, in an image of `image_size`."""
        height, width = pair(self.image_size)
        return height // self.patch_size // 2**stage, width // self.patch_size // 2**stage

    def stage_window(self, stage: int) -> Window:
        """A stage's window: no larger than the grid that it has in an image of `image_size`."""
        rows, columns = self.stage_grid(stage)
        return min(self.window, rows), min(self.window, columns)


SWIN_TINY = SwinConfig(d_model=96, num_layers=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), drop_path=0.2)
SWIN_SMALL = SwinConfig(d_model=96, num_layers=(2, 2, 18, 2), num_heads=(3, 6, 12, 24), drop_path=0.3)
SWIN_BASE = SwinConfig(d_model=128, num_layers=(2, 2, 18, 2), num_heads=(4, 8, 16, 32), drop_path=0.5)
SWIN_LARGE = SwinConfig(d_model=192, num_layers=(2, 2, 18, 2), num_heads=(6, 12, 24, 48), drop_path=0.2)


class PatchMerging(nn.Module):
    """Join each 2 × 2 patches into one of twice the width: norm, then one matrix.

    Paper: Liu et al. 2021 [liu2021swin], Section 3.1.
    Differs: nothing; the norm is in the authors' code. An odd side is padded with zeros.

    Args:
        d_model: width of the patches that come in

    Shapes: (B, rows, columns, D) -> (B, rows / 2, columns / 2, 2 · D)
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * d_model)
        self.reduce = nn.Linear(4 * d_model, 2 * d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Half the sides, twice the width."""
        return self.reduce(self.norm(join_neighbours(x)))


class Swin(nn.Module):
    """Classify images by the mean of the last stage's patches.

    Paper: Liu et al. 2021 [liu2021swin], Section 3.
    Differs: nothing. Images may have any height and width: what patches, windows and merging do not cover is padded
    with zeros, as in the authors' detection code.
    """

    def __init__(self, config: SwinConfig) -> None:
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


def _stage(config: SwinConfig, stage: int, rates: Iterator[float]) -> nn.Sequential:
    merging = PatchMerging(config.width(stage - 1)) if stage else nn.Identity()
    blocks = [_block(config, stage, layer, next(rates)) for layer in range(config.num_layers[stage])]
    return nn.Sequential(OrderedDict(merging=merging, blocks=nn.Sequential(*blocks)))


def _block(config: SwinConfig, stage: int, layer: int, drop_path: float) -> Block:
    width, num_heads, window = config.width(stage), config.num_heads[stage], config.stage_window(stage)
    attention = MultiHeadAttention(width, num_heads, positions=WindowBias(num_heads, window))
    shift = (window[0] // 2, window[1] // 2) if layer % 2 else (0, 0)
    return Block(
        WindowAttention(attention, window, shift),
        FeedForward(width, int(config.mlp_ratio * width), activation=find_activation(config.activation)),
        partial(PreNorm, width, branch=StochasticDepth(drop_path)),
    )
