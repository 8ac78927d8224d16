"""Costs counted by hand, by torch's counter, and from sizes."""

from dataclasses import asdict

import pytest
import torch
from torch import nn

from lecturelib.evaluation import (
    cache_bytes_of,
    count_activation_bytes,
    count_flops,
    count_parameters,
    decoder_activation_bytes,
    decoder_flops,
    decoder_parameters,
    imagined,
    kv_cache_bytes,
    measure,
    state_bytes,
)
from lecturelib.models import GPT, GPTConfig, Llama, LlamaConfig


def test_count_parameters_counts_a_tied_matrix_once() -> None:
    embedding, head = nn.Embedding(11, 5), nn.Linear(5, 11, bias=False)
    head.weight = embedding.weight
    model = nn.Sequential(embedding, head, nn.Linear(11, 3).requires_grad_(False))
    assert count_parameters(model) == 11 * 5 + 11 * 3 + 3
    assert count_parameters(model, trainable=True) == 11 * 5


def test_count_flops_sees_attention() -> None:
    query, key = torch.randn(2, 3, 7, 5), torch.randn(2, 3, 11, 5)
    flops = count_flops(nn.functional.scaled_dot_product_attention, query, key, key)
    assert flops == 2 * (2 * 3 * 7 * 11 * 5) * 2


def test_count_flops_sees_a_fused_lstm() -> None:
    lstm = nn.LSTM(5, 7, batch_first=True)
    assert count_flops(lstm, torch.randn(3, 11, 5)) == 2 * 3 * 11 * 4 * 7 * (5 + 7)


def test_count_activation_bytes_of_two_layers_by_hand() -> None:
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    x = torch.randn(11, 5)
    # the input of each linear layer; tanh keeps its output, which is the second one's input
    assert count_activation_bytes(model, x) == 4 * (11 * 5 + 11 * 7)


def test_counts_on_meta_tensors_equal_those_on_real_ones() -> None:
    def build() -> nn.Module:
        return nn.TransformerEncoderLayer(6, 2, 10, dropout=0.0, batch_first=True)

    with torch.device("meta"):
        ghost, shadow = build(), torch.randn(3, 4, 6)
    real, x = build(), torch.randn(3, 4, 6)
    assert count_parameters(ghost) == count_parameters(real)
    assert count_flops(ghost.train(), shadow) == count_flops(real.train(), x)


def test_decoder_parameters_are_those_of_gpt2() -> None:
    sizes = {"small": (768, 12), "medium": (1024, 24), "large": (1280, 36), "xl": (1600, 48)}
    counts = [
        decoder_parameters(vocab_size=50_257, max_len=1024, d_model=d_model, num_layers=num_layers)
        for d_model, num_layers in sizes.values()
    ]
    assert counts == [124_439_808, 354_823_168, 774_030_080, 1_557_611_200]


def test_decoder_costs_match_transformers_and_torch() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=37, n_positions=16, n_embd=12, n_layer=3, n_head=2, attn_implementation="sdpa")
    model = GPT2LMHeadModel(config).eval()
    sizes = {"vocab_size": 37, "d_model": 12, "num_layers": 3}
    tokens = torch.zeros(5, 9, dtype=torch.int64)
    assert decoder_parameters(**sizes, max_len=16) == sum(p.numel() for p in model.parameters())
    assert decoder_flops(**sizes, batch=5, length=9) == count_flops(model, tokens)
    cache = model(tokens, use_cache=True).past_key_values
    held = sum(t.numel() * t.element_size() for layer in cache.layers for t in (layer.keys, layer.values))
    assert kv_cache_bytes(num_layers=3, num_heads=2, head_dim=6, batch=5, length=9) == held
    half = kv_cache_bytes(num_layers=3, num_heads=2, head_dim=6, batch=5, length=9, dtype=torch.bfloat16)
    assert half * 2 == held


SMALL = GPTConfig(vocab_size=37, max_len=16, d_model=12, num_heads=3, num_layers=2, dropout=0.0)
WIDE = GPTConfig(vocab_size=19, max_len=11, d_model=20, num_heads=4, num_layers=3, d_ff=50, dropout=0.0)


@pytest.mark.parametrize("config", [SMALL, WIDE])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_decoder_activations_are_those_counted(config, dtype):
    model, tokens = GPT(config).to(dtype), torch.zeros(5, 9, dtype=torch.int64)
    sizes = {"d_model": config.d_model, "num_layers": config.num_layers, "num_heads": config.num_heads}
    counted = count_activation_bytes(model, tokens)
    assert decoder_activation_bytes(**sizes, d_ff=config.d_ff, batch=5, length=9, dtype=dtype) == counted


def test_imagined_models_cost_what_real_ones_do():
    def cost():
        return measure(GPT(WIDE), torch.zeros(5, 9, dtype=torch.int64))

    with imagined():
        ghost = cost()
    assert ghost == cost()


def test_optimizer_bytes_are_those_that_adamw_keeps():
    model, tokens = GPT(SMALL), torch.zeros(5, 9, dtype=torch.int64)
    cost, optimizer = measure(model, tokens), torch.optim.AdamW(model.parameters())
    model(tokens).square().sum().backward()
    optimizer.step()
    moments = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    assert cost.optimizer_bytes == sum(moment.nbytes for moment in moments)
    assert cost.optimizer_bytes == state_bytes(cost.parameters, each=(4, 4, 8)).optimizer


def test_cache_bytes_of_a_config_are_those_of_its_cache():
    llama = LlamaConfig(vocab_size=37, d_model=12, num_heads=6, num_kv_heads=2, num_layers=3, d_ff=20, max_len=16)
    for config, model in ((SMALL, GPT(SMALL)), (llama, Llama(llama))):
        _, cache = model.eval().start(torch.zeros(5, 9, dtype=torch.int64))
        held = sum(part.nbytes for pair in cache.entries.values() for part in pair)
        assert cache_bytes_of(config, batch=5, length=9) == held
    assert cache_bytes_of(SMALL, batch=5, length=9, dtype=torch.float16) * 2 == cache_bytes_of(SMALL, batch=5, length=9)
    with pytest.raises(ValueError, match="dict has no num_layers, num_heads, d_model"):
        cache_bytes_of(asdict(SMALL), batch=1, length=1)
