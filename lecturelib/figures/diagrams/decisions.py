"""Drawings of the decision transformer, of its tokens, and of the rooms that it acts in."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free
from lecturelib.figures.diagrams.shapes import free_sizes, measure


def decision_diagram(model: Any) -> Diagram:
    """A `DecisionTransformer`: three tokens for each step, a causal stack, and an action from each state token."""
    config = model.config
    taken = {size for parameter in model.parameters() for size in parameter.shape}
    batch, *rest = free_sizes(model, 40)
    steps = next(size for size in rest if size < config.max_steps and 3 * size not in taken | {batch})
    letters = {"B": batch, "K": steps, "3K": 3 * steps, "D": config.d_model, "A": config.action_dim}
    given = [torch.zeros(batch, steps, width) for width in (config.state_dim, config.action_dim, 1)]
    times = torch.arange(steps).expand(batch, -1)
    shapes = measure(model, *given, times, letters=letters, sized=True)
    embedded, tokens, scores = shapes["state_embedding"], shapes["embedding_norm"], shapes["head"]

    def pen(canvas: Canvas, x: float, y: float) -> None:
        entries = (
            ("return-to-go", "return_embedding", 0.0),
            ("state", "state_embedding", 122.0),
            ("action", "action_embedding", 244.0),
        )
        tops = []
        for name, path, left in entries:
            canvas.text(x + left + 53, y + 12, name, size=14, style="name")
            tops.append(canvas.box(Rect(x + left, y + 22, 106, 32), "linear", "embed", of=(path,)))
        rows = (
            (94.0, 48.0, "+ embedding of the time step", "embed", ("time_embedding",), "the same for all three"),
            (166.0, 48.0, "one sequence", "plain", (), "return, state, action, return, …"),
            (238.0, 32.0, "layer norm", "norm", ("embedding_norm",), ""),
            (306.0, 48.0, f"causal block × {config.num_layers}", "attention", ("blocks.*",), "as in GPT, pre-norm"),
            (378.0, 32.0, "layer norm", "norm", ("final_norm",), ""),
            (434.0, 32.0, "outputs at the state tokens", "plain", (), ""),
            (490.0, 32.0, "linear: one score per action", "feed", ("head",), ""),
        )
        boxes = [
            canvas.box(Rect(x + 35, y + top, 280, height), text, kind, of=of, note=note)
            for top, height, text, kind, of, note in rows
        ]
        for number, entry in enumerate(tops):
            start = entry.side("bottom")
            label = embedded if number == 0 else ""
            canvas.wire(start, (start[0], boxes[0].y), label=label, label_at=(start[0] + 7, start[1] + 18))
        labels = {2: tokens, 4: tokens}
        for number, (above, below) in enumerate(itertools.pairwise(boxes)):
            start, end = above.side("bottom"), below.side("top")
            canvas.wire(start, end, label=labels.get(number, ""), label_at=(start[0] + 7, start[1] + 17))
        start = boxes[-1].side("bottom")
        canvas.wire(start, (start[0], start[1] + 34), label=scores, label_at=(start[0] + 7, start[1] + 20))

    alt = f"""A decision transformer. Return-to-go, state and action of a step each pass a linear map and get the same
    embedding of the time step, {embedded}; they stand in one sequence of three tokens per step, {tokens}, which passes
    a stack of causal blocks; the outputs at the state tokens become scores of the actions, {scores}."""
    return Diagram(alt, lambda narrow: Free(350, 560, pen), {"": model}, (shapes,))


def step_tokens_diagram(steps: int = 3) -> Diagram:
    """The tokens of an episode in a row: each state token predicts the action that follows it."""

    def pen(canvas: Canvas, x: float, y: float) -> None:
        for step in range(steps):
            left = x + 118 * step
            canvas.text(left + 51, y + 104, f"step {step}", size=13, style="soft")
            boxes = [
                canvas.box(Rect(left + 35 * n, y + 52, 32, 32), f"{letter}_{step}", kind)
                for n, (letter, kind) in enumerate((("R", "embed"), ("s", "state"), ("a", "feed")))
            ]
            guess = canvas.box(Rect(left + 35, y, 32, 28), f"a_{step}", "feed")
            canvas.wire(boxes[1].side("top"), guess.side("bottom"))

    alt = f"""{steps} steps of an episode as a row of tokens: return-to-go R, state s and action a of each step. From
    every state token an arrow leads up to the action of that step, which it predicts."""
    return Diagram(alt, lambda narrow: Free(118.0 * steps - 16, 112, pen))


def rooms_diagram(rooms: Sequence[str], *, alt: str, side: float = 40.0) -> Diagram:
    """The cells of a small world: `#` is a wall, other letters are written into their cell."""
    kinds = {"#": "plain", ".": "", "S": "state", "K": "embed", "D": "attention"}
    grid = [[kinds.get(mark, "embed") for mark in row] for row in rooms]
    words = [["" if mark in "#." else mark for mark in row] for row in rooms]

    def pen(canvas: Canvas, x: float, y: float) -> None:
        canvas.cells(x, y, grid, side=side, words=words)

    return Diagram(alt, lambda narrow: Free(side * len(rooms[0]), side * len(rooms), pen))
