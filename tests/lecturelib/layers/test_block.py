"""The block in both wirings, held to torch.nn's encoder and decoder layers: outputs and all gradients."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from lecturelib.layers import (
    WIRINGS,
    Block,
    DecoderBlock,
    FeedForward,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    attention_weights,
    causal_mask,
    padding_mask,
)
from lecturelib.models import load

BATCH, TARGET, SOURCE, HEADS, D_MODEL, D_FF = 3, 5, 7, 2, 12, 20
ACTIVATIONS = {"relu": torch.relu, "gelu": F.gelu}


def encoder_pair(wiring, activation, dropout=0.0):
    torch_layer = nn.TransformerEncoderLayer(
        D_MODEL, HEADS, D_FF, dropout, activation, batch_first=True, norm_first=wiring is PreNorm
    )
    ours = Block(
        MultiHeadAttention(D_MODEL, HEADS, dropout=dropout),
        FeedForward(D_MODEL, D_FF, activation=ACTIVATIONS[activation], dropout=dropout),
        partial(wiring, D_MODEL, dropout=dropout),
    )
    shake(torch_layer)
    return load(ours, torch_layer), torch_layer


def decoder_pair(wiring, activation):
    torch_layer = nn.TransformerDecoderLayer(
        D_MODEL, HEADS, D_FF, 0.0, activation, batch_first=True, norm_first=wiring is PreNorm
    )
    ours = DecoderBlock(
        MultiHeadAttention(D_MODEL, HEADS),
        MultiHeadAttention(D_MODEL, HEADS),
        FeedForward(D_MODEL, D_FF, activation=ACTIVATIONS[activation]),
        partial(wiring, D_MODEL),
    )
    shake(torch_layer)
    return load(ours, torch_layer), torch_layer


@torch.no_grad()
def shake(module):
    """Move every parameter, so that a bias of 0 or a norm of 1 in the wrong place is seen."""
    for parameter in module.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))


def gradients(module):
    """Every gradient under the names of torch's layers, whichever layer it is."""
    names = {
        "query_proj": "in_proj_0",
        "key_proj": "in_proj_1",
        "value_proj": "in_proj_2",
        "feed_forward.widen": "linear1",
        "feed_forward.narrow": "linear2",
        "mixer_wiring.norm": "norm1",
    }
    last = "norm3" if hasattr(module, "cross") else "norm2"
    names |= {"cross_wiring.norm": "norm2", "feed_forward_wiring.norm": last}
    names |= {"mixer.": "self_attn.", "cross.": "multihead_attn."}
    found = {}
    for name, parameter in module.named_parameters():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        if "in_proj_weight" in name or "in_proj_bias" in name:
            kind = name.rsplit("_", 1)[1]
            for part, piece in enumerate(parameter.grad.chunk(3)):
                found[name.replace(f"in_proj_{kind}", f"in_proj_{part}.{kind}")] = piece
        else:
            found[name] = parameter.grad
    return found


