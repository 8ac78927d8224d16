"""Llama against transformers' LlamaForCausalLM, its published sizes, its parts and its cache."""

import json

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.testing import assert_close

from lecturelib.layers import GroupedQueryAttention, MultiHeadAttention, RMSNorm, RotaryPositions, SwiGLU
from lecturelib.layers.positions import pair_neighbours
from lecturelib.models import Llama, LlamaConfig, load
from lecturelib.models.llama import SMOLLM2_1_7B, SMOLLM2_135M, SMOLLM2_360M

from .parity import assert_same_gradients, moved

SIZES = [
    {"hidden_size": 12, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1},
    {"hidden_size": 36, "num_attention_heads": 6, "num_key_value_heads": 2, "num_hidden_layers": 3},
    {"hidden_size": 20, "num_attention_heads": 5, "num_key_value_heads": 5, "num_hidden_layers": 2},
]


def theirs(*, tied=True, **sizes):
    transformers = pytest.importorskip("transformers")
    settings = {"vocab_size": 31, "intermediate_size": 17, "max_position_embeddings": 23, "rms_norm_eps": 1e-4}
    settings |= {"rope_parameters": {"rope_type": "default", "rope_theta": 777.0}, "tie_word_embeddings": tied}
    torch.manual_seed(0)
    return moved(transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings | sizes)))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
def test_llama_matches_transformers_in_double_precision(sizes, tied):
    reference = theirs(tied=tied, **sizes).double()
    ours = load(Llama, reference).double().eval()
    load(ours, reference)
    tokens = torch.randint(31, (3, 11))
    with torch.no_grad():
        assert_close(ours(tokens), reference(tokens).logits, atol=1e-12, rtol=0)


def test_llama_matches_transformers_in_gradients():
    reference = theirs(**SIZES[1])
    ours = load(Llama, reference).eval()
    config = ours.config

    def as_ours(gradients):
        return load(Llama, gradients, config)

    assert_same_gradients(ours, reference, as_ours, torch.randint(31, (2, 9)))


def test_llama_reads_a_folder_of_the_hub(tmp_path):
    reference = theirs(**SIZES[1])
    weights = {name: tensor.contiguous() for name, tensor in reference.state_dict().items() if name != "lm_head.weight"}
    save_file(weights, tmp_path / "model.safetensors")
    settings = reference.config.to_dict() | {"rope_theta": 777.0, "rope_scaling": None}
    settings.pop("rope_parameters")  # older files have rope_theta instead
    (tmp_path / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    ours, tokens = load(Llama, tmp_path).eval(), torch.randint(31, (2, 7))
    assert ours.config.num_kv_heads == 2
    with torch.no_grad():
        assert_close(ours(tokens), reference(tokens).logits, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("attention_bias", True), ("hidden_act", "gelu"), ("model_type", "mistral"), ("head_dim", 8)],
)
def test_llama_of_another_network_is_refused(setting, value):
    reference = theirs(**SIZES[1])
    settings = reference.config.to_dict() | {setting: value}
    reference.config.to_dict = lambda: settings
    with pytest.raises(ValueError, match=f"the checkpoint has {setting}="):
        load(Llama, reference)


def test_llama_refuses_scaled_rotary_positions():
    reference = theirs(**SIZES[1])
    settings = reference.config.to_dict() | {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5}}
    reference.config.to_dict = lambda: settings
    with pytest.raises(ValueError, match="rope_type='llama3'"):
        load(Llama, reference)


