"""The multilayer perceptron: a network for inputs of one fixed width."""

from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from lecturelib.layers.checks import check_config


@dataclass(frozen=True, kw_only=True)
class MLPConfig:
    """Sizes of an `MLP`: `num_layers` hidden layers of `hidden_dim`; none makes it a linear map."""

    input_dim: int
    output_dim: int
    hidden_dim: int = 64
    num_layers: int = 1
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self, sizes=("input_dim", "output_dim", "hidden_dim"))
        if self.num_layers < 0:
            raise ValueError(f"MLPConfig: num_layers must be at least 0, got {self.num_layers}")


class MLP(nn.Module):
    """Linear maps with a relu between each two.

    Paper: Rumelhart et al. 1986 [rumelhart1986learning].
    Differs: relu where the paper has logistic units; dropout after each hidden layer.

    Shapes: x (..., input_dim) -> (..., output_dim)
    """

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.config = config
        widths = [config.input_dim, *[config.hidden_dim] * config.num_layers]
        hidden = [
            layer
            for before, after in pairwise(widths)
            for layer in (nn.Linear(before, after), nn.ReLU(), nn.Dropout(config.dropout))
        ]
        self.layers = nn.Sequential(*hidden, nn.Linear(widths[-1], config.output_dim))

    def forward(self, x: Tensor) -> Tensor:
        """Shapes: x (..., input_dim) -> (..., output_dim)"""
        if x.dim() < 1 or x.shape[-1] != self.config.input_dim:
            raise ValueError(f"x must be (..., {self.config.input_dim}), got {tuple(x.shape)}")
        return self.layers(x)
