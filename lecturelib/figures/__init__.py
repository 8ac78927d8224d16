"""Plots and kernel-free explorers, readable in light and dark."""

from lecturelib.figures.alignment_explorer import AlignmentExample, AlignmentExplorer
from lecturelib.figures.attention_explorer import AttentionExplorer
from lecturelib.figures.augmentation_explorer import AugmentationExplorer
from lecturelib.figures.beam_explorer import BeamExplorer
from lecturelib.figures.explorer import Explorer
from lecturelib.figures.gate_explorer import GateExplorer
from lecturelib.figures.glue import glue
from lecturelib.figures.gradient_explorer import GradientExplorer
from lecturelib.figures.image_grid import image_grid
from lecturelib.figures.live import live
from lecturelib.figures.mixing_explorer import MixingExplorer
from lecturelib.figures.ngram_explorer import NGramExplorer
from lecturelib.figures.patch_explorer import PatchAttentionExplorer
from lecturelib.figures.picture import Picture, house_style, new_figure
from lecturelib.figures.plots import attention_map, draw_lines, line_plot, sequence_grid
from lecturelib.figures.position_explorer import PositionExplorer
from lecturelib.figures.sampling_explorer import SamplingExplorer
from lecturelib.figures.softmax_explorer import SoftmaxExplorer
from lecturelib.figures.transformer_explorer import TransformerExplorer
from lecturelib.figures.window_explorer import WindowExplorer

__all__ = [
    "AlignmentExample",
    "AlignmentExplorer",
    "AttentionExplorer",
    "AugmentationExplorer",
    "BeamExplorer",
    "Explorer",
    "GateExplorer",
    "GradientExplorer",
    "MixingExplorer",
    "NGramExplorer",
    "PatchAttentionExplorer",
    "Picture",
    "PositionExplorer",
    "SamplingExplorer",
    "SoftmaxExplorer",
    "TransformerExplorer",
    "WindowExplorer",
    "attention_map",
    "draw_lines",
    "glue",
    "house_style",
    "image_grid",
    "line_plot",
    "live",
    "new_figure",
    "sequence_grid",
]