@pytest.mark.parametrize(
    ("config", "parameters"),
    [(SMOLLM2_135M, 134_515_008), (SMOLLM2_360M, 361_821_120), (SMOLLM2_1_7B, 1_711_376_384)],
)
def test_smollm2_has_as_many_parameters_as_published(config, parameters):
    with torch.device("meta"):
        model = Llama(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_llama_config_says_what_does_not_fit():
    sizes = {"vocab_size": 13, "max_len": 9, "d_model": 24, "num_layers": 1}
    with pytest.raises(ValueError, match="num_heads=6 and num_kv_heads=4"):
        LlamaConfig(**sizes, num_heads=6, num_kv_heads=4)
    with pytest.raises(ValueError, match="even width"):
        LlamaConfig(**sizes, num_heads=8)
    with pytest.raises(ValueError, match="wired pre_norm"):
        LlamaConfig(**sizes, num_heads=4, wiring="post_norm")


def test_rms_norm_matches_torch_and_keeps_the_mean():
    torch.manual_seed(1)
    x = torch.randn(3, 5, 12) + 2.0
    norm, reference = RMSNorm(12, eps=1e-3), torch.nn.RMSNorm(12, eps=1e-3)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(12))
        reference.weight.copy_(norm.weight)
    assert_close(norm(x), reference(x))
    assert_close(RMSNorm(12)(x).pow(2).mean(-1), torch.ones(3, 5), atol=1e-4, rtol=0)
    assert RMSNorm(12)(x).mean() > 0.5  # a layer norm would give 0
    assert norm.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_swiglu_is_a_gated_product():
    torch.manual_seed(2)
    layer, x = SwiGLU(6, 9), torch.randn(4, 5, 6)
    gate = x @ layer.gate.weight.T
    want = (gate * gate.sigmoid() * (x @ layer.widen.weight.T)) @ layer.narrow.weight.T
    assert_close(layer(x), want)
    assert [name for name, _ in layer.named_parameters()] == ["gate.weight", "widen.weight", "narrow.weight"]


def test_grouped_heads_equal_multi_head_attention_with_copied_keys():
    """Head h of the queries reads head h // group of keys and values."""
    torch.manual_seed(3)
    grouped = GroupedQueryAttention(24, 6, 2, positions=RotaryPositions(4))
    full = MultiHeadAttention(24, 6, bias=False, positions=RotaryPositions(4))
    with torch.no_grad():
        full.query_proj.weight.copy_(grouped.query_proj.weight)
        full.out_proj.weight.copy_(grouped.out_proj.weight)
        for name in ("key_proj", "value_proj"):
            rows = getattr(grouped, name).weight.unflatten(0, (2, 4))  # (Hkv, Dh, D)
            copies = torch.stack([rows[head // 3] for head in range(6)]).flatten(0, 1)
            getattr(full, name).weight.copy_(copies)
    x = torch.randn(3, 5, 24)
    got, weights = grouped(x, is_causal=True, need_weights=True)
    want, full_weights = full(x, is_causal=True, need_weights=True)
    assert_close(got, want)
    assert_close(weights, full_weights)


def test_grouped_attention_caches_only_its_key_heads():
    config = LlamaConfig(vocab_size=13, max_len=9, d_model=24, num_heads=6, num_kv_heads=2, num_layers=1)
    _, cache = Llama(config).eval().start(torch.randint(13, (3, 5)))
    assert [tuple(part.shape) for part in cache.entries["0"]] == [(3, 2, 5, 4)] * 2


def test_rotary_layouts_are_told_apart():
    """Rows that pair halves and rows that pair neighbours give the same scores, once reordered, and others before."""
    torch.manual_seed(4)
    heads, width, length = 3, 8, 7
    x, where = torch.randn(1, length, 10), torch.arange(length)
    query, key = torch.randn(heads * width, 10), torch.randn(heads * width, 10)

    def split(rows):
        return (x @ rows.T).unflatten(-1, (heads, width)).transpose(1, 2)

    def turn_halves(part):  # as the hub's code does
        angles = where[:, None] * 10_000.0 ** (-torch.arange(0, width, 2) / width)
        cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()
        left, right = part.chunk(2, dim=-1)
        return part * cos + torch.cat((-right, left), -1) * sin

    turn = RotaryPositions(width).turn
    want = turn_halves(split(query)) @ turn_halves(split(key)).mT
    got = turn(split(pair_neighbours(query, width)), where) @ turn(split(pair_neighbours(key, width)), where).mT
    assert_close(got, want, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(turn(split(query), where) @ turn(split(key), where).mT, want, atol=0.1)


def test_untied_llama_has_a_head_of_its_own():
    sizes = {"vocab_size": 13, "max_len": 9, "d_model": 24, "num_heads": 6, "num_layers": 1}
    model = Llama(LlamaConfig(**sizes, tied=False))
    x = torch.randn(2, 24)
    assert_close(model.head(x), F.linear(x, model.output.weight))
    assert model.output.weight.data_ptr() != model.token_embedding.weight.data_ptr()
