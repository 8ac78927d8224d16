"""A drawing of one step of training: what happens to a batch, to its gradient, and to the weights."""

from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Box, Column, Part, Repeat


def training_step_diagram() -> Diagram:
    """One step, from texts of similar length to averaged weights."""

    def describe(narrow: bool) -> Part:
        passes = Column(
            [
                Box("forward pass", "attention", note="in half precision"),
                Box("loss × scale", "feed", note="so that small gradients survive"),
                Box("backward pass", "attention", note="gradients are added up"),
            ]
        )
        return Column(
            [
                Box("batch", "embed", note="texts of similar length,\nin K small batches"),
                Repeat(passes, "× K"),
                Box("÷ scale", "norm", note="before anything reads the gradient"),
                Box("clip", "norm", note="one norm over all weights"),
                Box("optimizer", "feed", note="Adam, RAdam or LAMB;\nits rate comes from the schedule"),
                Box("weights", "state"),
                Box("average of the weights", "state", note="what is evaluated"),
            ],
            gap=24.0,
        )

    alt = """One step of training from top to bottom: a batch of texts of similar length; for each small batch in it a
    forward pass in half precision, a loss times a scale, and a backward pass whose gradients are added up; then the
    scale is divided out, the gradient is clipped, the optimizer moves the weights at the rate of the schedule, and an
    average of the weights follows."""
    return Diagram(alt, describe)
