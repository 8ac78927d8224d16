"""Transformer-XL against its paper's sums written as loops, against the last release that had one, and its memory."""

import importlib
import math
import sys
import types

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from lecturelib.layers import MultiHeadAttention, attention_weights
from lecturelib.models.transformer_xl import (
    TRANSFORMER_XL_ENWIK8,
    DistancePositions,
    TransformerXL,
    TransformerXLConfig,
)

SMALL = {"vocab_size": 17, "d_model": 12, "num_heads": 3, "num_layers": 2, "d_ff": 20, "memory_len": 6, "dropout": 0.0}


def build(**change):
    """A small model in evaluation, every parameter moved from its initial value."""
    model = TransformerXL(TransformerXLConfig(**{**SMALL, **change}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def test_distance_positions_matches_the_sums_of_the_paper():
    heads, length, memory, head_dim = 3, 4, 2, 4
    part = DistancePositions(heads * head_dim, heads)
    for parameter in part.parameters():
        torch.nn.init.normal_(parameter)
    query = torch.randn(2, heads, length, head_dim)
    key, value = torch.randn(2, 2, heads, memory + length, head_dim)
    mask = torch.ones(length, memory + length, dtype=torch.bool).tril(memory)
    attention = MultiHeadAttention(heads * head_dim, heads, positions=part)
    got, _ = attention.attend(query, key, value, mask, is_causal=False, need_weights=False)
    for b, h, i in torch.cartesian_prod(torch.arange(2), torch.arange(heads), torch.arange(length)).tolist():
        scores = []
        for j in range(memory + i + 1):
            distance = part.sinusoid(torch.tensor([memory + i - j]))[0]
            content = (query[b, h, i] + part.content_bias[h, 0]) @ key[b, h, j]
            relative = part.distance_proj.weight.view(heads, head_dim, -1)[h] @ distance
            scores.append((content + (query[b, h, i] + part.distance_bias[h, 0]) @ relative) / math.sqrt(head_dim))
        want = torch.stack(scores).softmax(0) @ value[b, h, : memory + i + 1]
        assert_close(got[b, h, i], want, atol=1e-5, rtol=1e-4)


def reference(monkeypatch):
    """The module of the old release, whose other requirements (to download weights) are not needed here."""
    for name in ("boto3", "botocore", "botocore.exceptions", "botocore.config", "sacremoses"):
        stand_in = types.ModuleType(name)
        stand_in.Config = stand_in.ClientError = object
        monkeypatch.setitem(sys.modules, name, stand_in)
    pytest.importorskip("pytorch_transformers.modeling_transfo_xl", exc_type=ImportError)
    return importlib.import_module("pytorch_transformers.modeling_transfo_xl")


def test_transformer_xl_matches_the_last_release_that_had_one(monkeypatch):
    xl = reference(monkeypatch)
    config = xl.TransfoXLConfig(
        vocab_size_or_config_json_file=17,
        cutoffs=[],
        d_model=12,
        d_embed=12,
        n_head=3,
        d_head=4,
        d_inner=20,
        n_layer=2,
        div_val=1,
        mem_len=6,
        tgt_len=5,
        ext_len=0,
        clamp_len=-1,
        same_length=False,
        dropout=0.0,
        dropatt=0.0,
    )
    theirs = xl.TransfoXLModel(config).eval()
    ours = build()
    order = torch.arange(12).view(6, 2).T.flatten()  # ours alternate sines and cosines, theirs come one after the other
    with torch.no_grad():
        theirs.word_emb.emb_layers[0].weight.copy_(ours.embedding.weight)
        for layer, block in zip(theirs.layers, ours.blocks, strict=True):
            mixer, part = block.mixer, block.mixer.positions
            projections = (mixer.query_proj, mixer.key_proj, mixer.value_proj)
            layer.dec_attn.qkv_net.weight.copy_(torch.cat([p.weight for p in projections]))
            layer.dec_attn.o_net.weight.copy_(mixer.out_proj.weight)
            layer.dec_attn.r_net.weight.copy_(part.distance_proj.weight[:, order])
            layer.dec_attn.r_w_bias.copy_(part.content_bias[:, 0])
            layer.dec_attn.r_r_bias.copy_(part.distance_bias[:, 0])
            layer.dec_attn.layer_norm.load_state_dict(block.mixer_wiring.norm.state_dict())
            layer.pos_ff.CoreNet[0].load_state_dict(block.feed_forward.widen.state_dict())
            layer.pos_ff.CoreNet[3].load_state_dict(block.feed_forward.narrow.state_dict())
            layer.pos_ff.layer_norm.load_state_dict(block.feed_forward_wiring.norm.state_dict())
    state = None
    memories = [torch.zeros(0, 2, 12)] * 2  # left to itself the old release starts from a memory of zeros, and reads it
    for _ in range(3):  # the third segment meets a memory that is full and has forgotten the first tokens
        tokens = torch.randint(17, (2, 5))
        logits, state = ours.read_segment(tokens, state)
        hidden, memories = theirs(tokens, mems=memories)[:2]
        assert_close(logits, F.linear(hidden, ours.embedding.weight), atol=1e-4, rtol=1e-4)


def test_transformer_xl_segments_with_a_long_memory_equal_one_pass():
    model = build(memory_len=20)
    tokens = torch.randint(17, (2, 13))
    whole, state, pieces = model(tokens), None, []
    for segment in tokens.split(5, dim=1):
        logits, state = model.read_segment(segment, state)
        pieces.append(logits)
    assert_close(torch.cat(pieces, dim=1), whole, atol=1e-4, rtol=1e-4)


def test_transformer_xl_memory_is_limited_and_carries_no_gradient():
    model = build()
    tokens = torch.randint(17, (2, 10))
    _, state = model.read_segment(tokens)
    assert [tuple(memory.shape) for memory in state.memories] == [(2, 6, 12)] * 2
    assert not any(memory.requires_grad for memory in state.memories)
    logits, _ = model.read_segment(tokens[:, :3], state)
    other = [memory.clone() for memory in state.memories]
    other[0][:, 0] += 1.0  # the oldest token that the first layer remembers
    changed, _ = model.read_segment(tokens[:, :3], type(state)(other))
    assert (changed - logits).abs().amax((0, 2)).gt(1e-6).all()


def test_transformer_xl_without_memory_forgets():
    model = build(memory_len=0)
    tokens = torch.randint(17, (2, 5))
    _, state = model.read_segment(torch.randint(17, (2, 4)))
    assert_close(model.read_segment(tokens, state)[0], model(tokens))


def test_transformer_xl_decodes_prompts_of_different_lengths():
    model = build(memory_len=20)
    tokens, lengths = torch.randint(17, (3, 9)), torch.tensor([2, 5, 1])
    logits, state = model.start(tokens[:, :5], lengths)
    for more in range(4):
        want = torch.stack([model(tokens[b : b + 1, : lengths[b] + more])[0, -1] for b in range(3)])
        assert_close(logits, want, atol=1e-4, rtol=1e-4)
        logits, state = model.step(tokens[torch.arange(3), lengths + more], state)
    chosen, _ = model.step(torch.tensor([3, 4]), state.select(torch.tensor([2, 0])))
    whole, _ = model.step(torch.tensor([4, 0, 3]), state)
    assert_close(chosen, whole[[2, 0]], atol=1e-5, rtol=1e-4)


def test_transformer_xl_gives_every_layer_its_weights():
    model = build()
    tokens = torch.randint(17, (2, 7))
    with attention_weights(model) as seen:
        logits = model(tokens)
    assert_close(logits, model(tokens), atol=1e-5, rtol=1e-4)
    assert {name: tuple(layer.shape) for name, layer in seen.items()} == {
        "blocks.0.mixer": (2, 3, 7, 7),
        "blocks.1.mixer": (2, 3, 7, 7),
    }
    assert all(layer.triu(1).count_nonzero() == 0 for layer in seen.values())


def test_transformer_xl_preset_has_the_size_of_the_paper():
    with torch.device("meta"):
        model = TransformerXL(TRANSFORMER_XL_ENWIK8)
    assert round(sum(p.numel() for p in model.parameters()) / 1e6) == 41


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TransformerXLConfig(**{**SMALL, "memory_len": -1}), "memory_len must be 0 or more, got -1"),
        (lambda: build().start(torch.zeros(2, 0, dtype=torch.long)), "empty"),
        (
            lambda: build().start(torch.zeros(2, 3, dtype=torch.long), torch.tensor([0, 3])),
            "between 1 and the padded length 3",
        ),
        (
            lambda: build().step(torch.tensor([1]), build().start(torch.zeros(2, 3, dtype=torch.long))[1]),
            r"tokens must be \(2,\).*got \(1,\)",
        ),
    ],
)
def test_transformer_xl_says_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
