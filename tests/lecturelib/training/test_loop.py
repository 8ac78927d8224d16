"""The training loop: what it computes, and when it stops."""

import copy

import pytest
import torch
from torch import Tensor, nn

from lecturelib.training import NonFiniteError, TrainConfig, train


def model_and_batches(dropout: float = 0.0) -> tuple[nn.Module, list[tuple[Tensor, Tensor]]]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Dropout(dropout), nn.Linear(7, 2))
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(12, 3, 5, generator=generator)
    y = torch.randn(12, 3, 2, generator=generator)
    return model, list(zip(x, y, strict=True))


def squared_error(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    x, y = batch
    return (model(x) - y).square().mean()


def weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_train_lowers_the_loss() -> None:
    model, batches = model_and_batches()
    history = train(model, batches, squared_error, TrainConfig(steps=400, learning_rate=3e-2, device="cpu"))
    assert sum(history["loss"][-12:]) < 0.5 * sum(history["loss"][:12])
    assert history.steps_of("loss") == list(range(400))


def test_train_is_deterministic_under_a_seed() -> None:
    ends = []
    for seed in (0, 0, 1):
        model, batches = model_and_batches(dropout=0.5)
        train(model, batches, squared_error, TrainConfig(steps=5, seed=seed, device="cpu"))
        ends.append(weights(model))
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


def test_train_accumulation_equals_the_big_batch_for_unequal_counts() -> None:
    model, batches = model_and_batches()
    twin = copy.deepcopy(model)
    x, y = (torch.cat(part) for part in zip(*batches, strict=True))
    small = [(x[:1], y[:1]), (x[1:8], y[1:8]), (x[8:12], y[8:12])]

    def counted(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
        return squared_error(model, batch), len(batch[0])

    config = TrainConfig(steps=4, accumulate=3, clip=0.1, device="cpu")
    pieces = train(model, small, counted, config)
    whole = train(twin, [(x[:12], y[:12])], counted, TrainConfig(steps=4, clip=0.1, device="cpu"))
    torch.testing.assert_close(weights(model), weights(twin), rtol=1e-5, atol=1e-7)
    assert pieces["loss"] == pytest.approx(whole["loss"], rel=1e-5)
    assert pieces["grad_norm"] == pytest.approx(whole["grad_norm"], rel=1e-5)


def test_train_nan_loss_names_the_step_and_keeps_the_weights() -> None:
    model, batches = model_and_batches()

    def poisoned(step: int) -> tuple[Tensor, Tensor]:
        x, y = batches[step]
        return (x, y * float("nan")) if step == 3 else (x, y)

    clean = copy.deepcopy(model)
    train(clean, batches, squared_error, TrainConfig(steps=3, device="cpu"))
    with pytest.raises(NonFiniteError, match="nan at step 3"):
        train(model, poisoned, squared_error, TrainConfig(steps=9, device="cpu"))
    assert torch.equal(weights(model), weights(clean))


def test_train_rejects_an_iterator() -> None:
    model, batches = model_and_batches()
    with pytest.raises(TypeError, match="only once"):
        train(model, iter(batches), squared_error, TrainConfig(steps=1, device="cpu"))


@pytest.mark.parametrize(
    ("field", "value"), [("steps", -1), ("learning_rate", 0.0), ("accumulate", 0), ("precision", "fp8"), ("clip", -1.0)]
)
def test_config_names_the_wrong_field(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{field}="):
        TrainConfig(**{"steps": 1, field: value})  # type: ignore[arg-type]
