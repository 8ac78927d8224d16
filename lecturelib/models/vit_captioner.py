"""Captions with transformers only: an encoder over patches, and a decoder that looks at what it gives."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lecturelib.layers.checks import check_config, check_heads
from lecturelib.layers.text_decoder import TextDecoder, WritingState
from lecturelib.models.vit import ViTConfig, ViTEncoder


@dataclass(frozen=True, kw_only=True)
class ViTCaptionerConfig:
    """The sizes of a `ViTCaptioner`: those of its encoder in `image`, of which `num_classes` plays no part."""

    vocab_size: int
    image: ViTConfig
    d_model: int = 64
    num_heads: int = 4
    num_layers: int = 2
    d_ff: int = 256
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self, sizes=("vocab_size", "d_model", "num_heads", "num_layers", "d_ff"))
        check_heads(self.d_model, self.num_heads, "ViTCaptionerConfig")


class ViTCaptioner(nn.Module):
    """Patches attend to patches, words to words before them, and words to patches; there is no convolution.

    Paper: Liu et al. 2021 [liu2021cptr] (CPTR): a ViT without class token, and the decoder of the transformer.
    Differs: the decoder is pre-norm, and one matrix embeds and scores its words. There the encoder starts from a ViT
    that has learned to classify photographs.

    Shapes: images (B, channels, height, width), target_in (B, T) -> logits (B, T, V)
    """

    def __init__(self, config: ViTCaptionerConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = ViTEncoder(config.image, num_prefix=0)
        self.decoder = TextDecoder(
            config.vocab_size,
            config.d_model,
            config.num_heads,
            num_layers=config.num_layers,
            d_ff=config.d_ff,
            kv_dim=config.image.d_model,
            dropout=config.dropout,
        )

    def forward(self, images: Tensor, target_in: Tensor) -> Tensor:
        """Teacher forcing: the logits of the next word at every position of the caption."""
        return self.decoder(target_in, self.encoder(images))

    @torch.no_grad()
    def start(self, images: Tensor) -> WritingState:
        """Read the image: (B, channels, height, width) -> the state before the first word."""
        return self.decoder.start(self.encoder(images))

    def step(self, tokens: Tensor, state: WritingState) -> tuple[Tensor, WritingState]:
        """One word a row: (B,) -> logits of the next (B, V), and the state after it."""
        return self.decoder.step(tokens, state)
