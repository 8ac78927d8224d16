"""Drawings of architectures that cannot disagree with the code: every box names modules, every shape is measured."""

from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.recurrent import bidirectional_diagram, rnn_diagram
from lecturelib.figures.diagrams.transformer import (
    block_diagram,
    block_wirings_diagram,
    decoder_wirings_diagram,
    gpt_diagram,
    transformer_diagram,
)

__all__ = [
    "Diagram",
    "bidirectional_diagram",
    "block_diagram",
    "block_wirings_diagram",
    "decoder_wirings_diagram",
    "gpt_diagram",
    "rnn_diagram",
    "transformer_diagram",
]
