"""The encoder-decoder against torch.nn's stacks, its published sizes, and its word-by-word decoding."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lecturelib.layers import LearnedPositions, attention_weights
from lecturelib.models import load
from lecturelib.models.transformer import (
    TRANSFORMER_BASE,
    TRANSFORMER_BIG,
    Transformer,
    TransformerConfig,
)

SMALL = {"vocab_size": 17, "d_model": 12, "num_heads": 3, "num_layers": 2, "d_ff": 20, "dropout": 0.0}
BATCH, SOURCE, TARGET = 4, 7, 5
LENGTHS = torch.tensor([7, 3, 1, 5])


def build(wiring="post_norm", positions=None):
    """A small model in evaluation, every parameter moved from its initial value."""
    model = Transformer(TransformerConfig(**SMALL, wiring=wiring), positions=positions)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def inputs():
    return torch.randint(17, (BATCH, SOURCE)), torch.randint(17, (BATCH, TARGET))


@pytest.mark.parametrize("wiring", ["pre_norm", "post_norm"])
def test_transformer_matches_torch(wiring):
    ours = build(wiring)
    sizes, norm_first = (12, 3, 20, 0.0), wiring == "pre_norm"
    encoder = [nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=norm_first) for _ in range(2)]
    decoder = [nn.TransformerDecoderLayer(*sizes, batch_first=True, norm_first=norm_first) for _ in range(2)]
    for mine, yours in zip((*ours.encoder, *ours.decoder), (*encoder, *decoder), strict=True):
        load(mine, yours)
    source, target = inputs()
    padding = torch.arange(SOURCE) >= LENGTHS[:, None]

    def embed(tokens):
        table = torch.zeros(tokens.shape[1], 12)
        rate = torch.exp(torch.arange(0, 12, 2) * (-math.log(10_000) / 12))
        table[:, 0::2] = torch.sin(torch.arange(len(table))[:, None] * rate)
        table[:, 1::2] = torch.cos(torch.arange(len(table))[:, None] * rate)
        return ours.embedding(tokens) * math.sqrt(12) + table

    memory, x = embed(source), embed(target)
    for layer in encoder:
        memory = layer(memory, src_key_padding_mask=padding)
    memory = ours.encoder_norm(memory)
    later = torch.ones(TARGET, TARGET, dtype=torch.bool).triu(1)
    for layer in decoder:
        x = layer(x, memory, tgt_mask=later, memory_key_padding_mask=padding)
    want = ours.decoder_norm(x) @ ours.embedding.weight.T
    assert_close(ours(source, LENGTHS, target), want, atol=1e-4, rtol=1e-4)
    assert isinstance(ours.encoder_norm, nn.LayerNorm if norm_first else nn.Identity)


@pytest.mark.parametrize(("config", "parameters"), [(TRANSFORMER_BASE, 63_082_496), (TRANSFORMER_BIG, 214_245_376)])
def test_transformer_presets_have_the_published_sizes(config, parameters):
    with torch.device("meta"):
        model = Transformer(config)
    assert config.vocab_size == 37_000
    assert sum(p.numel() for p in model.parameters()) == parameters


def test_transformer_starts_as_published():
    model = Transformer(TransformerConfig(vocab_size=500, d_model=96, num_heads=4, num_layers=2, d_ff=200))
    assert model.embedding.weight.std().item() == pytest.approx(96**-0.5, rel=0.05)
    for name, parameter in model.named_parameters():
        if name.endswith(("proj.weight", "widen.weight", "narrow.weight")):
            bound = math.sqrt(6 / sum(parameter.shape))
            assert parameter.abs().max() <= bound
            assert parameter.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05), name
        elif name.endswith("bias"):
            assert parameter.count_nonzero() == 0, name


@pytest.mark.parametrize("wiring", ["pre_norm", "post_norm"])
@pytest.mark.parametrize("lengths", [LENGTHS, None])
@pytest.mark.parametrize("learned", [True, False])
def test_transformer_cached_equals_uncached(wiring, lengths, learned):
    model = build(wiring, LearnedPositions(9, 12) if learned else None)
    source, target = inputs()
    with torch.no_grad():
        want = model(source, lengths, target)
    state = model.start(source, lengths)
    for t in range(TARGET):
        logits, state = model.step(target[:, t], state)
        assert_close(logits, want[:, t], atol=1e-5, rtol=1e-4)


def test_transformer_projects_the_source_once():
    model = build()
    calls = []
    for block in model.decoder:
        block.cross.key_proj.register_forward_hook(lambda module, args, out: calls.append(tuple(out.shape)))
    source, target = inputs()
    state = model.start(source, LENGTHS)
    for t in range(TARGET):
        _, state = model.step(target[:, t], state)
    assert calls == [(BATCH, SOURCE, 12)] * 2


def test_transformer_state_selects_rows_of_source_and_target():
    model = build()
    source, target = inputs()
    with torch.no_grad():
        want = model(source, LENGTHS, target)
    state = model.start(source, LENGTHS)
    _, state = model.step(target[:, 0], state)
    beams = state.select(torch.tensor([0, 0, 1, 1, 2, 3]))
    index = torch.tensor([1, 0, 3, 2, 4, 5])
    swapped = beams.select(index)
    rows = torch.tensor([0, 0, 1, 1, 2, 3])
    logits, _ = model.step(target[rows, 1], swapped)
    assert_close(logits, want[rows, 1], atol=1e-5, rtol=1e-4)
    moved = swapped.select(torch.tensor([5, 0, 2]))
    logits, _ = model.step(target[[3, 0, 1], 1], moved)
    assert_close(logits, want[[3, 0, 1], 1], atol=1e-5, rtol=1e-4)


def test_transformer_gives_all_weights():
    model = build()
    source, target = inputs()
    with attention_weights(model) as seen:
        logits = model(source, LENGTHS, target)
    assert_close(logits, model(source, LENGTHS, target), atol=1e-5, rtol=1e-4)
    padding = torch.arange(SOURCE) >= LENGTHS[:, None]
    assert list(seen)[:3] == ["encoder.0.mixer", "encoder.1.mixer", "decoder.0.mixer"]
    for layer in range(2):
        encoder, decoder = seen[f"encoder.{layer}.mixer"], seen[f"decoder.{layer}.mixer"]
        cross = seen[f"decoder.{layer}.cross"]
        assert encoder.shape == (BATCH, 3, SOURCE, SOURCE)
        assert decoder.triu(1).count_nonzero() == 0
        assert cross.shape == (BATCH, 3, TARGET, SOURCE)
        assert (cross.sum(2) * padding[:, None]).count_nonzero() == 0
        assert_close(cross.sum(-1), torch.ones(BATCH, 3, TARGET))
    assert len(seen) == 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, s, t: m(s, LENGTHS, t[:3]), r"target_in must be \(4, length\) token ids, got \(3, 5\)"),
        (lambda m, s, t: m(s, LENGTHS + 1, t), "source_lengths.*length 7, got"),
        (lambda m, s, t: m.step(t[:, :1], m.start(s)), r"tokens must be \(4,\).*got \(4, 1\)"),
        (lambda m, s, t: m.step(t[:3, 0], m.start(s)), r"tokens must be \(4,\).*got \(3,\)"),
        (lambda m, s, t: m(s + 17, LENGTHS, t), "source must be ids from 0 to 16"),
    ],
)
def test_transformer_says_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call(build(), *inputs())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 5}, "d_model=12 and num_heads=5"),
        ({"d_ff": 0}, "d_ff must be at least 1, got 0"),
        ({"wiring": "both"}, "wiring.*'both'"),
    ],
)
def test_transformer_config_names_the_field(change, message):
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**{**SMALL, **change})
