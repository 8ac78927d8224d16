"""Captions with transformers only: an encoder over patches, and a decoder that looks at what it gives."""

from dataclasses import dataclass

from lecturelib.layers.checks import check_config, check_heads
from lecturelib.layers.text_decoder import Captioner, TextDecoder
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


class ViTCaptioner(Captioner):
    """Patches attend to patches, words to words before them, and words to patches; there is no convolution.

    Paper: Liu et al. 2021 [liu2021cptr] (CPTR): a ViT without class token, and the decoder of the transformer.
    Differs: the decoder is pre-norm, and one matrix embeds and scores its words. There the encoder starts from a ViT
    that has learned to classify photographs.

    Shapes: images (B, channels, height, width), target_in (B, T) -> logits (B, T, V)
    """

    def __init__(self, config: ViTCaptionerConfig) -> None:
        encoder = ViTEncoder(config.image, num_prefix=0)
        decoder = TextDecoder(
            config.vocab_size,
            config.d_model,
            config.num_heads,
            num_layers=config.num_layers,
            d_ff=config.d_ff,
            kv_dim=config.image.d_model,
            dropout=config.dropout,
        )
        super().__init__(encoder, decoder)
        self.config = config
