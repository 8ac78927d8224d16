"""Costs counted by hand, by torch's counter, and from sizes."""

import torch
from torch import nn

from lecturelib.evaluation import (
    count_activation_bytes,
    count_flops,
    count_parameters,
    decoder_flops,
    decoder_parameters,
    kv_cache_bytes,
)


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
