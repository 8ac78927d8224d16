"""Captions by a transformer: convolutions see, and a decoder of attention writes, all words of a caption at once."""

from dataclasses import dataclass, field

from lecturelib.layers.checks import check_config, check_heads
from lecturelib.layers.text_decoder import Captioner, TextDecoder
from lecturelib.models.conv_encoder import ConvEncoder, ConvEncoderConfig


@dataclass(frozen=True, kw_only=True)
class CaptionTransformerConfig:
    """The sizes of a `CaptionTransformer`: an image encoder, and a decoder of its own width."""

    vocab_size: int
    image: ConvEncoderConfig = field(default_factory=ConvEncoderConfig)
    d_model: int = 64
    num_heads: int = 4
    num_layers: int = 2
    d_ff: int = 256
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self, sizes=("vocab_size", "d_model", "num_heads", "num_layers", "d_ff"))
        check_heads(self.d_model, self.num_heads, "CaptionTransformerConfig")


class CaptionTransformer(Captioner):
    """A convolutional network turns an image into regions; words attend to earlier words and to all regions.

    Paper: Sharma et al. 2018 [sharma2018conceptual], who put a transformer on convolutional features.
    Differs: of the transformer there is the decoder only, which reads the regions as they are. The convolutions are
    small, trained along, and tell each region where it lies.

    Shapes: images (B, channels, height, width), target_in (B, T) -> logits (B, T, V)
    """

    def __init__(self, config: CaptionTransformerConfig) -> None:
        encoder = ConvEncoder(config.image)
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
