"""DETR: learned queries look at an image, and each says "this object, in this box" or "no object"."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import FeedForward, PostNorm
from lecturelib.layers.checks import check_config, check_heads
from lecturelib.layers.positions.added import SinusoidalPositions
from lecturelib.models.conv_encoder import VGG19, ConvEncoder, ConvEncoderConfig


@dataclass(frozen=True, kw_only=True)
class DETRConfig:
    """The sizes of a DETR; `num_classes` does not count "no object", which comes after them."""

    num_classes: int
    image: ConvEncoderConfig = field(default_factory=ConvEncoderConfig)
    num_queries: int = 100
    d_model: int = 256
    num_heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    d_ff: int = 2048
    dropout: float = 0.1

    def __post_init__(self) -> None:
        sizes = ("num_classes", "num_queries", "d_model", "num_heads", "encoder_layers", "decoder_layers", "d_ff")
        check_config(self, sizes=sizes)
        check_heads(self.d_model, self.num_heads, "DETRConfig")
        if self.d_model % 4:
            raise ValueError(
                "DETRConfig: d_model must be divisible by 4, a sine and a cosine for down and for across, "
                f"got d_model={self.d_model}"
            )


CARION2020_COCO = DETRConfig(num_classes=91, image=VGG19)


class Detected(NamedTuple):
    """What each query says after each of the L decoder layers; the last layer's is the answer.

    logits (B, L, Q, classes + 1), "no object" last; boxes (B, L, Q, 4): middle x and y, width and height, from 0 to 1
    """

    logits: Tensor
    boxes: Tensor


class SineGrid(nn.Module):
    """Sines and cosines of how far down a region of a grid lies, then of how far across.

    Paper: Carion et al. 2020 [carion2020end], appendix: half of the width for each of the two axes.
    Differs: nothing; as in the authors' code the last row and the last column stand at 2π, whatever the grid's size.

    Shapes: rows, columns -> (rows · columns, D)
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.waves = SinusoidalPositions(d_model // 2)

    def forward(self, rows: int, columns: int, device: torch.device | None = None) -> Tensor:
        """One vector for each region, row by row, in the precision of `SinusoidalPositions`."""
        dtype = torch.promote_types(self.waves.get_buffer("precision").dtype, torch.float32)
        down, across = (
            self.waves(torch.arange(1, side + 1, device=device, dtype=dtype) * (2 * math.pi / side))
            for side in (rows, columns)
        )  # (rows, D / 2), (columns, D / 2)
        down, across = down[:, None].expand(-1, columns, -1), across[None].expand(rows, -1, -1)
        return torch.cat((down, across), dim=-1).flatten(0, 1)  # (N, D)


class PlacedAttention(nn.Module):
    """Attention on the residual stream that compares contents *and* positions but passes on contents alone.

    Positions are added to what queries and keys are made of, in every layer anew, and never to the values.

    Paper: Carion et al. 2020 [carion2020end], Section 3.2 and the detailed architecture in the appendix.
    Differs: nothing; wired post-norm.

    Shapes: x (B, Tq, D), its positions (Tq, D); memory (B, Tk, D), its positions (Tk, D) -> (B, Tq, D)
    """

    def __init__(self, config: DETRConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.d_model, config.num_heads, dropout=config.dropout)
        self.wiring = PostNorm(config.d_model, dropout=config.dropout)

    def forward(self, x: Tensor, where: Tensor, memory: Tensor, memory_where: Tensor) -> Tensor:
        """The stream after it has read the memory; for self-attention the memory is the stream itself."""
        return self.wiring.join(x, self.attention(x + where, memory + memory_where, memory))


class RegionBlock(nn.Module):
    """One encoder layer: the regions of the image read each other, then each is transformed by itself.

    Paper: Carion et al. 2020 [carion2020end], the detailed architecture in the appendix.
    Differs: nothing.

    Shapes: regions (B, N, D), where (N, D) -> (B, N, D)
    """

    def __init__(self, config: DETRConfig) -> None:
        super().__init__()
        self.mixer = PlacedAttention(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, dropout=config.dropout)
        self.feed_forward_wiring = PostNorm(config.d_model, dropout=config.dropout)

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        """The regions, in context."""
        x = self.mixer(x, where, x, where)
        return self.feed_forward_wiring.join(x, self.feed_forward(x))


class QueryBlock(nn.Module):
    """One decoder layer: the queries read each other, then the image, then each is transformed by itself.

    Paper: Carion et al. 2020 [carion2020end], the detailed architecture in the appendix.
    Differs: nothing. In the first block the queries hold zeros, so that its self-attention adds the same to all.

    Shapes: slots (B, Q, D), queries (Q, D), regions (B, N, D), where (N, D) -> (B, Q, D)
    """

    def __init__(self, config: DETRConfig) -> None:
        super().__init__()
        self.mixer, self.cross = PlacedAttention(config), PlacedAttention(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, dropout=config.dropout)
        self.feed_forward_wiring = PostNorm(config.d_model, dropout=config.dropout)

    def forward(self, x: Tensor, queries: Tensor, regions: Tensor, where: Tensor) -> Tensor:
        """What the slots hold, one layer further; `queries` are the slots' own positions."""
        x = self.mixer(x, queries, x, queries)
        x = self.cross(x, queries, regions, where)
        return self.feed_forward_wiring.join(x, self.feed_forward(x))


class DETR(nn.Module):
    """Find all objects of an image at once: every query gives one class and one box, or "no object".

    Convolutions make a grid of regions; a transformer encoder lets regions read each other; in the decoder each of Q
    slots starts at zero, and its learned query is added to it as a position in every layer.

    Paper: Carion et al. 2020 [carion2020end], Section 3.2; post-norm and one more norm before the heads.
    Differs: the grid comes from a `ConvEncoder`, which also writes each region's place into its vector, and is trained
    along; the paper has a ResNet that knows ImageNet. All images of a batch have one size, so there is no padding.

    Args:
        config: sizes, or the paper's transformer on VGG19: CARION2020_COCO

    Shapes: images (B, channels, height, width) -> logits (B, L, Q, classes + 1), boxes (B, L, Q, 4)
    """

    def __init__(self, config: DETRConfig) -> None:
        super().__init__()
        self.config = config
        d_model = config.d_model
        self.backbone = ConvEncoder(config.image)
        self.project = nn.Linear(config.image.d_model, d_model)
        self.positions = SineGrid(d_model)
        self.encoder = nn.ModuleList(RegionBlock(config) for _ in range(config.encoder_layers))
        self.queries = nn.Parameter(torch.randn(config.num_queries, d_model))
        self.decoder = nn.ModuleList(QueryBlock(config) for _ in range(config.decoder_layers))
        self.decoder_norm = nn.LayerNorm(d_model)
        self.class_head = nn.Linear(d_model, config.num_classes + 1)
        self.box_head = nn.Sequential(
            *(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, 4))
        )
        for module in (*self.encoder.modules(), *self.decoder.modules()):
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, images: Tensor) -> Detected:
        """What every query says of these images, after every decoder layer."""
        grid = self.project(self.backbone(images))  # (B, N, D)
        rows, columns = (side // self.config.image.stride for side in images.shape[2:])
        return self.detect(grid, self.positions(rows, columns, grid.device).to(grid.dtype))

    def detect(self, regions: Tensor, where: Tensor) -> Detected:
        """The transformer and the heads alone: regions (B, N, D) and their positions (N, D)."""
        for block in self.encoder:
            regions = block(regions, where)
        x = regions.new_zeros(regions.shape[0], *self.queries.shape)  # (B, Q, D)
        after = []
        for block in self.decoder:
            x = block(x, self.queries, regions, where)
            after.append(self.decoder_norm(x))
        slots = torch.stack(after, dim=1)  # (B, L, Q, D)
        return Detected(self.class_head(slots), self.box_head(slots).sigmoid())
