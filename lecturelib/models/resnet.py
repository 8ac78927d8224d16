"""ResNet for small images: the convolutional rival, and the teacher, of the vision transformers in this course."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.checks import check_config
from lecturelib.layers.patches import check_images


@dataclass(frozen=True, kw_only=True)
class ResNetConfig:
    """The sizes of a ResNet: 6 · blocks + 2 layers, in three stages of doubling width and halving sides."""

    num_channels: int = 3
    num_classes: int = 10
    d_model: int = 16
    blocks: int = 3
    num_stages: int = 3

    def __post_init__(self) -> None:
        check_config(self, sizes=("num_channels", "num_classes", "d_model", "blocks", "num_stages"), dropout=())


RESNET20 = ResNetConfig(blocks=3)
RESNET32 = ResNetConfig(blocks=5)
RESNET44 = ResNetConfig(blocks=7)
RESNET56 = ResNetConfig(blocks=9)
RESNET110 = ResNetConfig(blocks=18)


class ResidualBlock(nn.Module):
    """Two 3 × 3 convolutions with batch norm, added to what came in.

    Paper: He et al. 2016 [he2016deep], Figure 2 and Section 4.2.
    Differs: nothing. Where the block strides, the shortcut skips pixels and pads the new channels with zeros: option A,
    which has no parameters.

    Args:
        d_in: channels that come in
        d_out: channels that go out, d_in or more
        stride: of the first convolution

    Shapes: (B, d_in, height, width) -> (B, d_out, height / stride, width / stride), rounded up
    """

    def __init__(self, d_in: int, d_out: int, *, stride: int = 1) -> None:
        super().__init__()
        if d_out < d_in:
            raise ValueError(f"a shortcut without parameters cannot drop channels: d_in={d_in}, d_out={d_out}")
        self.stride, self.new_channels = stride, d_out - d_in
        self.conv1 = nn.Conv2d(d_in, d_out, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(d_out)
        self.conv2 = nn.Conv2d(d_out, d_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(d_out)

    def forward(self, x: Tensor) -> Tensor:
        """What came in, plus what the two convolutions make of it."""
        out = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))  # (B, d_out, height / stride, width / stride)
        shortcut = x[:, :, :: self.stride, :: self.stride]
        if self.new_channels:
            shortcut = F.pad(shortcut, (0, 0, 0, 0, 0, self.new_channels))
        return F.relu(out + shortcut)


class ResNet(nn.Module):
    """Classify small images with convolutions alone.

    Paper: He et al. 2016 [he2016deep], Section 4.2, the networks for CIFAR-10.
    Differs: new channels come after the old ones. Images may have any size.
    """

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.config = config
        self.stem = nn.Conv2d(config.num_channels, config.d_model, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(config.d_model)
        widths = [config.d_model * 2**stage for stage in range(config.num_stages)]
        blocks: list[nn.Module] = []
        for stage, width in enumerate(widths):
            before = widths[max(0, stage - 1)]
            blocks.append(ResidualBlock(before, width, stride=2 if stage else 1))
            blocks += [ResidualBlock(width, width) for _ in range(config.blocks - 1)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(widths[-1], config.num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the classes.

        Shapes: images (B, channels, height, width) -> (B, classes)
        """
        check_images(images, self.config.num_channels)
        x = self.blocks(F.relu(self.norm(self.stem(images))))  # (B, widest, height / 4, width / 4)
        return self.head(x.mean(dim=(2, 3)))
