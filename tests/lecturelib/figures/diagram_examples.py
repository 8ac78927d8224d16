"""Every drawing of `lecturelib.figures.diagrams`, of small models whose sizes all differ."""

from collections.abc import Callable

from lecturelib.figures.diagrams import (
    Diagram,
    attention_diagram,
    bidirectional_diagram,
    block_diagram,
    block_wirings_diagram,
    bptt_diagram,
    chain_rule_diagram,
    decoder_wirings_diagram,
    gpt_diagram,
    gru_diagram,
    heads_diagram,
    lstm_diagram,
    positions_diagram,
    rnn_diagram,
    transformer_diagram,
)
from lecturelib.layers import MultiHeadAttention, RelativeBias, RotaryPositions
from lecturelib.models.gpt import GPT, GPTConfig
from lecturelib.models.transformer import Transformer, TransformerConfig

GPT_CONFIG = GPTConfig(vocab_size=101, max_len=17, d_model=24, num_heads=4, num_layers=3)
TRANSFORMER_CONFIG = TransformerConfig(vocab_size=103, d_model=24, num_heads=4, num_layers=3, d_ff=90)

EXAMPLES: dict[str, Callable[[], Diagram]] = {
    "chain_rule_diagram": chain_rule_diagram,
    "chain_rule_diagram of trigrams": lambda: chain_rule_diagram(n=3),
    "rnn_diagram": rnn_diagram,
    "bptt_diagram": bptt_diagram,
    "lstm_diagram": lstm_diagram,
    "lstm_diagram, forget gate": lambda: lstm_diagram(gate="forget"),
    "lstm_diagram, input gate": lambda: lstm_diagram(gate="input"),
    "lstm_diagram, candidate": lambda: lstm_diagram(gate="candidate"),
    "lstm_diagram, output gate": lambda: lstm_diagram(gate="output"),
    "gru_diagram": gru_diagram,
    "bidirectional_diagram": bidirectional_diagram,
    "attention_diagram": attention_diagram,
    "heads_diagram": heads_diagram,
    "positions_diagram": positions_diagram,
    "positions_diagram of parts": lambda: positions_diagram(
        rotary=MultiHeadAttention(24, 3, positions=RotaryPositions(8)),
        bias=MultiHeadAttention(24, 3, positions=RelativeBias(3)),
    ),
    "block_diagram": block_diagram,
    "block_wirings_diagram": block_wirings_diagram,
    "decoder_wirings_diagram": decoder_wirings_diagram,
    "gpt_diagram": lambda: gpt_diagram(GPT(GPT_CONFIG)),
    "transformer_diagram": lambda: transformer_diagram(Transformer(TRANSFORMER_CONFIG)),
}
