"""Drawings of architectures that cannot disagree with the code: every box names modules, every shape is measured."""

from lecturelib.figures.diagrams.attention import attention_diagram, positions_diagram
from lecturelib.figures.diagrams.caption_transformer import caption_transformer_diagram
from lecturelib.figures.diagrams.captioning import captioner_diagram
from lecturelib.figures.diagrams.choosing import choosing_diagram
from lecturelib.figures.diagrams.decisions import decision_diagram, rooms_diagram, step_tokens_diagram
from lecturelib.figures.diagrams.detection import detr_diagram
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.gates import gru_diagram, lstm_diagram
from lecturelib.figures.diagrams.graphs import (
    graph_network_diagram,
    graph_transformer_diagram,
    masks_diagram,
    sets_diagram,
)
from lecturelib.figures.diagrams.images_language import images_and_language_diagram
from lecturelib.figures.diagrams.language_models import gpt_bert_diagram, gpt_llama_diagram
from lecturelib.figures.diagrams.mixers import bracketing_diagram, latent_mixing_diagram, mixer_family_diagram
from lecturelib.figures.diagrams.pooling import esim_diagram, hierarchical_diagram, pooling_diagram, span_diagram
from lecturelib.figures.diagrams.recurrent import bidirectional_diagram, bptt_diagram, rnn_diagram
from lecturelib.figures.diagrams.scaling import budget_diagram, parallel_diagram, switch_diagram
from lecturelib.figures.diagrams.segmenting import segmenter_diagram
from lecturelib.figures.diagrams.seq2seq import bahdanau_diagram, encoder_decoder_diagram
from lecturelib.figures.diagrams.sequence import chain_rule_diagram
from lecturelib.figures.diagrams.tasks import task_kinds_diagram
from lecturelib.figures.diagrams.text_to_image import text_to_image_diagram
from lecturelib.figures.diagrams.training import training_step_diagram
from lecturelib.figures.diagrams.transformer import (
    block_wirings_diagram,
    decoder_wirings_diagram,
    transformer_diagram,
)
from lecturelib.figures.diagrams.two_streams import two_streams_diagram
from lecturelib.figures.diagrams.video import non_local_diagram, vivit_diagram
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
    "block_wirings_diagram",
    "bptt_diagram",
    "bracketing_diagram",
    "budget_diagram",
    "cait_diagram",
    "caption_transformer_diagram",
    "captioner_diagram",
    "chain_rule_diagram",
    "choosing_diagram",
    "decision_diagram",
    "decoder_wirings_diagram",
    "deit_diagram",
    "detr_diagram",
    "encoder_decoder_diagram",
    "esim_diagram",
    "gpt_bert_diagram",
    "gpt_llama_diagram",
    "graph_network_diagram",
    "graph_transformer_diagram",
    "gru_diagram",
    "hierarchical_diagram",
    "images_and_language_diagram",
    "latent_mixing_diagram",
    "lstm_diagram",
    "masks_diagram",
    "mixer_family_diagram",
    "non_local_diagram",
    "parallel_diagram",
    "pooling_diagram",
    "positions_diagram",
    "rnn_diagram",
    "rooms_diagram",
    "segmenter_diagram",
    "sets_diagram",
    "span_diagram",
    "step_tokens_diagram",
    "swin_diagram",
    "swin_pair_diagram",
    "switch_diagram",
    "task_kinds_diagram",
    "text_to_image_diagram",
    "training_step_diagram",
    "transformer_diagram",
    "two_streams_diagram",
    "vit_diagram",
    "vivit_diagram",
]
