"""What a position looks like to attention: similarities of all pairs, and the turn that takes one place to the next."""

from collections.abc import Mapping

import torch
from torch import Tensor

from lecturelib.figures.explorers.explorer import Explorer, pack
from lecturelib.layers.positions import ALiBi, RotaryPositions, SinusoidalPositions, frequencies

FIXED = frozenset({"sinusoidal", "rotary", "ALiBi"})
"""The encodings that are always there, and need no training."""


class PositionExplorer(Explorer):
    """Choose an encoding, a position t and a shift k; see the score of every pair of places, and clocks that turn.

    Sinusoidal positions show PE(i) · PE(j); rotary ones a random query turned to place i with a random key turned to
    place j; ALiBi the penalty of its first head. Tables and scores of your own, trained ones say, come after these.

    Args:
        tables: name -> (T, D) one vector a position, compared by dot products
        scores: name -> (T, T) what is added to the score of the query in row i and the key in column j
        num_positions: T, at least 6
        d_model: width of the sinusoidal and rotary vectors; twice the number of clocks
        seed: of the query and the key that rotary positions turn
        start: the encoding and the shift shown first; shifts reach a third of the positions either way
    """

    title = "What do positions say to each other?"
    hint = "click anywhere on the map, then change the encoding."

    def __init__(
        self,
        tables: Mapping[str, Tensor] | None = None,
        scores: Mapping[str, Tensor] | None = None,
        *,
        num_positions: int = 48,
        d_model: int = 16,
        seed: int = 0,
        start: tuple[str, int] = ("sinusoidal", 2),
    ) -> None:
        if num_positions < 6:
            raise ValueError(f"num_positions must be at least 6, got {num_positions}")
        tables, scores = dict(tables or {}), dict(scores or {})
        for name, table in tables.items():
            if table.dim() != 2 or len(table) != num_positions:
                raise ValueError(f"table {name!r} must be ({num_positions}, D), got {tuple(table.shape)}")
        for name, matrix in scores.items():
            if matrix.shape != (num_positions, num_positions):
                raise ValueError(
                    f"scores {name!r} must be ({num_positions}, {num_positions}), got {tuple(matrix.shape)}"
                )
        if taken := FIXED & (tables.keys() | scores.keys()) or tables.keys() & scores.keys():
            raise ValueError(f"each name can stand for one map only, choose another for: {', '.join(sorted(taken))}")
        self.num_positions, self.d_model = num_positions, d_model
        places = torch.arange(num_positions)
        waves = SinusoidalPositions(d_model)(places)  # (T, D)
        draw = torch.Generator().manual_seed(seed)
        query, key = torch.randn(2, 1, 1, d_model, generator=draw) / d_model**0.25  # (1, 1, D) each
        heads = torch.stack((query, key)).expand(-1, -1, num_positions, -1)  # (2, 1, T, D)
        turned = RotaryPositions(d_model).turn(heads, places)[:, 0]  # (2, T, D)
        self.vectors = {"sinusoidal": waves, "rotary": turned[0]}
        self.similarities = {
            "sinusoidal": waves @ waves.T,
            "rotary": turned[0] @ turned[1].T,
            "ALiBi": ALiBi(8).bias(places, num_positions)[0],
            **{name: table.detach().float() @ table.detach().float().T for name, table in tables.items()},
            **{name: matrix.detach().float() for name, matrix in scores.items()},
        }
        name, shift = start
        if name not in self.similarities or abs(shift) > num_positions // 3:
            raise ValueError(
                f"start={start} must name one of {', '.join(self.similarities)} and a shift of at most "
                f"{num_positions // 3} either way"
            )
        self.start = start

    def similarity(self, name: str) -> Tensor:
        """The (T, T) numbers of the map: row i, column j."""
        return self.similarities[name]

    def spread(self, name: str, shift: int) -> tuple[float, float]:
        """The smallest and the largest number on the diagonal j = i + shift; the same if only distance counts."""
        diagonal = self.similarities[name].diagonal(shift)
        return float(diagonal.min()), float(diagonal.max())

    def data(self) -> dict[str, object]:
        return {
            "names": list(self.similarities),
            "maps": pack(torch.stack(list(self.similarities.values()))),
            "vectors": {name: pack(vectors) for name, vectors in self.vectors.items()},
            "speeds": frequencies(self.d_model).tolist(),
            "start": list(self.similarities).index(self.start[0]),
            "shift": self.start[1],
        }

    def text(self) -> str:
        shift = self.start[1]
        low, high = self.spread("sinusoidal", shift)
        found = (
            f"Similarity of {self.num_positions} positions. With sinusoidal positions the dot product of two positions "
            f"that are {abs(shift)} apart is {low:.2f} wherever they stand (largest difference {high - low:.1e})"
        )
        others = {name: self.spread(name, shift) for name in self.similarities if name not in FIXED}
        return (
            "; ".join([found, *(f"{name}: from {low:.2f} to {high:.2f}" for name, (low, high) in others.items())]) + "."
        )
