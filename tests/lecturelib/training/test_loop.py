"""The training loop: what it computes, and when it stops."""

import copy
import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from lecturelib.training import (
    CheckpointError,
    NonFiniteError,
    TrainConfig,
    load_weights,
    next_token_loss,
    read_history,
    target_loss,
    train,
)


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
        train(model.eval(), poisoned, squared_error, TrainConfig(steps=9, device="cpu"))
    assert torch.equal(weights(model), weights(clean))
    assert not model.training  # as it came in


def test_train_rejects_an_iterator() -> None:
    model, batches = model_and_batches()
    with pytest.raises(TypeError, match="only once"):
        train(model, iter(batches), squared_error, TrainConfig(steps=1, device="cpu"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", -1),
        ("learning_rate", 0.0),
        ("accumulate", 0),
        ("precision", "fp8"),
        ("clip", -1.0),
        ("ema", 1.0),
        ("seed", -1),
    ],
)
def test_config_names_the_wrong_field(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{field}="):
        TrainConfig(**{"steps": 1, field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_train_in_mixed_precision_learns_the_same(precision: str) -> None:
    model, batches = model_and_batches()
    twin = copy.deepcopy(model)
    seen = set()

    def watched(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        out = model(x)
        seen.add(out.dtype)
        return (out.float() - y).square().mean()

    low = train(model, batches, watched, TrainConfig(steps=60, learning_rate=1e-2, precision=precision, device="cpu"))  # type: ignore[arg-type]
    full = train(twin, batches, squared_error, TrainConfig(steps=60, learning_rate=1e-2, device="cpu"))
    assert seen == {{"bf16": torch.bfloat16, "fp16": torch.float16}[precision]}
    assert low["loss"][-12:] == pytest.approx(full["loss"][-12:], rel=0.1)
    assert low["grad_norm"][-12:] == pytest.approx(full["grad_norm"][-12:], rel=0.25)  # unscaled before it is measured


def test_train_clips_to_the_norm_asked_for() -> None:
    model, batches = model_and_batches()
    before = weights(model)
    config = TrainConfig(steps=1, clip=0.01, device="cpu")
    history = train(model, batches, squared_error, config, optimizer=lambda m: torch.optim.SGD(m.parameters(), lr=1.0))
    assert history["grad_norm"][0] > 0.1
    assert float((weights(model) - before).norm()) == pytest.approx(0.01, rel=1e-3)


def test_train_in_fp16_clips_what_the_loss_scale_is_taken_out_of() -> None:
    """The scale is 65536 at first: were it still in the gradients, clipping would leave next to nothing of a step."""
    model, batches = model_and_batches()
    before, rate = weights(model), 1.0
    config = TrainConfig(steps=1, clip=0.05, accumulate=3, precision="fp16", device="cpu")
    history = train(
        model,
        batches,
        lambda m, batch: (m(batch[0]).float() - batch[1]).square().mean(),
        config,
        optimizer=lambda m: torch.optim.SGD(m.parameters(), lr=rate),
    )
    assert 0.1 < history["grad_norm"][0] < 10
    assert float((weights(model) - before).norm()) == pytest.approx(0.05, rel=1e-2)


def test_train_averages_the_weights_that_are_evaluated_and_kept(tmp_path: Path) -> None:
    model, batches = model_and_batches()
    twin, expected, seen = copy.deepcopy(model), None, []
    for step in range(6):  # the same run without an average, looked at after each step
        twin, _ = model_and_batches()
        train(twin, batches, squared_error, TrainConfig(steps=step + 1, learning_rate=0.1, device="cpu"))
        decay = min(0.5, (2 + step) / (11 + step))
        start = weights(model_and_batches()[0]) if expected is None else expected
        expected = decay * start + (1 - decay) * weights(twin)
    config = TrainConfig(steps=6, learning_rate=0.1, ema=0.5, evaluate_every=6, device="cpu")

    def evaluate(model: nn.Module) -> float:
        seen.append(weights(model))
        return 1.0

    train(model, batches, squared_error, config, evaluate=evaluate, folder=tmp_path)
    assert expected is not None
    torch.testing.assert_close(weights(model), expected, rtol=1e-4, atol=1e-6)
    assert torch.equal(seen[0], weights(model))
    for which in ("best", "last"):
        fresh, _ = model_and_batches()
        load_weights(fresh, tmp_path, which)  # type: ignore[arg-type]
        assert torch.equal(weights(fresh), weights(model))
    assert not torch.allclose(weights(model), weights(twin), atol=1e-3)


@pytest.mark.parametrize("stop", [3, 5])
def test_train_with_an_average_resumes_exactly(tmp_path: Path, stop: int) -> None:
    def run(folder: str, steps: int, *, resume: bool = False) -> nn.Module:
        model, batches = model_and_batches(dropout=0.2)
        config = TrainConfig(steps=steps, learning_rate=0.05, ema=0.8, checkpoint_every=1, device="cpu")
        train(model, batches, squared_error, config, folder=tmp_path / folder, resume=resume)
        return model

    run("torn", stop)
    assert torch.equal(weights(run("torn", 8, resume=True)), weights(run("calm", 8)))


def test_average_is_refused_a_checkpoint_without_one(tmp_path: Path) -> None:
    model, batches = model_and_batches()
    train(model, batches, squared_error, TrainConfig(steps=1, device="cpu"), folder=tmp_path)
    with pytest.raises(CheckpointError, match="does not fit"):
        train(model, batches, squared_error, TrainConfig(steps=2, ema=0.9, device="cpu"), folder=tmp_path, resume=True)


def test_history_on_disk_is_strict_json(tmp_path: Path) -> None:
    model, batches = model_and_batches()
    values = iter([math.inf, math.nan])
    config = TrainConfig(steps=2, evaluate_every=1, device="cpu")
    train(model, batches, squared_error, config, evaluate=lambda model: next(values), folder=tmp_path)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    rows = [json.loads(line, parse_constant=refuse) for line in lines]
    assert [row["eval_loss"] for row in rows] == [None, None]
    assert all(math.isnan(row["eval_loss"]) for row in read_history(tmp_path / "history.jsonl"))


def test_train_follows_the_schedule_and_decays_matrices_only() -> None:
    model, batches = model_and_batches()
    model[0].weight.data.fill_(1.0)
    config = TrainConfig(
        steps=3, learning_rate=0.1, weight_decay=0.5, schedule=lambda step: 1 / (step + 1), device="cpu"
    )
    history = train(model, batches, lambda m, batch: 0 * squared_error(m, batch), config)
    assert history["learning_rate"] == pytest.approx([0.1, 0.05, 0.1 / 3])
    decayed = (1 - 0.1 * 0.5) * (1 - 0.05 * 0.5) * (1 - 0.1 / 3 * 0.5)
    assert model[0].weight[0, 0].item() == pytest.approx(decayed, rel=1e-5)


def test_train_stops_early_and_leaves_the_mode_as_it_was() -> None:
    model, batches = model_and_batches()
    model.eval()
    values = iter([3.0, 2.0, 2.5, 2.5, 0.0])
    config = TrainConfig(steps=50, evaluate_every=2, patience=2, monitor="error", device="cpu")
    history = train(model, batches, squared_error, config, evaluate=lambda model: {"error": next(values)})
    assert (history.stop, len(history)) == ("early stop", 8)
    assert history["eval_error"] == [3.0, 2.0, 2.5, 2.5]
    assert history.steps_of("eval_error") == [1, 3, 5, 7]
    assert not model.training
    with pytest.raises(ValueError, match="monitor='loss' is not what evaluate returned: error"):
        train(model, batches, squared_error, TrainConfig(steps=1, device="cpu"), evaluate=lambda model: {"error": 1.0})


@pytest.mark.parametrize("higher", [False, True])
def test_train_never_takes_nan_for_the_best(tmp_path: Path, higher: bool) -> None:
    model, batches = model_and_batches()
    values = iter([math.nan, 3.0, 5.0, math.nan, 1.0 if higher else 4.0])
    config = TrainConfig(steps=5, evaluate_every=1, higher_is_better=higher, device="cpu")
    train(model, batches, squared_error, config, evaluate=lambda model: next(values), folder=tmp_path)
    assert load_weights(model, tmp_path, "best") == (3 if higher else 2)


def test_train_rejects_a_loss_that_is_no_scalar_and_a_frozen_model() -> None:
    model, batches = model_and_batches()
    with pytest.raises(ValueError, match=r"scalar.*shape \(3, 2\)"):
        train(model, batches, lambda m, batch: m(batch[0]), TrainConfig(steps=1, device="cpu"))
    with pytest.raises(ValueError, match="no parameter to train"):
        train(model.requires_grad_(False), batches, squared_error, TrainConfig(steps=1, device="cpu"))


def test_losses_count_tokens_and_leave_out_padding() -> None:
    from lecturelib.tokens import LanguageBatch, collate_pairs

    table = nn.Embedding(9, 9)
    tokens = torch.tensor([[1, 2, 3], [4, 5, 6]])
    mean, count = next_token_loss(table, LanguageBatch(tokens, tokens + 1))
    assert count == 6
    expected = torch.stack([table(t).log_softmax(-1)[t + 1] for t in tokens.flatten()]).mean()
    torch.testing.assert_close(mean, -expected)

    class Copy(nn.Module):
        def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
            return table(target_in)

    pairs = [([3], [4, 5, 6]), ([3, 4], [7])]
    special = {"pad_id": 0, "bos_id": 1, "eos_id": 2}
    mean, count = target_loss(Copy(), collate_pairs(pairs, **special))
    alone = [target_loss(Copy(), collate_pairs([pair], **special)) for pair in pairs]
    assert (count, [c for _, c in alone]) == (6, [4, 2])
    torch.testing.assert_close(mean, (4 * alone[0][0] + 2 * alone[1][0]) / 6)
