"""The mixers against the libraries that have them: same weights, same outputs, same gradients."""

import warnings

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lecturelib.layers import (
    BigBird,
    Linformer,
    Performer,
    Reformer,
    causal_linear_attention,
    linear_attention,
    orthogonal_features,
    padding_mask,
    random_features,
)

B, T, D, H = 2, 24, 12, 3
CLOSE = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture(scope="module")
def performer_pytorch():
    """It asks distutils, which Python has given up, for torch's version, and that warns once, on import."""
    pytest.importorskip("local_attention")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return pytest.importorskip("performer_pytorch.performer_pytorch")


def identity(layer):
    """Let a layer end in its heads, side by side, as its peer does."""
    nn.init.eye_(layer.out_proj.weight)
    if layer.out_proj.bias is not None:
        nn.init.zeros_(layer.out_proj.bias)
    return layer


def assert_same(ours, theirs, x):
    """Equal outputs and equal gradients by the input."""
    grads = []
    for model in (ours, theirs):
        given = x.clone().requires_grad_()
        out = model(given)
        (out * torch.arange(out.numel()).view_as(out).sin()).sum().backward()
        grads.append((out, given.grad))
    assert_close(grads[0], grads[1], **CLOSE)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("hashes", [1, 3])
def test_reformer_matches_transformers(causal, hashes):
    reformer = pytest.importorskip("transformers.models.reformer.modeling_reformer")
    config = reformer.ReformerConfig(
        hidden_size=D,
        num_attention_heads=H,
        attention_head_size=D // H,
        lsh_attn_chunk_length=4,
        lsh_attention_probs_dropout_prob=0.0,
        num_buckets=6,
        num_hashes=hashes,
        hash_seed=5,
        is_decoder=causal,
    )
    # In float32 theirs loses the third digit where a token is alone in every round: it takes log 3 from 100,000.
    theirs = reformer.LSHSelfAttention(config).eval().double()
    ours = identity(Reformer(D, H, num_buckets=6, chunk=4, num_hashes=hashes)).double()
    ours.query_proj.load_state_dict(theirs.query_key.state_dict())
    ours.value_proj.load_state_dict(theirs.value.state_dict())
    torch.manual_seed(5)
    ours.rotations.copy_(torch.randn(H, D // H, hashes, 3, dtype=torch.float64))

    def merged(x):
        return theirs(x).hidden_states

    assert_same(lambda x: ours(x, is_causal=causal), merged, torch.randn(B, T, D, dtype=torch.float64))


def test_reformer_ignores_padding_as_transformers_does():
    reformer = pytest.importorskip("transformers.models.reformer.modeling_reformer")
    sizes = {"hidden_size": D, "num_attention_heads": H, "attention_head_size": D // H, "lsh_attn_chunk_length": 4}
    theirs = reformer.LSHSelfAttention(
        reformer.ReformerConfig(
            **sizes, lsh_attention_probs_dropout_prob=0.0, num_buckets=6, num_hashes=2, hash_seed=5, is_decoder=False
        )
    )
    ours = identity(Reformer(D, H, num_buckets=6, chunk=4, num_hashes=2))
    ours.query_proj.load_state_dict(theirs.query_key.state_dict())
    ours.value_proj.load_state_dict(theirs.value.state_dict())
    torch.manual_seed(5)
    ours.rotations.copy_(torch.randn(H, D // H, 2, 3))
    x, mask = torch.randn(B, T, D), padding_mask(torch.tensor([T, 17]), T)
    got, want = ours(x, mask=mask), theirs.eval()(x, attention_mask=mask[:, 0]).hidden_states
    assert_close(got[0], want[0], **CLOSE)
    assert_close(got[1, :17], want[1, :17], **CLOSE)


def test_big_bird_matches_transformers():
    big_bird = pytest.importorskip("transformers.models.big_bird.modeling_big_bird")
    config = big_bird.BigBirdConfig(
        hidden_size=D, num_attention_heads=H, block_size=2, num_random_blocks=2, max_position_embeddings=T
    )
    theirs = big_bird.BigBirdBlockSparseAttention(config, seed=0)
    ours = identity(BigBird(D, H, max_len=T, block=2, num_random=2))
    for mine, yours in (("query_proj", "query"), ("key_proj", "key"), ("value_proj", "value")):
        getattr(ours, mine).load_state_dict(getattr(theirs, yours).state_dict())
    chosen, counts = ours.links(T)
    assert counts[..., 5:].all()
    theirs._bigbird_block_rand_mask_with_head = lambda **_: [*chosen[..., 5:].numpy()]
    real = torch.ones(B, T)
    real[1, 15:] = 0.0
    blocked, band, rows, columns = big_bird.BigBirdModel.create_masks_for_block_sparse_attn(real, 2)

    def sparse(x):
        return theirs(x, band, rows, columns, blocked, blocked)[0] * real[..., None]

    mask = real[:, None].bool()
    assert_same(lambda x: ours(x, mask=mask) * real[..., None], sparse, torch.randn(B, T, D))


def test_linformer_matches_the_linformer_package():
    peer = pytest.importorskip("linformer.linformer")
    theirs = peer.LinformerSelfAttention(D, seq_len=30, k=5, heads=H)
    ours = Linformer(D, H, max_len=30, k=5, bias=False)
    ours.out_proj = nn.Linear(D, D)
    for mine, yours in (("query_proj", "to_q"), ("key_proj", "to_k"), ("value_proj", "to_v"), ("out_proj", "to_out")):
        getattr(ours, mine).load_state_dict(getattr(theirs, yours).state_dict())
    ours.key_mixtures.data.copy_(theirs.proj_k)
    ours.value_mixtures.data.copy_(theirs.proj_v)
    assert_same(ours, theirs, torch.randn(B, T, D))
    assert_same(ours, theirs, torch.randn(B, 30, D))


def test_performer_matches_performer_pytorch(performer_pytorch):
    theirs = performer_pytorch.FastAttention(D // H, nb_features=7)
    ours = identity(Performer(D, H, num_features=7))
    ours.features.copy_(theirs.projection_matrix)

    def peer(x):
        q, k, v = ours.project(x, x, x)
        return theirs(q, k, v).transpose(1, 2).flatten(2)

    assert_same(ours, peer, torch.randn(B, T, D))


def test_causal_performer_matches_performer_pytorch(performer_pytorch):
    features = orthogonal_features(7, 4)
    q, k = (random_features(torch.randn(B, H, T, 4), features) for _ in range(2))
    v = torch.randn(B, H, T, 5)
    want = performer_pytorch.causal_linear_attention_noncuda(q, k, v, eps=0.0)
    assert_close(causal_linear_attention(q, k, v, block=5), want, **CLOSE)
    assert_close(linear_attention(q, k, v), performer_pytorch.linear_attention(q, k, v), **CLOSE)
