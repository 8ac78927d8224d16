"""Positions inside attention, against the reference implementations and against the papers' sums written as loops."""

import math

import pytest
import torch
from torch.testing import assert_close

from lecturelib.layers import ALiBi, MultiHeadAttention, RelativeBias, RelativePositions, RotaryPositions

BATCH, HEADS, LENGTH, HEAD_DIM = 2, 3, 7, 4
PARTS = {
    "rotary": lambda: RotaryPositions(HEAD_DIM),
    "alibi": lambda: ALiBi(HEADS),
    "t5": lambda: RelativeBias(HEADS, num_buckets=8, max_distance=20),
    "shaw": lambda: RelativePositions(HEAD_DIM, 3),
}


def test_rotary_positions_matches_roformer():
    roformer = pytest.importorskip("transformers.models.roformer.modeling_roformer")
    table = roformer.RoFormerSinusoidalPositionalEmbedding(LENGTH, HEAD_DIM)
    table.weight.data = table.create_weight()
    query, key = torch.randn(2, BATCH, HEADS, LENGTH, HEAD_DIM)
    want = roformer.RoFormerSelfAttention.apply_rotary_position_embeddings(
        table((BATCH, LENGTH))[None, None], query, key
    )
    rotary, where = RotaryPositions(HEAD_DIM), torch.arange(LENGTH)
    assert_close(rotary.turn(query, where), want[0], atol=1e-6, rtol=1e-5)
    assert_close(rotary.turn(key, where), want[1], atol=1e-6, rtol=1e-5)


def test_rotary_positions_matches_llama_up_to_the_order_of_features():
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    head_dim = 6
    config = llama.LlamaConfig(hidden_size=head_dim * HEADS, num_attention_heads=HEADS)
    query, key = torch.randn(2, BATCH, HEADS, LENGTH, head_dim)
    where = torch.arange(LENGTH)
    cos, sin = llama.LlamaRotaryEmbedding(config)(query, where[None])
    half = torch.arange(head_dim).view(2, head_dim // 2).T.flatten()  # our feature order -> theirs
    want_query, want_key = llama.apply_rotary_pos_emb(query, key, cos, sin)
    rotary = RotaryPositions(head_dim)
    assert_close(rotary.turn(query[..., half], where), want_query[..., half], atol=1e-5, rtol=1e-5)
    assert_close(rotary.turn(key[..., half], where), want_key[..., half], atol=1e-5, rtol=1e-5)


def test_rotary_positions_scores_depend_on_the_distance_only():
    rotary = RotaryPositions(HEAD_DIM)
    query, key = torch.randn(2, 1, 1, 1, HEAD_DIM)
    scores = [
        (rotary.turn(query, torch.tensor([5 + shift])) * rotary.turn(key, torch.tensor([2 + shift]))).sum()
        for shift in (0, 1, 30)
    ]
    assert_close(scores[1], scores[0])
    assert_close(scores[2], scores[0], atol=1e-5, rtol=1e-5)
    nearer = (rotary.turn(query, torch.tensor([5])) * rotary.turn(key, torch.tensor([3]))).sum()
    assert abs(nearer - scores[0]) > 1e-3


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (8, 20)])
def test_relative_bias_matches_t5(bidirectional, num_buckets, max_distance):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    config = t5.T5Config(
        d_model=HEADS * HEAD_DIM,
        d_kv=HEAD_DIM,
        num_heads=HEADS,
        relative_attention_num_buckets=num_buckets,
        relative_attention_max_distance=max_distance,
        is_decoder=not bidirectional,
    )
    theirs = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = RelativeBias(HEADS, num_buckets=num_buckets, max_distance=max_distance, bidirectional=bidirectional)
    ours.table.weight.data.copy_(theirs.relative_attention_bias.weight)
    assert_close(ours.bias(torch.arange(150), 150), theirs.compute_bias(150, 150)[0])
    offset = torch.arange(-200, 201)
    want = theirs._relative_position_bucket(offset, bidirectional, num_buckets, max_distance)
    assert torch.equal(ours.bucket(offset), want)


@pytest.mark.parametrize("num_heads", [1, 2, 6, 8, 12])
def test_alibi_matches_bloom_up_to_a_constant_in_each_row(num_heads):
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    theirs = bloom.build_alibi_tensor(torch.ones(1, LENGTH, dtype=torch.long), num_heads, torch.float32)  # (H, 1, T)
    ours = ALiBi(num_heads).bias(torch.arange(LENGTH), LENGTH)  # (H, T, T)
    row = LENGTH - 1  # the last query sees every key; a row's softmax ignores what all its scores share
    assert_close(ours[:, row] - ours[:, row, :1], theirs[:, 0] - theirs[:, 0, :1])
    assert_close(ours, ours.transpose(1, 2))


