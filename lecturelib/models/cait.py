"""CaiT: deeper. Patches first talk among themselves; then a class token reads them, and no longer disturbs them."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention, combine_masks, masked_softmax
from lecturelib.layers.block import Block, FeedForward, PreNorm
from lecturelib.layers.checks import check_config, check_heads
from lecturelib.layers.initialisation import initialise, truncated_normal_
from lecturelib.layers.patches import PatchEmbedding, Size, check_divisible, pair
from lecturelib.layers.positions.grid import GridPositions
from lecturelib.layers.residual import StochasticDepth

EPS = 1e-6


@dataclass(frozen=True, kw_only=True)
class CaiTConfig:
    """The sizes of a CaiT. `layer_scale` is where the scales of the residual branches start."""

    image_size: Size = 224
    patch_size: int = 16
    num_channels: int = 3
    num_classes: int = 1000
    d_model: int
    num_heads: int
    num_layers: int
    num_class_layers: int = 2
    d_ff: int | None = None
    drop_path: float = 0.0
    layer_scale: float = 1e-5

    def __post_init__(self) -> None:
        sizes = ("patch_size", "num_channels", "num_classes", "d_model", "num_heads", "num_layers", "num_class_layers")
        check_config(self, sizes=sizes if self.d_ff is None else (*sizes, "d_ff"), dropout=("drop_path",))
        check_heads(self.d_model, self.num_heads, "CaiTConfig")
        check_divisible(self.image_size, self.patch_size, "CaiTConfig: an image_size")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches in an image of `image_size`."""
        height, width = pair(self.image_size)
        return height // self.patch_size, width // self.patch_size


CAIT_XXS24 = CaiTConfig(d_model=192, num_heads=4, num_layers=24, drop_path=0.05)
CAIT_XXS36 = CaiTConfig(d_model=192, num_heads=4, num_layers=36, drop_path=0.1, layer_scale=1e-6)
CAIT_XS24 = CaiTConfig(d_model=288, num_heads=6, num_layers=24, drop_path=0.05)
CAIT_S24 = CaiTConfig(d_model=384, num_heads=8, num_layers=24, drop_path=0.1)
CAIT_S36 = CaiTConfig(d_model=384, num_heads=8, num_layers=36, drop_path=0.2, layer_scale=1e-6)
CAIT_M36 = CaiTConfig(d_model=768, num_heads=16, num_layers=36, drop_path=0.3, layer_scale=1e-6)


class LayerScale(nn.Module):
    """Multiply each feature of a residual branch by a number of its own that starts near zero.

    Paper: Touvron et al. 2021 [touvron2021cait], Section 2.
    Differs: nothing.

    Args:
        d_model: width
        start: what all numbers are at first; the paper's 1e-1 to 18 layers, 1e-5 to 24, 1e-6 beyond

    Shapes: (..., D) -> (..., D)
    """

    def __init__(self, d_model: int, *, start: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((d_model,), start))

    def forward(self, branch: Tensor) -> Tensor:
        """The branch, feature by feature smaller."""
        return branch * self.scale


class TalkingHeads(MultiHeadAttention):
    """Let the heads mix their scores before the softmax, and their weights after it, with two small matrices.

    Paper: Shazeer et al. 2020 [shazeer2020talking]; Touvron et al. 2021 [touvron2021cait], Section 4.1.
    Differs: the two mixings have biases, as in CaiT's code. A bias after the softmax gives every weight a share, so
    mixed weights need not sum to 1, and masked keys are kept out again after it.

    Args:
        d_model: width of the queries and of the output
        num_heads: rows and columns of the two matrices
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.before = nn.Linear(num_heads, num_heads)
        self.after = nn.Linear(num_heads, num_heads)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, is_causal: bool, need_weights: bool
    ) -> tuple[Tensor, Tensor]:
        """Attention whose (B, H, Tq, Tk) scores and weights are mixed over H; they are always stored."""
        if is_causal:
            causal = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
            mask = combine_masks(causal, mask)
        scores = q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)  # (B, H, Tq, Tk)
        weights = self._mix(self.after, masked_softmax(self._mix(self.before, scores), mask))
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        return weights @ v, weights  # (B, H, Tq, Dh)

    @staticmethod
    def _mix(matrix: nn.Linear, heads: Tensor) -> Tensor:
        mixed = matrix.weight @ heads.flatten(2) + matrix.bias[:, None]  # (B, H, Tq · Tk)
        return mixed.unflatten(2, heads.shape[2:])  # (B, H, Tq, Tk)


class CaiT(nn.Module):
    """Many layers in which patches attend to each other, then a few in which only a class token reads them.

    A class-attention layer is a block that is asked about one token and remembers the patches: its query is the class
    token alone, its keys are patches and class token, so its cost is linear in the number of patches.

    Paper: Touvron et al. 2021 [touvron2021cait], Sections 2 and 3.
    Differs: nothing.
    """

    def __init__(self, config: CaiTConfig) -> None:
        super().__init__()
        self.config = config
        d_model, d_ff = config.d_model, config.d_ff or 4 * config.d_model
        self.patches = PatchEmbedding(config.num_channels, d_model, config.patch_size)
        self.positions = GridPositions(config.grid, d_model)
        self.class_token = nn.Parameter(torch.zeros(1, 1, d_model))
        self.blocks = nn.ModuleList(
            Block(
                TalkingHeads(d_model, config.num_heads),
                FeedForward(d_model, d_ff, activation=F.gelu),
                partial(_wiring, d_model, config.layer_scale, config.drop_path),
            )
            for _ in range(config.num_layers)
        )
        self.class_blocks = nn.ModuleList(
            Block(
                MultiHeadAttention(d_model, config.num_heads),
                FeedForward(d_model, d_ff, activation=F.gelu),
                partial(_wiring, d_model, config.layer_scale, 0.0),
            )
            for _ in range(config.num_class_layers)
        )
        self.norm = nn.LayerNorm(d_model, eps=EPS)
        self.head = nn.Linear(d_model, config.num_classes)
        self.apply(initialise)
        truncated_normal_(self.class_token)
        truncated_normal_(self.positions.weight)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the classes. (What the class token attends to are the weights of `class_blocks`, its own last.)

        Shapes: images (B, channels, height, width) -> (B, classes)
        """
        grid = self.patches(images)  # (B, rows, columns, D)
        x = grid.flatten(1, 2) + self.positions((grid.shape[1], grid.shape[2]))  # (B, N, D)
        for block in self.blocks:
            x = block(x)
        token = self.class_token.repeat(len(images), 1, 1)  # (B, 1, D)
        for block in self.class_blocks:
            token = block(token, memory=x)
        return self.head(self.norm(token[:, 0]))

    def set_image_size(self, image_size: Size) -> Self:
        """Interpolate the positions to another size once and for all, for fine-tuning there, and return self."""
        self.config = replace(self.config, image_size=image_size)
        self.positions.resize_(self.config.grid)
        return self


def _wiring(d_model: int, layer_scale: float, rate: float) -> PreNorm:
    scale = LayerScale(d_model, start=layer_scale)
    return PreNorm(d_model, eps=EPS, branch=nn.Sequential(scale, StochasticDepth(rate)))
