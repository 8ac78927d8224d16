"""Who hears whom? A graph laid out, with the attention weights of one node on its edges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lecturelib.figures.explorers.explorer import Explorer, pack


@dataclass(frozen=True)
class GraphExample:
    """A graph, and for each head the weight of every edge.

    Args:
        nodes: their names
        groups: what each node is: topics of papers, kinds of atoms
        edges: (2, E), source above target: the target hears the source; a node that hears itself has a loop
        weights: for each head, by its name, (E,), not negative
        name: what to call the graph
        places: (N, 2) where the nodes lie, from 0 to 1, left to right and top to bottom; found from the edges if None
    """

    nodes: Sequence[str]
    groups: Sequence[str]
    edges: ArrayLike
    weights: Mapping[str, ArrayLike]
    name: str
    places: ArrayLike | None = None


class GraphExplorer(Explorer):
    """Choose a node and a head: lines grow as wide as the weights with which the node hears its neighbours.

    Where the nodes lie is found here, once, if the example does not say it: edges pull and all nodes push.

    Args:
        examples: one or more graphs
        start: graph and node shown first
    """

    title = "Whom does a node listen to?"
    hint = "choose a node, then another head: which lines grow?"

    def __init__(self, examples: Sequence[GraphExample], *, start: tuple[int, int] = (0, 0)) -> None:
        if not examples:
            raise ValueError("GraphExplorer: give at least one GraphExample, got none")
        self.examples = list(examples)
        for number, example in enumerate(self.examples):
            self._check(number, example)
        if not (0 <= start[0] < len(examples) and 0 <= start[1] < len(self.examples[start[0]].nodes)):
            raise ValueError(f"start={start} is outside the {len(examples)} graphs and their nodes")
        self.start = start

    def _check(self, number: int, example: GraphExample) -> None:
        edges, count = np.asarray(example.edges), len(example.nodes)
        if count == 0 or len(example.groups) != count:
            raise ValueError(f"graph {number}: {count} nodes need as many groups, got {len(example.groups)}")
        if edges.ndim != 2 or len(edges) != 2 or edges.min(initial=0) < 0 or edges.max(initial=0) >= count:
            raise ValueError(f"graph {number}: edges must be (2, E) with numbers below {count}, got {edges.shape}")
        if example.places is not None and np.shape(example.places) != (count, 2):
            raise ValueError(f"graph {number}: places must be ({count}, 2), got {np.shape(example.places)}")
        if not example.weights:
            raise ValueError(f"graph {number} has no head; give weights by the name of each")
        for head, weights in example.weights.items():
            if np.shape(weights) != edges.shape[1:]:
                raise ValueError(
                    f"graph {number}, {head!r}: {edges.shape[1]} edges need as many weights, got {np.shape(weights)}"
                )

    def data(self) -> dict[str, object]:
        return {
            "graphs": [
                {
                    "name": example.name,
                    "nodes": list(example.nodes),
                    "groups": list(example.groups),
                    "edges": np.asarray(example.edges).astype(int).tolist(),
                    "heads": list(example.weights),
                    "weights": pack(np.stack([np.asarray(weights) for weights in example.weights.values()])),
                    "places": pack(places_of(example)),
                }
                for example in self.examples
            ],
            "start": list(self.start),
        }

    def text(self) -> str:
        example, node = self.examples[self.start[0]], self.start[1]
        head, weights = next(iter(example.weights.items()))
        source, target = np.asarray(example.edges)
        heard = np.flatnonzero(target == node)
        if not len(heard):
            return f"In “{example.name}”, {example.nodes[node]} ({example.groups[node]}) hears nobody."
        best = heard[np.asarray(weights)[heard].argmax()]
        return (
            f"In “{example.name}”, {head}: {example.nodes[node]} ({example.groups[node]}) hears "
            f"{example.nodes[source[best]]} ({example.groups[source[best]]}) most, with a weight of "
            f"{float(np.asarray(weights)[best]):.2f}."
        )


def places_of(example: GraphExample) -> np.ndarray:
    """Where the nodes of an example lie (N, 2): as it says, or as its edges pull."""
    if example.places is not None:
        return np.asarray(example.places, dtype=float)
    return lay_out(np.asarray(example.edges), len(example.nodes))


def lay_out(edges: np.ndarray, num_nodes: int, *, steps: int = 300) -> np.ndarray:
    """Places (N, 2) from 0 to 1: neighbours pull each other, all push each other, in ever smaller steps.

    Paper: Fruchterman & Reingold 1991 [fruchterman1991graph].
    Differs: the start is a circle instead of random places, so the same graph always lies the same way.
    """
    angle = 2 * np.pi * np.arange(num_nodes) / max(num_nodes, 1)
    place = np.stack([np.cos(angle), 0.8 * np.sin(angle)], axis=1)
    joined = np.zeros((num_nodes, num_nodes))
    joined[edges[0], edges[1]] = joined[edges[1], edges[0]] = 1
    np.fill_diagonal(joined, 0)
    ideal = 1.6 / np.sqrt(max(num_nodes, 1))
    for step in range(steps):
        gap = place[:, None] - place[None]  # (N, N, 2)
        far = np.maximum(np.linalg.norm(gap, axis=2), 1e-3)
        force = ((ideal**2 / far**2 - joined * far / ideal)[:, :, None] * gap).sum(axis=1)
        size = np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1e-9)
        place += force / size * np.minimum(size, 0.12 * (1 - step / steps))
    low, high = place.min(axis=0), place.max(axis=0)
    return (place - low) / np.maximum(high - low, 1e-9)
