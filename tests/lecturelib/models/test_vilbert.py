"""ViLBERT and VisualBERT: against transformers, co-attention by construction, published sizes, what may pass."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lecturelib.layers import attention_weights
from lecturelib.models.bert import BERTConfig
from lecturelib.models.vilbert import (
    VILBERT_BASE,
    ApartBlock,
    CoBlock,
    StreamConfig,
    ViLBERT,
    ViLBERTConfig,
    ViLBERTPretraining,
)
from lecturelib.models.visual_bert import VISUAL_BERT_BASE, VisualBERT, VisualBERTConfig, VisualBERTPretraining
from lecturelib.models.weights.huggingface.language import BERT_BLOCK
from tests.lecturelib.models.parity import moved

B, T, N, F = 3, 7, 5, 11  # batch, words, regions, width of a region
EXACT = {"atol": 1e-12, "rtol": 1e-12}
TEXT = StreamConfig(d_model=12, num_heads=2, num_layers=3, d_ff=17)
IMAGE = StreamConfig(d_model=15, num_heads=5, num_layers=2, d_ff=13)
CONFIG = ViLBERTConfig(
    vocab_size=19,
    max_len=9,
    region_dim=F,
    text=TEXT,
    image=IMAGE,
    co_dim=18,
    co_heads=3,
    num_region_classes=8,
    dropout=0.0,
)
SINGLE = VisualBERTConfig(
    bert=BERTConfig(vocab_size=19, max_len=9, d_model=12, num_heads=2, num_layers=3, d_ff=17, dropout=0.0),
    region_dim=F,
    num_region_classes=8,
)
BERT_EMBEDDINGS = {
    "token_embedding": "word_embeddings",
    "type_embedding": "token_type_embeddings",
    "positions": "position_embeddings",
}


@pytest.fixture(autouse=True)
def _double_precision():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def pairs():
    return torch.randint(19, (B, T)), torch.randn(B, N, F), torch.tensor([T, 4, 2]), torch.tensor([2, N, 4])


def copy_into(ours: nn.Module, theirs: nn.Module, names: dict[str, str]) -> None:
    """Weights and biases, module by module."""
    for mine, yours in names.items():
        ours.get_submodule(mine).load_state_dict(theirs.get_submodule(yours).state_dict())


def visual_bert_names(num_layers: int) -> dict[str, str]:
    names = {f"bert.{ours}": f"embeddings.{theirs}" for ours, theirs in BERT_EMBEDDINGS.items()}
    names |= {"bert.norm": "embeddings.LayerNorm", "region_proj": "embeddings.visual_projection"}
    names |= {"bert.pooler": "pooler.dense"}
    for layer in range(num_layers):
        names |= {f"bert.blocks.{layer}.{mine}": f"encoder.layer.{layer}.{yours}" for mine, yours in BERT_BLOCK.items()}
    return names


def test_visual_bert_matches_transformers_with_padding_among_the_words():
    transformers = pytest.importorskip("transformers")
    theirs = moved(
        transformers.VisualBertForPreTraining(
            transformers.VisualBertConfig(
                vocab_size=19,
                max_position_embeddings=9,
                hidden_size=12,
                num_hidden_layers=3,
                num_attention_heads=2,
                intermediate_size=17,
                visual_embedding_dim=F,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                pad_token_id=None,
            )
        )
    )
    ours = VisualBERTPretraining(SINGLE)
    copy_into(ours.trunk, theirs.visual_bert, visual_bert_names(3))
    heads = {"words.transform": "transform.dense", "words.norm": "transform.LayerNorm", "words.output": "decoder"}
    copy_into(ours, theirs.cls.predictions, heads)
    copy_into(ours, theirs.cls, {"matches": "seq_relationship"})
    with torch.no_grad():  # theirs adds to every region row 1 of one table and row 0 of another
        rows = theirs.visual_bert.embeddings
        ours.trunk.region_segment.copy_(
            rows.visual_token_type_embeddings.weight[1] + rows.visual_position_embeddings.weight[0]
        )
    tokens, regions, lengths, counts = pairs()
    types = torch.randint(2, (B, T))
    real, seen = torch.arange(T) < lengths[:, None], torch.arange(N) < counts[:, None]
    want = theirs.visual_bert(
        tokens,
        attention_mask=real.long(),
        token_type_ids=types,
        visual_embeds=regions,
        visual_attention_mask=seen.long(),
    )
    got = ours.trunk(tokens, regions, lengths, counts, types)
    both = torch.cat([real, seen], dim=1)
    assert_close(got.hidden[both], want.last_hidden_state[both], **EXACT)
    assert_close(got.pooled, want.pooler_output, **EXACT)
    want = theirs(tokens, attention_mask=real.long(), visual_embeds=regions, visual_attention_mask=seen.long())
    got = ours(tokens, regions, lengths, counts)
    assert_close(got.words[real], want.prediction_logits[:, :T][real], **EXACT)
    assert_close(got.matches, want.seq_relationship_logits, **EXACT)


LXMERT_HALF = {
    "attention.query_proj": "att.query",
    "attention.key_proj": "att.key",
    "attention.value_proj": "att.value",
    "attention.out_proj": "output.dense",
    "attention_wiring.norm": "output.LayerNorm",
}


def test_co_block_matches_the_cross_attention_of_lxmert():
    """LXMERT crosses its streams with one set of weights for both ways; with it in both halves, ours must agree."""
    pytest.importorskip("transformers")
    from transformers.models.lxmert import modeling_lxmert as lxmert

    sizes = {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 17}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    theirs = moved(lxmert.LxmertXLayer(lxmert.LxmertConfig(**sizes, **dropout)))
    stream = StreamConfig(d_model=12, num_heads=2, num_layers=1, d_ff=17)
    config = ViLBERTConfig(
        vocab_size=2, max_len=2, region_dim=2, text=stream, image=stream, co_dim=12, co_heads=3, dropout=0.0
    )
    ours = CoBlock(config)
    for half, inner, outer in ((ours.text, "lang_inter", "lang_output"), (ours.image, "visn_inter", "visn_output")):
        copy_into(half, theirs.visual_attention, LXMERT_HALF)
        copy_into(half, theirs.get_submodule(inner), {"feed_forward.widen": "dense"})
        rest = {"feed_forward.narrow": "dense", "feed_forward_wiring.norm": "LayerNorm"}
        copy_into(half, theirs.get_submodule(outer), rest)
    words, regions = torch.randn(B, T, 12), torch.randn(B, N, 12)
    lengths, counts = torch.tensor([T, 4, 2]), torch.tensor([2, N, 4])
    real, seen = (torch.arange(T) < lengths[:, None])[:, None], (torch.arange(N) < counts[:, None])[:, None]
    added = [torch.zeros(B, 1, 1, mask.shape[2]).masked_fill(~mask[:, None], -torch.inf) for mask in (real, seen)]
    crossed = theirs.cross_att(words, added[0], regions, added[1])
    want = theirs.output_fc(crossed[0][0], crossed[1][0])  # without the self-attention between the two
    got = ours(words, regions, real, seen)
    for mine, yours in zip(got, want, strict=True):
        assert_close(mine, yours, **EXACT)


def test_co_block_of_equal_streams_is_one_cross_attention():
    """Tied halves on equal inputs give what self-attention gives: the crossing is nothing but whose keys are read."""
    stream = StreamConfig(d_model=12, num_heads=2, num_layers=1, d_ff=17)
    config = ViLBERTConfig(
        vocab_size=2, max_len=2, region_dim=2, text=stream, image=stream, co_dim=15, co_heads=3, dropout=0.0
    )
    crossed, apart = moved(CoBlock(config)), ApartBlock(config)
    crossed.image.load_state_dict(crossed.text.state_dict())
    apart.load_state_dict(crossed.state_dict())
    x, other = torch.randn(B, T, 12), torch.randn(B, N, 12)
    for one, two in zip(crossed(x, x, None, None), apart(x, x, None, None), strict=True):
        assert_close(one, two, **EXACT)
    assert not torch.allclose(crossed(x, other, None, None)[0], apart(x, other, None, None)[0])
    swapped = crossed(other, x, None, None)
    assert_close(crossed(x, other, None, None), (swapped[1], swapped[0]), **EXACT)


def test_both_streams_read_what_the_other_was_before():
    """The second half must not see what the first has just written."""
    block = moved(CoBlock(CONFIG))
    words, regions = torch.randn(B, T, 12), torch.randn(B, N, 15)
    new_words, new_regions = block(words, regions, None, None)
    assert_close(new_words, block.text(words, regions), **EXACT)
    assert_close(new_regions, block.image(regions, words), **EXACT)
    assert not torch.allclose(new_regions, block.image(regions, new_words))


def gradient_reaches(model: ViLBERT, source: str, output: str) -> bool:
    """Whether the words of a text depend on the regions, or the regions on the words."""
    tokens, regions, lengths, counts = pairs()
    leaf = {"regions": model.region_proj, "words": model.token_embedding}[source].weight
    (gradient,) = torch.autograd.grad(
        getattr(model(tokens, regions, lengths, counts), output).square().sum(), leaf, allow_unused=True
    )
    return gradient is not None and bool(gradient.any())


@pytest.mark.parametrize(("connect", "meet"), [(CoBlock, True), (ApartBlock, False)])
def test_only_co_attention_lets_the_streams_meet(connect, meet):
    model = moved(ViLBERT(CONFIG, connect))
    for source, other in (("regions", "words"), ("words", "regions")):
        assert gradient_reaches(model, source, other) is meet
        assert gradient_reaches(model, source, source)


def test_vilbert_ignores_words_and_regions_beyond_their_number():
    model = moved(ViLBERTPretraining(CONFIG))
    tokens, regions, lengths, counts = pairs()
    want = model(tokens, regions, lengths, counts)
    real, seen = torch.arange(T) < lengths[:, None], torch.arange(N) < counts[:, None]
    got = model(tokens.masked_fill(~real, 1), regions.masked_fill(~seen[..., None], 50.0), lengths, counts)
    assert_close(got.words[real], want.words[real], **EXACT)
    assert_close(got.regions[seen], want.regions[seen], **EXACT)
    assert_close(got.matches, want.matches, **EXACT)


def test_regions_are_a_set_but_for_the_first():
    """Their order says nothing, in either model; the words' order does."""
    tokens, regions, lengths, _ = pairs()
    order = torch.tensor([0, 3, 1, 4, 2])
    for model in (moved(ViLBERTPretraining(CONFIG)), moved(VisualBERTPretraining(SINGLE))):
        want, got = model(tokens, regions, lengths), model(tokens, regions[:, order], lengths)
        assert_close(got.matches, want.matches, **EXACT)
        assert_close(got.words, want.words, **EXACT)
        assert_close(got.regions, want.regions[:, order], **EXACT)
        assert not torch.allclose(model(tokens.flip(1), regions).matches, model(tokens, regions).matches)


