"""Looking inside a model: what is seen is what it computes, and what is switched off comes back."""

import pytest
import torch
from torch.testing import assert_close

from lecturelib.evaluation.inside import (
    attention_of,
    head_averages,
    induction_scores,
    logit_lens,
    patched,
    previous_token_scores,
    residual_stream,
    switched_off,
)
from lecturelib.models import GPT, GPTConfig, Llama, LlamaConfig

L, H, B, T, D = 3, 4, 2, 7, 24
SIZES = {"vocab_size": 13, "max_len": 9, "d_model": D, "num_heads": H, "num_layers": L, "dropout": 0.0}


@pytest.fixture(params=["gpt", "llama"])
def model(request):
    built = GPT(GPTConfig(**SIZES)) if request.param == "gpt" else Llama(LlamaConfig(**SIZES, num_kv_heads=2))
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return built.eval()


@pytest.fixture
def tokens():
    return torch.randint(13, (B, T))


def test_the_last_state_is_what_the_head_reads(model, tokens):
    states = residual_stream(model, tokens)
    assert states.shape == (1 + L, B, T, D)
    assert_close(model.head(model.final_norm(states[-1])), model(tokens))
    assert_close(model.blocks[1](states[1], is_causal=True), states[2])
    lens = logit_lens(model, tokens)
    assert_close(lens[-1], model(tokens))
    assert not torch.allclose(lens[0], lens[-1])


def test_heads_without_their_averages_add_nothing(model, tokens):
    before = model(tokens)
    averages = head_averages(model, tokens)
    assert averages.shape == (L, B, T, H, D // H)
    with switched_off(model, [(layer, head) for layer in range(L) for head in range(H)]):
        off = model(tokens)
        assert not head_averages_reach(model, tokens)
    assert not torch.allclose(off, before)
    assert torch.equal(model(tokens), before)


def head_averages_reach(model, tokens):
    """Whether a token still hears of an earlier one."""
    other = tokens.clone()
    other[:, 0] = (other[:, 0] + 1) % 13
    return not torch.allclose(model(tokens)[:, -1], model(other)[:, -1])


def test_patching_a_head_with_its_own_average_changes_nothing(model, tokens):
    averages, before = head_averages(model, tokens), model(tokens)
    with patched(model, {(1, 2): averages[1, :, :, 2], (2, 0): averages[2, :, :, 0]}):
        assert_close(model(tokens), before)
    other = head_averages(model, tokens.flip(1))
    with patched(model, {(1, 2): other[1, :, :, 2]}):
        assert not torch.allclose(model(tokens), before)
        assert_close(head_averages(model, tokens)[0], averages[0])


def test_scores_read_the_right_diagonals():
    weights = torch.zeros(1, 3, 2, 9, 9)  # a begin symbol, and a block of four twice
    for i in range(1, 9):
        weights[0, 0, :, i, i - 1] = 1.0
    for i in range(5, 9):
        weights[0, 1, :, i, i - 3] = 1.0
        weights[0, 2, :, i, i - 4] = 1.0  # the same token, and not the one after it
    assert_close(previous_token_scores(weights), torch.tensor([[1.0, 0.0, 0.0]]))
    assert_close(induction_scores(weights, period=4), torch.tensor([[0.0, 1.0, 0.0]]))
    with pytest.raises(ValueError, match="a block of 5 tokens is not read twice in 9"):
        induction_scores(weights, period=5)


def test_attention_has_a_row_for_every_layer_and_head(model, tokens):
    weights = attention_of(model, tokens)
    assert weights.shape == (L, H, B, T, T)
    assert_close(weights.sum(-1), torch.ones(L, H, B, T))


def test_a_head_that_is_not_there_is_told(model, tokens):
    with pytest.raises(ValueError, match="no head 4; a layer here has 4"), switched_off(model, [(0, 4)]):
        model(tokens)
    with pytest.raises(ValueError, match="no layer 3; this model has 3"), switched_off(model, [(3, 0)]):
        model(tokens)
