"""MLP-Mixer: an image classifier of feed-forward nets alone, over patches and over features in turn."""

from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.block import Block, FeedForward, PreNorm
from lecturelib.layers.checks import check_config
from lecturelib.layers.mixers.token_mlp import TokenMixing
from lecturelib.layers.patches import PatchEmbedding, Size, check_divisible, pair

EPS = 1e-6


@dataclass(frozen=True, kw_only=True)
class MLPMixerConfig:
    """The sizes of an MLP-Mixer: hidden widths `d_tokens` over patches and `d_ff` over features."""

    image_size: Size = 224
    patch_size: int = 16
    num_channels: int = 3
    num_classes: int = 1000
    d_model: int
    num_layers: int
    d_tokens: int
    d_ff: int

    def __post_init__(self) -> None:
        sizes = ("patch_size", "num_channels", "num_classes", "d_model", "num_layers", "d_tokens", "d_ff")
        check_config(self, sizes=sizes, dropout=())
        check_divisible(self.image_size, self.patch_size, "MLPMixerConfig: an image_size")

    @property
    def num_patches(self) -> int:
        """Patches in an image."""
        height, width = pair(self.image_size)
        return (height // self.patch_size) * (width // self.patch_size)


MIXER_BASE = MLPMixerConfig(d_model=768, num_layers=12, d_tokens=384, d_ff=3072)
MIXER_LARGE = MLPMixerConfig(d_model=1024, num_layers=24, d_tokens=512, d_ff=4096)


class MLPMixer(nn.Module):
    """Classify images: patches, blocks of two feed-forward nets, one over positions and one over features; the mean.

    Paper: Tolstikhin et al. 2021 [tolstikhin2021mlp], Section 2 and Table 1.
    Differs: nothing; matrices start as Glorot's uniform ones, biases at zero.
    """

    def __init__(self, config: MLPMixerConfig) -> None:
        super().__init__()
        self.config = config
        d_model = config.d_model
        self.patches = PatchEmbedding(config.num_channels, d_model, config.patch_size)
        self.blocks = nn.ModuleList(
            Block(
                TokenMixing(config.num_patches, config.d_tokens),
                FeedForward(d_model, config.d_ff, activation=F.gelu),
                partial(PreNorm, d_model, eps=EPS),
            )
            for _ in range(config.num_layers)
        )
        self.norm = nn.LayerNorm(d_model, eps=EPS)
        self.head = nn.Linear(d_model, config.num_classes)
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the classes; the images must be of the size that the model was built for.

        Shapes: images (B, channels, height, width) -> (B, classes)
        """
        x = self.patches(images).flatten(1, 2)  # (B, N, D)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
