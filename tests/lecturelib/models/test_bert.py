"""BERT against transformers, with padding and token types, its published sizes, and its loader."""

import pytest
import torch
from torch.testing import assert_close

from lecturelib.layers import attention_weights
from lecturelib.models import load
from lecturelib.models.bert import BERT, BERT_BASE, BERT_LARGE, BERTConfig, BERTPretraining

SIZES = [
    {"vocab_size": 19, "max_len": 13, "d_model": 12, "num_layers": 1, "num_heads": 2, "d_ff": 21},
    {"vocab_size": 31, "max_len": 9, "d_model": 20, "num_layers": 3, "num_heads": 5, "d_ff": 80},
    {"vocab_size": 7, "max_len": 21, "d_model": 16, "num_layers": 2, "num_heads": 1, "d_ff": 11, "num_token_types": 3},
]


def reference(sizes):
    """A transformers model of these sizes, in evaluation, every parameter moved from its initial value."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=sizes["vocab_size"],
        max_position_embeddings=sizes["max_len"],
        hidden_size=sizes["d_model"],
        num_hidden_layers=sizes["num_layers"],
        num_attention_heads=sizes["num_heads"],
        intermediate_size=sizes["d_ff"],
        type_vocab_size=sizes.get("num_token_types", 2),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=None,  # or token 0 would get no gradient from the input
    )
    model = transformers.BertForPreTraining(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def inputs(sizes, length=8):
    tokens = torch.randint(sizes["vocab_size"], (3, length))
    types = torch.randint(sizes.get("num_token_types", 2), (3, length))
    return tokens, types, torch.tensor([length, 5, 2])


@pytest.mark.parametrize("sizes", SIZES)
def test_bert_matches_transformers_in_logits_and_gradients(sizes):
    theirs = reference(sizes)
    config = BERTConfig(**sizes, dropout=0.0)
    ours = load(BERTPretraining, theirs.state_dict(), config).eval()
    tokens, types, lengths = inputs(sizes)
    real = torch.arange(8) < lengths[:, None]
    words, follows = ours(tokens, types, lengths)
    want = theirs(tokens, attention_mask=real.long(), token_type_ids=types)
    assert_close(words[real], want.prediction_logits[real], atol=1e-5, rtol=1e-4)
    assert_close(follows, want.seq_relationship_logits, atol=1e-5, rtol=1e-4)
    weight, other = torch.randn_like(words) * real[..., None], torch.randn_like(follows)
    ((words * weight).sum() + (follows * other).sum()).backward()
    ((want.prediction_logits * weight).sum() + (want.seq_relationship_logits * other).sum()).backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    copy = load(BERTPretraining, gradients, config)
    compared = 0
    for (name, parameter), gradient in zip(ours.named_parameters(), copy.parameters(), strict=True):
        assert_close(parameter.grad, gradient, atol=1e-4, rtol=1e-3, msg=lambda m, name=name: f"{name}: {m}")
        compared += gradient.count_nonzero().item()
    assert compared > 100


def test_bert_trunk_matches_transformers_and_gives_weights(tmp_path):
    theirs = reference(SIZES[1])
    theirs.save_pretrained(tmp_path)
    ours = load(BERT, tmp_path).eval()
    tokens, types, lengths = inputs(SIZES[1])
    real = torch.arange(8) < lengths[:, None]
    theirs.set_attn_implementation("eager")
    want = theirs.bert(tokens, attention_mask=real.long(), token_type_ids=types, output_attentions=True)
    with attention_weights(ours) as seen:
        got = ours(tokens, types, lengths)
    assert_close(got.hidden[real], want.last_hidden_state[real], atol=1e-5, rtol=1e-4)
    assert_close(got.pooled, want.pooler_output, atol=1e-5, rtol=1e-4)
    assert len(seen) == 3
    for mine, yours in zip(seen.values(), want.attentions, strict=True):
        rows = real[:, None, :, None].expand_as(mine)
        assert_close(mine[rows], yours[rows], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("config", "parameters"), [(BERT_BASE, 109_482_240), (BERT_LARGE, 335_141_888)])
def test_bert_presets_have_the_published_sizes(config, parameters):
    with torch.device("meta"):
        model = BERT(config)
    assert sum(p.numel() for p in model.parameters()) == parameters


def test_bert_starts_as_published():
    model = BERTPretraining(BERTConfig(**SIZES[1]))
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            assert parameter.abs().max() <= 0.04, name
            assert parameter.std().item() == pytest.approx(0.0176, rel=0.35), name  # 0.02, cut at two deviations
        elif "norm" not in name:
            assert parameter.count_nonzero() == 0, name


def test_bert_takes_old_names_of_norms_and_a_trunk_without_prefix():
    state = reference(SIZES[0]).bert.state_dict()
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in state.items()
    }
    old["embeddings.position_ids"] = torch.arange(13)[None]
    assert old.keys() != state.keys()
    model = load(BERT, old, BERTConfig(**SIZES[0]))
    assert torch.equal(model.norm.weight, state["embeddings.LayerNorm.weight"])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s: s.pop("bert.pooler.dense.bias"), r"missing from the checkpoint: pooler\.dense\.bias"),
        (lambda s: s.update({"bert.extra": torch.zeros(1)}), r"not known to this model: bert\.extra"),
        (
            lambda s: s.update({"bert.pooler.dense.weight": torch.zeros(12, 13)}),
            r"bert\.pooler\.dense\.weight has shape \(12, 13\), needed \(12, 12\)",
        ),
        (
            lambda s: s.update({"cls.predictions.decoder.weight": torch.zeros(19, 12)}),
            r"cls\.predictions\.decoder\.weight differs from bert\.embeddings\.word_embeddings",
        ),
    ],
)
def test_bert_names_what_does_not_fit(spoil, message):
    state = dict(reference(SIZES[0]).state_dict())
    spoil(state)
    with pytest.raises(ValueError, match=message):
        load(BERTPretraining, state, BERTConfig(**SIZES[0]))


def test_bert_needs_sizes_for_bare_weights():
    with pytest.raises(ValueError, match="pass config="):
        load(BERT, {})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(2, 14, dtype=torch.long),), "14 tokens does not fit.*max_len=13"),
        ((torch.zeros(2, 3, dtype=torch.long), torch.full((2, 3), 2)), "token_types must be ids from 0 to 1, got 2"),
        ((torch.full((2, 3), 19),), "ids from 0 to 18, got 19"),
    ],
)
def test_bert_says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        BERT(BERTConfig(**SIZES[0]))(*arguments)
