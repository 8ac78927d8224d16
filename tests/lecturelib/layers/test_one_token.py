"""Blocks prepared for one token at a time give the numbers of the blocks themselves, or stand back."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lecturelib.layers import RotaryPositions
from lecturelib.layers.lora import add_lora, lora_parameters
from lecturelib.layers.one_token import FUSE_UP_TO, OneTokenBlocks
from lecturelib.models.gpt import GPT, GPTConfig


def build(wiring: str = "pre_norm", d_model: int = 12, positions: nn.Module | None = None) -> GPT:
    torch.manual_seed(0)
    config = GPTConfig(vocab_size=23, max_len=80, d_model=d_model, num_heads=3, num_layers=2, wiring=wiring)
    model = GPT(config, positions=positions).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # no bias is 0 and no norm is 1
    return model


@pytest.mark.parametrize("wiring", ["pre_norm", "post_norm"])
@pytest.mark.parametrize("d_model", [12, FUSE_UP_TO + 4])
def test_one_token_blocks_equal_the_blocks_over_many_steps(wiring: str, d_model: int) -> None:
    model = build(wiring, d_model)
    text = torch.randint(23, (5, 75))  # more steps than the cache has room for at first
    logits, state = model.start(text[:, :4])
    assert state.one_token is not None
    assert len(state.one_token.layers[0].qkv) == (1 if d_model <= FUSE_UP_TO else 3)
    steps = [logits]
    for position in range(4, 75):
        logits, state = model.step(text[:, position], state)
        steps.append(logits)
    with torch.no_grad():
        assert_close(torch.stack(steps, dim=1), model(text)[:, 3:], rtol=1e-4, atol=1e-4)


def test_one_token_blocks_do_without_some_of_the_biases() -> None:
    model = build()
    for block in model.blocks:
        block.mixer.key_proj.bias = None
    text = torch.randint(23, (5, 7))
    _, state = model.start(text[:, :6])
    assert state.one_token is not None
    with torch.no_grad():
        assert_close(model.step(text[:, 6], state)[0], model(text)[:, -1], rtol=1e-4, atol=1e-4)


def test_one_token_blocks_serve_a_search_that_branches_and_selects() -> None:
    model = build()
    text = torch.randint(23, (3, 9))
    _, state = model.start(text)
    first, _ = model.step(torch.tensor([1, 2, 3]), state)
    model.step(torch.tensor([4, 5, 6]), state)  # another branch from the same state
    chosen = torch.tensor([2, 0])
    selected, _ = model.step(torch.tensor([3, 1]), state.select(chosen))
    assert_close(selected, first[chosen])


def watched(model: GPT) -> None:
    model.blocks[1].feed_forward.register_forward_hook(lambda module, inputs, output: 3.0 * output)


def with_lora(model: GPT) -> None:
    add_lora(model, rank=2, alpha=4.0)
    with torch.no_grad():
        for _, parameter in lora_parameters(model):
            parameter.add_(0.2)


@pytest.mark.parametrize("change", [watched, with_lora])
def test_one_token_blocks_stand_back_for_changed_layers(change) -> None:
    model = build()
    before = model(torch.arange(7)[None])
    change(model)
    text = torch.arange(7)[None]
    with torch.no_grad():
        want = model(text)[:, -1]
    assert not torch.allclose(want, before[:, -1], atol=1e-3)
    _, state = model.start(text[:, :6])
    assert state.one_token is None
    assert_close(model.step(text[:, 6], state)[0], want, rtol=1e-4, atol=1e-4)


def test_one_token_blocks_stand_back_in_training_and_for_positions_in_attention() -> None:
    assert OneTokenBlocks.prepare(build().train().blocks) is None
    assert OneTokenBlocks.prepare(build(positions=RotaryPositions(4)).blocks) is None
    assert OneTokenBlocks.prepare(nn.ModuleList()) is None


def test_one_token_blocks_stand_back_when_training_begins_after_the_start() -> None:
    model = build()
    text = torch.arange(7)[None]
    _, state = model.start(text[:, :6])
    assert state.one_token is not None
    torch.manual_seed(1)
    logits, after = model.train().step(text[:, 6], state)
    assert after.one_token is None
    with torch.no_grad():
        assert not torch.allclose(logits, model.eval()(text)[:, -1], atol=1e-3)  # dropout was at work
