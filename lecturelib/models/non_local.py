"""Non-local blocks: self-attention over the pixels of all frames, inside a network of convolutions."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import Attention
from lecturelib.layers.checks import check_config
from lecturelib.layers.tubelets import TubeletEmbedding

Similarity = Callable[[Tensor, Tensor], Tensor]


def embedded_gaussian(query: Tensor, key: Tensor) -> Tensor:
    """Weights by a softmax over all positions: those of self-attention.

    Paper: Wang et al. 2018 [wang2018non], Equation 3.
    Differs: scores are divided by the root of their width, as in the authors' code; the paper's equation is without.

    Shapes: (B, N, width), (B, N, width) -> (B, N, N)
    """
    return (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)


def dot_product(query: Tensor, key: Tensor) -> Tensor:
    """Weights that are the scores themselves, divided by the number of positions; they may be negative.

    Paper: Wang et al. 2018 [wang2018non], Equation 4.
    Differs: nothing.

    Shapes: (B, N, width), (B, N, width) -> (B, N, N)
    """
    return query @ key.mT / key.shape[-2]


class NonLocalBlock(Attention):
    """Add to every position a weighted mean of all positions, in space (an image) or in space and time (a video).

    The last map starts at zero, and with it the block: put into a trained network, it changes nothing at first.

    Paper: Wang et al. 2018 [wang2018non], Section 3.3 and Figure 2; θ, φ, g and W_z are `query_proj`, `key_proj`,
    `value_proj` and `out_proj`.
    Differs: keys and values are not subsampled, and no batch norm follows the last map, whose weights are zero in its
    place. The maps are applied to (B, N, channels), which is what a 1 × 1 × 1 convolution computes.

    Args:
        d_model: channels in and out
        d_inner: channels of queries, keys and values; half of d_model when left out, as in the paper
        similarity: how much each position counts for each other: `embedded_gaussian` or `dot_product`

    Shapes: (B, channels, ...) -> (B, channels, ...), any number of axes for the positions
    """

    def __init__(self, d_model: int, d_inner: int | None = None, *, similarity: Similarity = embedded_gaussian) -> None:
        super().__init__()
        d_inner = d_model // 2 if d_inner is None else d_inner
        if min(d_model, d_inner) < 1:
            raise ValueError(f"a non-local block needs channels, got d_model={d_model} and d_inner={d_inner}")
        self.d_model, self.similarity = d_model, similarity
        self.query_proj = nn.Linear(d_model, d_inner)
        self.key_proj = nn.Linear(d_model, d_inner)
        self.value_proj = nn.Linear(d_model, d_inner)
        self.out_proj = nn.Linear(d_inner, d_model)
        nn.init.zeros_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Every position reads all positions."""
        if x.dim() < 3 or x.shape[1] != self.d_model:
            raise ValueError(f"x must be (batch, {self.d_model}, positions, ...), got {tuple(x.shape)}")
        positions = x.flatten(2).mT  # (B, N, D)
        weights = self.similarity(self.query_proj(positions), self.key_proj(positions))  # (B, N, N)
        self.show(weights[:, None])
        read = self.out_proj(weights @ self.value_proj(positions))  # (B, N, D)
        return x + read.mT.reshape(x.shape)  # (B, D, ...)


class ResidualConvolution(nn.Module):
    """Add to every position what a 3 × 3 × 3 convolution finds around it: one frame, one row, one column each way.

    Paper: He et al. 2016 [he2016deep], Equation 1, for the shortcut.
    Differs: one convolution, in space and time, with the nonlinearity before it, and no norm, so that a position knows
    of nothing but its neighbours.

    Args:
        d_model: channels in and out
        dilation: how many frames and columns apart the neighbours are; rows stay next to each other

    Shapes: (B, channels, frames, rows, columns) -> the same
    """

    def __init__(self, d_model: int, *, dilation: int = 1) -> None:
        super().__init__()
        reach = (dilation, 1, dilation)
        self.conv = nn.Conv3d(d_model, d_model, 3, padding=reach, dilation=reach)
        nn.init.kaiming_normal_(self.conv.weight)

    def forward(self, x: Tensor) -> Tensor:
        """What came in, plus what the convolution makes of it."""
        return x + self.conv(F.relu(x))


@dataclass(frozen=True, kw_only=True)
class VideoNetConfig:
    """The sizes of a VideoNet: patches of `patch_size` pixels in every frame become `d_model` channels."""

    num_channels: int = 3
    num_classes: int = 2
    patch_size: int = 4
    d_model: int = 16

    def __post_init__(self) -> None:
        check_config(self, sizes=("num_channels", "num_classes", "patch_size", "d_model"), dropout=())


class VideoNet(nn.Module):
    """Classify videos by layers that keep the grid of frames, rows and columns, a mean over it, and one matrix.

    Paper: Wang et al. 2018 [wang2018non], Section 4: convolutions in space and time, non-local blocks between them, and
    global average pooling.
    Differs: a small network of our own instead of a ResNet; patches are cut first, and nothing strides after that.

    Args:
        config: the sizes
        layers: (B, D, frames, rows, columns) -> the same: `ResidualConvolution` and `NonLocalBlock`, in any order

    Shapes: videos (B, frames, channels, height, width) -> logits (B, classes)
    """

    def __init__(self, config: VideoNetConfig, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.config = config
        self.patches = TubeletEmbedding(config.num_channels, config.d_model, config.patch_size, 1)
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(config.d_model, config.num_classes)

    def features(self, videos: Tensor) -> Tensor:
        """What the layers make of each position: (B, D, frames, rows, columns)."""
        x = self.patches(videos).movedim(-1, 1)  # (B, D, frames, rows, columns)
        for layer in self.layers:
            x = layer(x)
        return F.relu(x)

    def forward(self, videos: Tensor) -> Tensor:
        """Logits of the classes."""
        return self.head(self.features(videos).flatten(2).mean(dim=2))
