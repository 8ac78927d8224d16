"""ViT: an image is 16 × 16 words. An encoder over patches, with a class token that collects what they say."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PreNorm, find_activation
from lecturelib.layers.checks import check_config, check_heads
from lecturelib.layers.initialisation import initialise, truncated_normal_
from lecturelib.layers.patches import PatchEmbedding, Size, check_divisible, pair
from lecturelib.layers.positions.grid import GridPositions
from lecturelib.layers.residual import StochasticDepth, depth_rates


@dataclass(frozen=True, kw_only=True)
class ViTConfig:
    """The sizes of a ViT or DeiT; `d_ff` is 4 · d_model when left out.

    `image_size` is the one that the table of positions is made for; images of other sizes interpolate it.
    """

    image_size: Size = 224
    patch_size: int = 16
    num_channels: int = 3
    num_classes: int = 1000
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int | None = None
    dropout: float = 0.0
    drop_path: float = 0.0
    eps: float = 1e-6
    activation: str = "gelu"

    def __post_init__(self) -> None:
        sizes = ("patch_size", "num_channels", "num_classes", "d_model", "num_heads", "num_layers")
        check_config(self, sizes=sizes if self.d_ff is None else (*sizes, "d_ff"), dropout=("dropout", "drop_path"))
        check_heads(self.d_model, self.num_heads, "ViTConfig")
        check_divisible(self.image_size, self.patch_size, "ViTConfig: an image_size")
        find_activation(self.activation)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches in an image of `image_size`."""
        height, width = pair(self.image_size)
        return height // self.patch_size, width // self.patch_size


VIT_TINY = ViTConfig(d_model=192, num_heads=3, num_layers=12)
VIT_SMALL = ViTConfig(d_model=384, num_heads=6, num_layers=12)
VIT_BASE = ViTConfig(d_model=768, num_heads=12, num_layers=12)
VIT_LARGE = ViTConfig(d_model=1024, num_heads=16, num_layers=24)
VIT_HUGE = ViTConfig(patch_size=14, d_model=1280, num_heads=16, num_layers=32)


class ViTEncoder(nn.Module):
    """What ViT and DeiT share: patches and prefix tokens with positions, pre-norm blocks, and a last norm.

    Paper: Dosovitskiy et al. 2021 [dosovitskiy2021image], Equations 1 to 3.
    Differs: stochastic depth, growing with the layer, as in DeiT; none at `drop_path` 0.

    Args:
        config: the sizes
        num_prefix: learned tokens before the patches: a class token, and for DeiT a distillation token
    """

    def __init__(self, config: ViTConfig, *, num_prefix: int = 1) -> None:
        super().__init__()
        d_model, dropout, activation = config.d_model, config.dropout, find_activation(config.activation)
        self.patches = PatchEmbedding(config.num_channels, d_model, config.patch_size)
        self.prefix_tokens = nn.ParameterList(torch.zeros(1, 1, d_model) for _ in range(num_prefix))
        self.positions = GridPositions(config.grid, d_model, num_prefix=num_prefix)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(
                MultiHeadAttention(d_model, config.num_heads),
                FeedForward(d_model, config.d_ff or 4 * d_model, activation=activation, dropout=dropout),
                partial(PreNorm, d_model, dropout=dropout, eps=config.eps, branch=StochasticDepth(rate)),
            )
            for rate in depth_rates(config.drop_path, config.num_layers)
        )
        self.norm = nn.LayerNorm(d_model, eps=config.eps)
        self.apply(initialise)
        for parameter in (*self.prefix_tokens, self.positions.weight):
            truncated_normal_(parameter)

    def forward(self, images: Tensor) -> Tensor:
        """Encode images of any height and width that patches cover.

        Shapes: (B, channels, height, width) -> tokens (B, prefix + N, D)
        """
        grid = self.patches(images)  # (B, rows, columns, D)
        rows, columns = grid.shape[1:3]
        prefix = [token.expand(len(images), -1, -1) for token in self.prefix_tokens]  # (B, 1, D) each
        x = torch.cat((*prefix, grid.flatten(1, 2)), dim=1)  # (B, prefix + N, D)
        x = self.dropout(x + self.positions((rows, columns)))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class ViT(nn.Module):
    """Classify images by their class token.

    Paper: Dosovitskiy et al. 2021 [dosovitskiy2021image], Section 3.1; Tiny and Small are DeiT's sizes.
    Differs: the head is one matrix, as in the paper's fine-tuning; its pre-training head has a hidden layer.
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = ViTEncoder(config)
        self.head = nn.Linear(config.d_model, config.num_classes)
        self.head.apply(initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the classes.

        Shapes: images (B, channels, height, width) -> (B, classes)
        """
        return self.head(self.encoder(images)[:, 0])

    def set_image_size(self, image_size: Size) -> Self:
        """Interpolate the positions to another size once and for all, for fine-tuning there, and return self."""
        self.config = replace(self.config, image_size=image_size)
        self.encoder.positions.resize_(self.config.grid)
        return self