def test_co_attention_weights_can_be_watched_in_both_directions():
    model = moved(ViLBERT(CONFIG))
    tokens, regions, lengths, counts = pairs()
    with attention_weights(model) as seen:
        model(tokens, regions, lengths, counts)
    for layer in range(2):
        assert seen[f"connections.{layer}.text.attention"].shape == (B, 3, T, N)
        assert seen[f"connections.{layer}.image.attention"].shape == (B, 3, N, T)
        assert not seen[f"connections.{layer}.text.attention"][0, :, :, 2:].any()  # two regions are real
    first = list(seen)
    assert first.index("text_blocks.0.mixer") < first.index("connections.0.text.attention")
    assert first.index("connections.0.image.attention") < first.index("image_blocks.0.mixer")
    assert first.index("image_blocks.0.mixer") < first.index("connections.1.text.attention")


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_vilbert_base_has_the_size_of_the_authors_model():
    """250,044,029 in their code, less layers that it never uses, its token types, and a second bias of the regions."""
    with torch.device("meta"):
        model = ViLBERTPretraining(VILBERT_BASE)
    unused = 6 * (1024 * 1024 + 1024 + 1024 * 768 + 768)  # two more matrices in each co-attention
    assert count(model) == 250_044_029 - unused - 2 * 768 - 1024


