"""The captioners that are transformers, against transformers' encoder and torch's decoder, and what they look at."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lecturelib.evaluation import beam_search, decode, read_source
from lecturelib.layers import TextDecoder, attention_weights
from lecturelib.models import (
    CaptionTransformer,
    CaptionTransformerConfig,
    ConvEncoderConfig,
    ShowAttendTell,
    ShowAttendTellConfig,
    ViT,
    ViTCaptioner,
    ViTCaptionerConfig,
    ViTConfig,
    load,
)
from lecturelib.tokens import collate_captions
from lecturelib.training import caption_loss

from .parity import moved

VOCAB, BATCH, LENGTH = 17, 3, 5
WRITER = {"d_model": 12, "num_heads": 3, "num_layers": 2, "d_ff": 22}
GRID = ConvEncoderConfig(num_channels=2, widths=(4, 7), layers=(1, 1))
PATCHES = ViTConfig(
    image_size=(8, 12), patch_size=4, num_channels=2, d_model=10, num_heads=2, num_layers=2, d_ff=21, eps=1e-7
)


def build(kind):
    torch.manual_seed(0)
    config = {CaptionTransformer: CaptionTransformerConfig, ViTCaptioner: ViTCaptionerConfig}[kind]
    model = kind(config(vocab_size=VOCAB, image=GRID if kind is CaptionTransformer else PATCHES, **WRITER))
    return moved(model.double())


def inputs():
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(BATCH, 2, 8, 12, generator=generator, dtype=torch.double)
    return images, torch.randint(VOCAB, (BATCH, LENGTH), generator=generator)


BOTH = pytest.mark.parametrize("kind", [CaptionTransformer, ViTCaptioner])


def torch_decoder(decoder, kv_dim):
    """A `torch.nn.TransformerDecoder` that reads vectors of another width, its weights put into ours."""
    layer = nn.TransformerDecoderLayer(12, 3, 22, 0.0, batch_first=True, norm_first=True)
    theirs = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(12))
    for block in theirs.layers:
        block.multihead_attn = nn.MultiheadAttention(12, 3, kdim=kv_dim, vdim=kv_dim, batch_first=True)
    theirs = moved(theirs.double())
    for ours, block in zip(decoder.blocks, theirs.layers, strict=True):
        load(ours, block)
    decoder.norm.load_state_dict(theirs.norm.state_dict())
    return theirs


def torch_logits(decoder, theirs, tokens, memory):
    x = decoder.embedding(tokens) * math.sqrt(12) + decoder.positions(torch.arange(LENGTH)).double()
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    return theirs(x, memory, tgt_mask=later) @ decoder.embedding.weight.T


def test_caption_transformer_matches_torch():
    model, (images, tokens) = build(CaptionTransformer), inputs()
    theirs = torch_decoder(model.decoder, kv_dim=9)
    want = torch_logits(model.decoder, theirs, tokens, model.encoder(images))
    assert_close(model(images, tokens), want, atol=1e-12, rtol=1e-12)


def test_vit_captioner_matches_transformers_and_torch():
    transformers = pytest.importorskip("transformers")
    settings = transformers.ViTConfig(
        image_size=(8, 12),
        patch_size=4,
        num_channels=2,
        num_labels=4,
        hidden_size=10,
        num_attention_heads=2,
        num_hidden_layers=2,
        intermediate_size=21,
        layer_norm_eps=1e-7,
    )
    peer = moved(transformers.ViTForImageClassification(settings)).double()  # from weights in 32 bits
    model, (images, tokens) = build(ViTCaptioner), inputs()
    weights = load(ViT, peer.state_dict(), replace(PATCHES, num_classes=4)).encoder.double().state_dict()
    weights["positions.weight"] = weights["positions.weight"][:, 1:]  # without the class token
    model.encoder.load_state_dict({name: weights[name] for name in model.encoder.state_dict()})
    embeddings = peer.vit.embeddings
    memory = embeddings.patch_embeddings(images) + embeddings.position_embeddings[:, 1:]
    for block in peer.vit.layers:
        memory = block(memory)
    memory = peer.vit.layernorm(memory)
    want = torch_logits(model.decoder, torch_decoder(model.decoder, kv_dim=10), tokens, memory)
    assert_close(model(images, tokens), want, atol=1e-12, rtol=1e-12)


@BOTH
def test_captioner_cross_attention_is_a_softmax_over_all_regions(kind):
    model, (images, tokens) = build(kind), inputs()
    with attention_weights(model) as seen:
        model(images, tokens)
    memory = model.encoder(images)  # (B, N, kv_dim)
    for layer in range(2):
        looks, back = seen[f"decoder.blocks.{layer}.cross"], seen[f"decoder.blocks.{layer}.mixer"]
        assert looks.shape == (BATCH, 3, LENGTH, memory.shape[1])
        assert_close(looks.sum(dim=-1), torch.ones(BATCH, 3, LENGTH, dtype=torch.double))
        assert back.triu(1).count_nonzero() == 0
    grid = (4, 6) if kind is CaptionTransformer else (2, 3)
    assert memory.shape[1] == grid[0] * grid[1]


@BOTH
def test_captioner_reads_the_image_once(kind):
    model, (images, tokens) = build(kind), inputs()
    calls = []
    for block in model.decoder.blocks:
        block.cross.key_proj.register_forward_hook(lambda module, args, out: calls.append(tuple(out.shape)))
    state = model.start(images)
    for t in range(LENGTH):
        _, state = model.step(tokens[:, t], state)
    assert calls == [(BATCH, state.memory.shape[1], 12)] * 2


def test_regions_are_a_set_to_the_decoder_but_words_are_a_sequence():
    decoder = moved(TextDecoder(VOCAB, 12, 3, num_layers=2, d_ff=22, kv_dim=9).double())
    memory, (_, tokens) = torch.randn(BATCH, 8, 9, dtype=torch.double), inputs()
    order = torch.tensor([3, 0, 7, 5, 1, 6, 2, 4])
    want = decoder(tokens, memory)
    assert_close(decoder(tokens, memory[:, order]), want, atol=1e-12, rtol=1e-12)
    swapped = tokens[:, [1, 0, 2, 3, 4]]
    assert not torch.allclose(decoder(swapped, memory)[:, -1], want[:, -1])


@BOTH
def test_captioner_trains_and_writes_as_show_attend_tell_does(kind):
    """One loss, one decoder and one beam search serve all captioners."""
    model, (images, _) = build(kind), inputs()
    recurrent = ShowAttendTell(ShowAttendTellConfig(vocab_size=VOCAB, image=GRID)).double().eval()
    batch = collate_captions(images, [[3, 4], [5], [6, 7, 8]], pad_id=0, bos_id=1, eos_id=2)
    (loss, words), (_, same) = caption_loss(model, batch), caption_loss(recurrent, batch)
    assert words == same == 9
    loss.backward()
    first = read_source(model, images, bos_id=1)
    greedy, beams = decode(model, first, max_len=4), beam_search(model, first, max_len=4, beam_size=2)
    assert greedy.ids.shape == (BATCH, 4)
    assert (beams.scores[:, 0] >= beams.scores[:, 1]).all()


def test_captioner_errors_say_what_to_do():
    model, (images, tokens) = build(CaptionTransformer), inputs()
    with pytest.raises(ValueError, match=r"target_in must be .*got"):
        model(images, tokens[0])
    state = model.start(images)
    with pytest.raises(ValueError, match=r"tokens must be \(3,\) token ids, one for each row, got \(2,\)"):
        model.step(tokens[:2, 0], state)
    for config, image in ((CaptionTransformerConfig, GRID), (ViTCaptionerConfig, PATCHES)):
        with pytest.raises(ValueError, match=r"d_model=14.*num_heads=4"):
            config(vocab_size=VOCAB, image=image, d_model=14)
