"""A convolutional network that keeps its grid: an image goes in, a vector for every region comes out."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.checks import check_config
from lecturelib.layers.patches import check_divisible, check_images


@dataclass(frozen=True, kw_only=True)
class ConvEncoderConfig:
    """Stages of 3 × 3 convolutions: `layers[s]` of them with `widths[s]` channels, sides halved between stages."""

    num_channels: int = 3
    widths: tuple[int, ...] = (16, 32, 64)
    layers: tuple[int, ...] = (1, 1, 2)

    def __post_init__(self) -> None:
        check_config(self, sizes=("num_channels",), dropout=())
        if len(self.widths) != len(self.layers) or not self.widths or min((*self.widths, *self.layers)) < 1:
            raise ValueError(
                "ConvEncoderConfig: widths and layers must name at least one stage, each with at least one channel "
                f"and one layer, got widths={self.widths} and layers={self.layers}"
            )

    @property
    def d_model(self) -> int:
        """The width of the vector of a region: its channels and its place."""
        return self.widths[-1] + 2

    @property
    def stride(self) -> int:
        """Pixels along the side of a region."""
        return 2 ** (len(self.widths) - 1)


VGG19 = ConvEncoderConfig(widths=(64, 128, 256, 512, 512), layers=(2, 2, 4, 4, 4))


class ConvEncoder(nn.Module):
    """Turn images into a grid of vectors, one for each region, read row by row.

    Paper: Simonyan & Zisserman 2015 [simonyan2015very]; `VGG19` up to its last convolution, 14 × 14 vectors of width
    512 for 224 pixels, is what Xu et al. 2015 [xu2015show] look at.
    Differs: two more numbers in each vector say where its region lies, down and across, from −1 to 1, as Liu et al.
    2018 [liu2018intriguing] append them: a shallow network sees too little of the border to know.

    Shapes: images (B, channels, height, width) -> (B, N, D) with N = height / stride · width / stride
    """

    def __init__(self, config: ConvEncoderConfig) -> None:
        super().__init__()
        self.config = config
        d_in = config.num_channels
        stages: list[nn.Module] = []
        for width, layers in zip(config.widths, config.layers, strict=True):
            parts: list[nn.Module] = []
            for _ in range(layers):
                parts += [nn.Conv2d(d_in, width, 3, padding=1), nn.ReLU()]
                d_in = width
            stages.append(nn.Sequential(*parts))
        self.stages = nn.ModuleList(stages)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, images: Tensor) -> Tensor:
        """A vector for every region."""
        check_images(images, self.config.num_channels)
        check_divisible((images.shape[2], images.shape[3]), self.config.stride)
        x = images
        for number, stage in enumerate(self.stages):
            x = stage(x if number == 0 else F.max_pool2d(x, 2))
        return torch.cat([x, _places(x)], dim=1).flatten(2).transpose(1, 2)  # (B, N, D)


def _places(x: Tensor) -> Tensor:
    """How far down and how far across each region lies, from −1 to 1: (B, 2, rows, columns)."""
    batch, _, height, width = x.shape
    down, across = (torch.linspace(-1, 1, side, device=x.device, dtype=x.dtype) for side in (height, width))
    return torch.stack(torch.meshgrid(down, across, indexing="ij")).expand(batch, 2, height, width)
