"""Drawings of architectures that cannot disagree with the code: every box names modules, every shape is measured."""

from lecturelib.figures.diagrams.attention import attention_diagram, heads_diagram, positions_diagram
from lecturelib.figures.diagrams.captioning import captioner_diagram
from lecturelib.figures.diagrams.choosing import choosing_diagram
from lecturelib.figures.diagrams.decisions import decision_diagram, rooms_diagram, step_tokens_diagram
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.gates import gru_diagram, lstm_diagram
from lecturelib.figures.diagrams.graphs import (
    graph_network_diagram,
    graph_transformer_diagram,
    masks_diagram,
    sets_diagram,
)
from lecturelib.figures.diagrams.language_models import gpt_bert_diagram, gpt_llama_diagram
from lecturelib.figures.diagrams.pooling import esim_diagram, hierarchical_diagram, pooling_diagram, span_diagram
from lecturelib.figures.diagrams.recurrent import bidirectional_diagram, bptt_diagram, rnn_diagram
from lecturelib.figures.diagrams.scaling import budget_diagram, parallel_diagram, switch_diagram
from lecturelib.figures.diagrams.seq2seq import bahdanau_diagram, encoder_decoder_diagram
from lecturelib.figures.diagrams.sequence import chain_rule_diagram
from lecturelib.figures.diagrams.tasks import task_kinds_diagram
from lecturelib.figures.diagrams.training import training_step_diagram
from lecturelib.figures.diagrams.transformer import (
    block_diagram,
    block_wirings_diagram,
    decoder_wirings_diagram,
    gpt_diagram,
    transformer_diagram,
)
from lecturelib.figures.diagrams.vision import (
    cait_diagram,
    deit_diagram,
    swin_diagram,
    swin_pair_diagram,
    vit_diagram,
)

__all__ = [
    "Diagram",
    "attention_diagram",
    "bahdanau_diagram",
    "bidirectional_diagram",
    "block_diagram",
    "block_wirings_diagram",
    "bptt_diagram",
    "budget_diagram",
    "cait_diagram",
    "captioner_diagram",
    "chain_rule_diagram",
    "choosing_diagram",
    "decision_diagram",
    "decoder_wirings_diagram",
    "deit_diagram",
    "encoder_decoder_diagram",
    "esim_diagram",
    "gpt_bert_diagram",
    "gpt_diagram",
    "gpt_llama_diagram",
    "graph_network_diagram",
    "graph_transformer_diagram",
    "gru_diagram",
    "heads_diagram",
    "hierarchical_diagram",
    "lstm_diagram",
    "masks_diagram",
    "parallel_diagram",
    "pooling_diagram",
    "positions_diagram",
    "rnn_diagram",
    "rooms_diagram",
    "sets_diagram",
    "span_diagram",
    "step_tokens_diagram",
    "swin_diagram",
    "swin_pair_diagram",
    "switch_diagram",
    "task_kinds_diagram",
    "training_step_diagram",
    "transformer_diagram",
    "vit_diagram",
]