def shaw_by_the_book(part, query, key, value, mask):
    """Equations 1 to 4 of the paper, one pair of tokens at a time."""
    out = torch.zeros_like(query)
    reach = part.max_distance
    for b, h, i in torch.cartesian_prod(*(torch.arange(n) for n in query.shape[:3])).tolist():
        allowed = [j for j in range(key.shape[2]) if mask[i, j]]
        where = {j: max(-reach, min(reach, j - i)) + reach for j in allowed}
        scores = [query[b, h, i] @ (key[b, h, j] + part.key_table[where[j]]) / math.sqrt(HEAD_DIM) for j in allowed]
        if allowed:
            weights = torch.stack(scores).softmax(0)
            terms = [w * (value[b, h, j] + part.value_table[where[j]]) for w, j in zip(weights, allowed, strict=True)]
            out[b, h, i] = torch.stack(terms).sum(0)
    return out


def test_relative_positions_matches_the_sums_of_the_paper():
    attention = MultiHeadAttention(HEADS * HEAD_DIM, HEADS, positions=(part := RelativePositions(HEAD_DIM, 2)))
    query, key, value = torch.randn(3, BATCH, HEADS, LENGTH, HEAD_DIM)
    mask = torch.rand(LENGTH, LENGTH) < 0.6
    mask[3] = False
    got, _ = attention.attend(query, key, value, mask, is_causal=False, need_weights=False)
    want = shaw_by_the_book(part, query, key, value, mask)
    assert_close(got, want, atol=1e-6, rtol=1e-5)
    for table in (part.key_table, part.value_table):
        got_grad, want_grad = (torch.autograd.grad(x.square().sum(), table, retain_graph=True)[0] for x in (got, want))
        assert_close(got_grad, want_grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", PARTS)
def test_attention_with_positions_does_the_same_with_and_without_weights(name):
    attention = MultiHeadAttention(HEADS * HEAD_DIM, HEADS, positions=PARTS[name]())
    x = torch.randn(BATCH, LENGTH, HEADS * HEAD_DIM)
    mask = torch.ones(BATCH, 1, LENGTH, dtype=torch.bool)
    mask[0, :, 4:] = False
    out, weights = attention(x, mask=mask, is_causal=True, need_weights=True)
    assert_close(attention(x, mask=mask, is_causal=True), out, atol=1e-6, rtol=1e-5)
    assert weights.triu(1).count_nonzero() == 0
    assert weights[0, :, :, 4:].count_nonzero() == 0
    assert_close(weights.sum(-1), torch.ones(BATCH, HEADS, LENGTH))


@pytest.mark.parametrize("name", PARTS)
def test_attention_with_positions_tells_orders_apart(name):
    attention = MultiHeadAttention(HEADS * HEAD_DIM, HEADS, positions=PARTS[name]())
    x = torch.randn(BATCH, LENGTH, HEADS * HEAD_DIM)
    order = torch.randperm(LENGTH)
    assert (attention(x[:, order]) - attention(x)[:, order]).abs().max() > 1e-3
    plain = MultiHeadAttention(HEADS * HEAD_DIM, HEADS)
    assert_close(plain(x[:, order]), plain(x)[:, order], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", PARTS)
def test_attention_with_positions_puts_queries_last(name):
    attention = MultiHeadAttention(HEADS * HEAD_DIM, HEADS, positions=PARTS[name]())
    x = torch.randn(BATCH, LENGTH, HEADS * HEAD_DIM)
    assert_close(attention(x[:, 5:], x), attention(x)[:, 5:], atol=1e-6, rtol=1e-5)
    with pytest.raises(ValueError, match="7 queries and 5 keys"):
        attention(x, x[:, :5])


@pytest.mark.parametrize("name", PARTS)
def test_attention_with_positions_trains_every_parameter_under_autocast(name):
    attention = MultiHeadAttention(HEADS * HEAD_DIM, HEADS, positions=PARTS[name](), dropout=0.1)
    x = torch.randn(BATCH, LENGTH, HEADS * HEAD_DIM)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attention(x, is_causal=True)
    out.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in attention.parameters())
    assert attention.positions is not None
    assert all(p.grad.abs().sum() > 0 for p in attention.positions.parameters())


def test_attention_refuses_positions_that_belong_to_the_embeddings():
    with pytest.raises(TypeError, match="Embedding; sinusoidal and learned"):
        MultiHeadAttention(12, 3, positions=torch.nn.Embedding(5, 12))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RotaryPositions(5), "even.*5"),
        (lambda: RotaryPositions(4).turn(torch.zeros(1, 1, 2, 6), torch.arange(2)), "width 4, got 6"),
        (lambda: RelativeBias(2, num_buckets=2), "num_buckets=2"),
        (lambda: RelativePositions(4, -1), "-1"),
    ],
)
def test_attention_positions_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()