def test_visual_bert_base_has_the_size_of_its_reference():
    transformers = pytest.importorskip("transformers")
    settings = transformers.VisualBertConfig(visual_embedding_dim=2048)
    reference = transformers.VisualBertModel
    with torch.device("meta"):
        ours, theirs = VisualBERT(VISUAL_BERT_BASE), reference(settings)
    tables = 2 * 768 + 512 * 768  # of visual types and positions, of which it uses the sum of two rows
    assert count(ours) == count(theirs) - tables + 768


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, t, r: m(t, r[:2]), rf"regions must be \(3, regions, {F}\) .* got \(2, 5, {F}\)"),
        (lambda m, t, r: m(t, r[..., :3]), r"got \(3, 5, 3\)"),
        (lambda m, t, r: m(t, r[:, :0]), r"at least one region, got \(3, 0, 11\)"),
        (lambda m, t, r: m(torch.cat([t, t], dim=1), r), "14 tokens does not fit; 1 to max_len=9"),
        (lambda m, t, r: m(t, r, torch.tensor([8, 1, 1])), "lengths must be between 0 and the padded length 7"),
        (lambda m, t, r: m(t, r, None, torch.tensor([6, 1, 1])), "must be between 0 and the padded length 5"),
    ],
)
def test_wrong_inputs_are_explained(call, message):
    tokens, regions, _, _ = pairs()
    for model in (ViLBERT(CONFIG), VisualBERT(SINGLE)):
        with pytest.raises(ValueError, match=message):
            call(model, tokens, regions)


def test_wrong_configs_are_explained():
    with pytest.raises(ValueError, match=r"text\.num_layers=2 and image\.num_layers=3"):
        ViLBERTConfig(
            vocab_size=19,
            max_len=9,
            region_dim=F,
            text=StreamConfig(d_model=12, num_heads=2, num_layers=2, d_ff=17),
            image=StreamConfig(d_model=12, num_heads=2, num_layers=3, d_ff=17),
            co_dim=18,
            co_heads=3,
        )
    with pytest.raises(ValueError, match="num_heads must divide d_model, got d_model=7"):
        StreamConfig(d_model=7, num_heads=2, num_layers=2, d_ff=17)
    bert = BERTConfig(vocab_size=19, max_len=9, d_model=12, num_heads=2, num_layers=3, activation="relu")
    with pytest.raises(ValueError, match="must be gelu, got 'relu'"):
        VisualBERTConfig(bert=bert, region_dim=F)
