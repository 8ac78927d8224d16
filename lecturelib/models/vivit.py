"""ViViT: a video is a box of tubelets. One encoder over all of them, or one for space and one for time."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PreNorm, find_activation
from lecturelib.layers.checks import check_config, check_heads
from lecturelib.layers.initialisation import initialise, truncated_normal_
from lecturelib.layers.patches import Size, check_divisible, pair
from lecturelib.layers.tubelets import TubeletEmbedding


@dataclass(frozen=True, kw_only=True)
class ViViTConfig:
    """The sizes of a ViViT; `d_ff` is 4 · d_model when left out. A tubelet is `tubelet` frames of a patch."""

    image_size: Size = 224
    num_frames: int = 32
    patch_size: int = 16
    tubelet: int = 2
    num_channels: int = 3
    num_classes: int = 400
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int | None = None
    dropout: float = 0.0
    eps: float = 1e-6
    activation: str = "gelu_tanh"

    def __post_init__(self) -> None:
        sizes = ("num_frames", "patch_size", "tubelet", "num_channels", "num_classes", "d_model", "num_layers")
        check_config(self, sizes=sizes if self.d_ff is None else (*sizes, "d_ff"))
        check_heads(self.d_model, self.num_heads, "ViViTConfig")
        check_divisible(self.image_size, self.patch_size, "ViViTConfig: an image_size")
        if self.num_frames % self.tubelet:
            raise ValueError(
                f"ViViTConfig: tubelet must divide num_frames, got tubelet={self.tubelet} and "
                f"num_frames={self.num_frames}"
            )
        find_activation(self.activation)

    @property
    def grid(self) -> tuple[int, int, int]:
        """How many tubelets a video has in time, down and across."""
        height, width = pair(self.image_size)
        return self.num_frames // self.tubelet, height // self.patch_size, width // self.patch_size


VIVIT_BASE = ViViTConfig(d_model=768, num_heads=12, num_layers=12)
VIVIT_LARGE = ViViTConfig(d_model=1024, num_heads=16, num_layers=24)


class SequenceEncoder(nn.Module):
    """A class token before the tokens, a learned position for each, pre-norm blocks, and a last norm.

    Paper: Arnab et al. 2021 [arnab2021vivit], Equations 1 to 3; each of ViViT's encoders is one.
    Differs: nothing. As in the authors' code, matrices start at Xavier's scale (a ViT's usual 0.02 is too little for
    narrow ones to learn from), positions at 0.02 and the class token at zero.

    Args:
        config: width, heads, dropout
        length: of the sequence
        num_layers: blocks

    Shapes: (B, T, D) -> (B, 1 + T, D), the class token first
    """

    def __init__(self, config: ViViTConfig, length: int, num_layers: int) -> None:
        super().__init__()
        d_model, dropout = config.d_model, config.dropout
        self.class_token = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, 1 + length, d_model))
        self.dropout = nn.Dropout(dropout)
        feed_forward = partial(
            FeedForward,
            d_model,
            config.d_ff or 4 * d_model,
            activation=find_activation(config.activation),
            dropout=dropout,
        )
        wiring = partial(PreNorm, d_model, dropout=dropout, eps=config.eps)
        self.blocks = nn.ModuleList(
            Block(MultiHeadAttention(d_model, config.num_heads), feed_forward(), wiring) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(d_model, eps=config.eps)
        truncated_normal_(self.positions)
        for module in self.blocks.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """Every token reads every other."""
        x = torch.cat((self.class_token.expand(len(tokens), -1, -1), tokens), dim=1)  # (B, 1 + T, D)
        x = self.dropout(x + self.positions)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class JointEncoder(nn.Module):
    """One encoder over all tubelets of a video: every one reads every other, in any frame.

    Paper: Arnab et al. 2021 [arnab2021vivit], Section 3.3, Model 1 (spatio-temporal attention).
    Differs: nothing.

    Shapes: (B, times, rows, columns, D) -> class token (B, D)
    """

    def __init__(self, config: ViViTConfig) -> None:
        super().__init__()
        times, rows, columns = config.grid
        self.encoder = SequenceEncoder(config, times * rows * columns, config.num_layers)

    def forward(self, tubelets: Tensor) -> Tensor:
        """One long sequence."""
        return self.encoder(tubelets.flatten(1, 3))[:, 0]


class FactorisedEncoder(nn.Module):
    """Space, then time: tubelets read those of the same time, and then the times' class tokens read each other.

    Paper: Arnab et al. 2021 [arnab2021vivit], Section 3.3, Model 2 (factorised encoder).
    Differs: nothing; the temporal encoder has positions and a class token of its own, as in the authors' code.

    Args:
        config: the sizes; its `num_layers` are those of the spatial encoder
        num_temporal_layers: blocks of the temporal one, 4 in the paper

    Shapes: (B, times, rows, columns, D) -> class token (B, D)
    """

    def __init__(self, config: ViViTConfig, num_temporal_layers: int = 4) -> None:
        super().__init__()
        if num_temporal_layers < 1:
            raise ValueError(f"num_temporal_layers must be at least 1, got {num_temporal_layers}")
        times, rows, columns = config.grid
        self.spatial = SequenceEncoder(config, rows * columns, config.num_layers)
        self.temporal = SequenceEncoder(config, times, num_temporal_layers)

    def forward(self, tubelets: Tensor) -> Tensor:
        """Many short sequences, then one of their summaries."""
        batch, times = tubelets.shape[:2]
        of_times = self.spatial(tubelets.flatten(0, 1).flatten(1, 2))[:, 0]  # (B · times, D)
        return self.temporal(of_times.unflatten(0, (batch, times)))[:, 0]


class ViViT(nn.Module):
    """Classify videos by the class token of an encoder over tubelets.

    Paper: Arnab et al. 2021 [arnab2021vivit], Sections 3.2 and 3.3, Models 1 and 2.
    Differs: videos have the size of the config. The model starts fresh, not from an image model, and its head small,
    not at zero.

    Args:
        config: the sizes
        encoder: (B, times, rows, columns, D) -> (B, D): a `JointEncoder`, or a `FactorisedEncoder`, also when left out

    Shapes: videos (B, frames, channels, height, width) -> logits (B, classes)
    """

    def __init__(self, config: ViViTConfig, encoder: nn.Module | None = None) -> None:
        super().__init__()
        self.config = config
        self.tubelets = TubeletEmbedding(config.num_channels, config.d_model, config.patch_size, config.tubelet)
        self.encoder = FactorisedEncoder(config) if encoder is None else encoder
        self.head = nn.Linear(config.d_model, config.num_classes)
        self.tubelets.apply(initialise)
        self.head.apply(initialise)

    def forward(self, videos: Tensor) -> Tensor:
        """Logits of the classes."""
        tubelets = self.tubelets(videos)  # (B, times, rows, columns, D)
        if tuple(tubelets.shape[1:4]) != self.config.grid:
            config = self.config
            raise ValueError(
                f"this ViViT is for {config.num_frames} frames of {pair(config.image_size)} pixels, got "
                f"{tuple(videos.shape)}"
            )
        return self.head(self.encoder(tubelets))
