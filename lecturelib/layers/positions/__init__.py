"""How a transformer is told where a token stands, one way a file: added to embeddings, or a part of attention."""

from lecturelib.layers.positions.added import LearnedPositions, SinusoidalPositions, frequencies
from lecturelib.layers.positions.alibi import ALiBi
from lecturelib.layers.positions.fourier import fourier_positions
from lecturelib.layers.positions.grid import GridPositions, interpolate_positions
from lecturelib.layers.positions.relative import RelativeBias, RelativePositions
from lecturelib.layers.positions.rotary import RotaryPositions, pair_neighbours
from lecturelib.layers.positions.window import WindowBias, relative_index

__all__ = [
    "ALiBi",
    "GridPositions",
    "LearnedPositions",
    "RelativeBias",
    "RelativePositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "WindowBias",
    "fourier_positions",
    "frequencies",
    "interpolate_positions",
    "pair_neighbours",
    "relative_index",
]
