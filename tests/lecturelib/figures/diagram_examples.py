"""Every drawing of `lecturelib.figures.diagrams`, of small models whose sizes all differ."""

from collections.abc import Callable

from lecturelib.figures.diagrams import (
    Diagram,
    bidirectional_diagram,
    block_diagram,
    block_wirings_diagram,
    decoder_wirings_diagram,
    gpt_diagram,
    rnn_diagram,
    transformer_diagram,
)
from lecturelib.models.gpt import GPT, GPTConfig
from lecturelib.models.transformer import Transformer, TransformerConfig

GPT_CONFIG = GPTConfig(vocab_size=101, max_len=17, d_model=24, num_heads=4, num_layers=3)
TRANSFORMER_CONFIG = TransformerConfig(vocab_size=103, d_model=24, num_heads=4, num_layers=3, d_ff=90)

EXAMPLES: dict[str, Callable[[], Diagram]] = {
    "rnn_diagram": rnn_diagram,
    "bidirectional_diagram": bidirectional_diagram,
    "block_diagram": block_diagram,
    "block_wirings_diagram": block_wirings_diagram,
    "decoder_wirings_diagram": decoder_wirings_diagram,
    "gpt_diagram": lambda: gpt_diagram(GPT(GPT_CONFIG)),
    "transformer_diagram": lambda: transformer_diagram(Transformer(TRANSFORMER_CONFIG)),
}