def assert_same_gradients(ours, theirs):
    got, want = gradients(ours), gradients(theirs)
    assert got.keys() == want.keys()
    for name in want:
        assert_close(got[name], want[name], atol=1e-5, rtol=1e-4, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("wiring", [PreNorm, PostNorm])
@pytest.mark.parametrize("masked", ["no", "padding", "causal"])
def test_block_matches_torch(wiring, activation, masked):
    ours, theirs = encoder_pair(wiring, activation)
    x = torch.randn(BATCH, SOURCE, D_MODEL)
    lengths = torch.tensor([7, 4, 1])
    padding = padding_mask(lengths)  # (B, 1, S)
    real = padding[:, 0] if masked == "padding" else torch.ones(BATCH, SOURCE, dtype=torch.bool)
    x_ours, x_theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    if masked == "causal":
        got = ours(x_ours, is_causal=True)
        want = theirs(x_theirs, src_mask=~causal_mask(SOURCE))
    else:
        got = ours(x_ours, mask=padding if masked == "padding" else None)
        want = theirs(x_theirs, src_key_padding_mask=~real)
    weight = torch.randn_like(got) * real[..., None]
    assert_close(got[real], want[real], atol=1e-5, rtol=1e-5)
    (got * weight).sum().backward()
    (want * weight).sum().backward()
    assert_close(x_ours.grad, x_theirs.grad, atol=1e-5, rtol=1e-4)
    assert_same_gradients(ours, theirs)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("wiring", [PreNorm, PostNorm])
def test_decoder_block_matches_torch(wiring, activation):
    ours, theirs = decoder_pair(wiring, activation)
    x, memory = torch.randn(BATCH, TARGET, D_MODEL), torch.randn(BATCH, SOURCE, D_MODEL)
    inputs = [(x.clone().requires_grad_(), memory.clone().requires_grad_()) for _ in range(2)]
    padding = padding_mask(torch.tensor([7, 4, 1]))
    got = ours(*inputs[0], memory_mask=padding, is_causal=True)
    want = theirs(*inputs[1], tgt_mask=~causal_mask(TARGET), memory_key_padding_mask=~padding[:, 0])
    weight = torch.randn_like(got)
    assert_close(got, want, atol=1e-5, rtol=1e-5)
    (got * weight).sum().backward()
    (want * weight).sum().backward()
    for mine, yours in zip(*inputs, strict=True):
        assert_close(mine.grad, yours.grad, atol=1e-5, rtol=1e-4)
    assert_same_gradients(ours, theirs)


def test_blocks_show_what_they_attended_to():
    encoder, _ = encoder_pair(PreNorm, "relu")
    decoder, _ = decoder_pair(PostNorm, "relu")
    x, memory = torch.randn(BATCH, TARGET, D_MODEL), torch.randn(BATCH, SOURCE, D_MODEL)
    with attention_weights(encoder) as seen:
        out = encoder(x)
    assert_close(out, encoder(x), atol=1e-6, rtol=1e-5)
    assert {name: tuple(weights.shape) for name, weights in seen.items()} == {"mixer": (BATCH, HEADS, TARGET, TARGET)}
    with attention_weights(decoder) as seen:
        out = decoder(x, memory, is_causal=True)
    assert_close(out, decoder(x, memory, is_causal=True), atol=1e-6, rtol=1e-5)
    assert seen["mixer"].triu(1).count_nonzero() == 0
    assert seen["cross"].shape == (BATCH, HEADS, TARGET, SOURCE)


def test_pre_norm_keeps_the_stream_and_post_norm_normalises_it():
    x, out = 10 * torch.randn(2, 3, D_MODEL), torch.randn(2, 3, D_MODEL)
    pre, post = PreNorm(D_MODEL), PostNorm(D_MODEL)
    assert_close(pre.join(x, out), x + out)
    assert_close(pre.enter(x), F.layer_norm(x, (D_MODEL,)))
    assert_close(post.enter(x), x)
    assert_close(post.join(x, out), F.layer_norm(x + out, (D_MODEL,)))
    assert isinstance(WIRINGS["pre_norm"].final_norm(D_MODEL), nn.LayerNorm)
    assert isinstance(WIRINGS["post_norm"].final_norm(D_MODEL), nn.Identity)


def test_block_drops_only_in_training():
    block, _ = encoder_pair(PreNorm, "relu", dropout=0.5)
    x = torch.randn(BATCH, TARGET, D_MODEL)
    assert (block(x) - block(x)).abs().max() > 0
    block.eval()
    assert torch.equal(block(x), block(x))


def test_block_takes_an_empty_batch():
    block, _ = encoder_pair(PostNorm, "relu")
    assert block(torch.zeros(0, TARGET, D_MODEL)).shape == (0, TARGET, D_MODEL)


def test_block_refuses_torch_weights_for_another_mixer():
    layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, batch_first=True)
    with pytest.raises(TypeError, match="mixes with Identity"):
        load(Block(nn.Identity(), FeedForward(D_MODEL, D_FF), partial(PreNorm, D_MODEL)), layer)
