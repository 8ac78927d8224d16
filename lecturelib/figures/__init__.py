"""Plots and kernel-free explorers, readable in light and dark; diagrams are in `lecturelib.figures.diagrams`."""

from lecturelib.figures.explorers.alignment.explorer import AlignmentExample, AlignmentExplorer, ReadingExplorer
from lecturelib.figures.explorers.attention.explorer import AttentionExplorer
from lecturelib.figures.explorers.augmentation.explorer import AugmentationExplorer
from lecturelib.figures.explorers.beam.explorer import BeamExplorer
from lecturelib.figures.explorers.budget.explorer import BudgetExplorer
from lecturelib.figures.explorers.caption.explorer import CaptionExample, CaptionExplorer
from lecturelib.figures.explorers.deletion.explorer import DeletionExample, DeletionExplorer
from lecturelib.figures.explorers.drawing.explorer import DrawingExample, DrawingExplorer
from lecturelib.figures.explorers.episode.explorer import EpisodeExample, EpisodeExplorer
from lecturelib.figures.explorers.explorer import Explorer
from lecturelib.figures.explorers.gate.explorer import GateExplorer
from lecturelib.figures.explorers.gradient.explorer import GradientExplorer
from lecturelib.figures.explorers.graph.explorer import GraphExample, GraphExplorer
from lecturelib.figures.explorers.grounding.explorer import GroundingExample, GroundingExplorer
from lecturelib.figures.explorers.heads.explorer import HeadsExample, HeadsExplorer, PatchingExplorer
from lecturelib.figures.explorers.lens.explorer import LensExplorer
from lecturelib.figures.explorers.live import live
from lecturelib.figures.explorers.mixing.explorer import MixingExplorer
from lecturelib.figures.explorers.ngram.explorer import NGramExplorer
from lecturelib.figures.explorers.patch.explorer import PatchAttentionExplorer
from lecturelib.figures.explorers.pattern.explorer import PatternExplorer
from lecturelib.figures.explorers.position.explorer import PositionExplorer
from lecturelib.figures.explorers.sampling.explorer import SamplingExplorer
from lecturelib.figures.explorers.schedule.explorer import ScheduleExplorer
from lecturelib.figures.explorers.segment.explorer import SegmentExplorer
from lecturelib.figures.explorers.sharpness.explorer import SharpnessExplorer
from lecturelib.figures.explorers.softmax.explorer import SoftmaxExplorer
from lecturelib.figures.explorers.transformer.explorer import TransformerExplorer
from lecturelib.figures.explorers.window.explorer import WindowExplorer
from lecturelib.figures.plots.image_grid import image_grid
from lecturelib.figures.plots.picture import Picture, house_style, new_figure
from lecturelib.figures.plots.plots import attention_map, draw_lines, line_plot, sequence_grid

__all__ = [
    "AlignmentExample",
    "AlignmentExplorer",
    "AttentionExplorer",
    "AugmentationExplorer",
    "BeamExplorer",
    "BudgetExplorer",
    "CaptionExample",
    "CaptionExplorer",
    "DeletionExample",
    "DeletionExplorer",
    "DrawingExample",
    "DrawingExplorer",
    "EpisodeExample",
    "EpisodeExplorer",
    "Explorer",
    "GateExplorer",
    "GradientExplorer",
    "GraphExample",
    "GraphExplorer",
    "GroundingExample",
    "GroundingExplorer",
    "HeadsExample",
    "HeadsExplorer",
    "LensExplorer",
    "MixingExplorer",
    "NGramExplorer",
    "PatchAttentionExplorer",
    "PatchingExplorer",
    "PatternExplorer",
    "Picture",
    "PositionExplorer",
    "ReadingExplorer",
    "SamplingExplorer",
    "ScheduleExplorer",
    "SegmentExplorer",
    "SharpnessExplorer",
    "SoftmaxExplorer",
    "TransformerExplorer",
    "WindowExplorer",
    "attention_map",
    "draw_lines",
    "house_style",
    "image_grid",
    "line_plot",
    "live",
    "new_figure",
    "sequence_grid",
]
