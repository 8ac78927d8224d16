import pytest
import torch

from lecturelib.models.mlp import MLP, MLPConfig


def test_mlp_follows_its_formula():
    torch.manual_seed(0)
    model = MLP(MLPConfig(input_dim=3, output_dim=5, hidden_dim=7, num_layers=2))
    w1, b1, w2, b2, w3, b3 = model.parameters()
    x = torch.randn(2, 4, 3)
    hidden = torch.relu(torch.relu(x @ w1.T + b1) @ w2.T + b2)
    torch.testing.assert_close(model(x), hidden @ w3.T + b3)


def test_mlp_without_hidden_layers_is_linear():
    model = MLP(MLPConfig(input_dim=3, output_dim=5, num_layers=0))
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    zero = model(torch.zeros(2, 3))
    torch.testing.assert_close(model(x + y) - zero, model(x) + model(y) - 2 * zero)


def test_mlp_config_names_the_field():
    with pytest.raises(ValueError, match="MLPConfig: input_dim must be at least 1, got 0"):
        MLPConfig(input_dim=0, output_dim=1)
    with pytest.raises(ValueError, match=r"MLPConfig: dropout must be in \[0, 1\), got 1.5"):
        MLPConfig(input_dim=1, output_dim=1, dropout=1.5)
    with pytest.raises(ValueError, match="num_layers must be at least 0, got -1"):
        MLPConfig(input_dim=1, output_dim=1, num_layers=-1)
