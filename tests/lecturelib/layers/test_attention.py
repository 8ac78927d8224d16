"""Attention against hand loops, against torch.nn, and at its edges. Dimensions are pairwise distinct."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lecturelib.layers.additive import AdditiveAttention
from lecturelib.layers.attention import MultiHeadAttention, dot_product_attention, masked_softmax
from lecturelib.layers.masks import causal_mask, padding_mask
from lecturelib.models import load

B, H, TQ, TK, DK, DV = 2, 3, 5, 7, 4, 6
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def qkv(dtype=torch.float32):
    return (
        draw(B, H, TQ, DK, seed=1, dtype=dtype),
        draw(B, H, TK, DK, seed=2, dtype=dtype),
        draw(B, H, TK, DV, seed=3, dtype=dtype),
    )


def some_mask(empty_row=None):
    mask = draw(B, 1, TQ, TK, seed=4) > -0.3
    mask[..., 0] = True
    if empty_row is not None:
        mask[:, :, empty_row] = False
    return mask


def by_hand(query, key, value, allowed, scale):
    """One query at a time, with Python's own exponential; allowed(i, j) says whether query i may see key j."""
    rows = []
    for i, q in enumerate(query):
        scores = [float(q @ k) * scale for k in key]
        raised = [math.exp(s) if allowed(i, j) else 0.0 for j, s in enumerate(scores)]
        total = sum(raised)
        weights = [r / total if total else 0.0 for r in raised]
        rows.append(sum(w * v for w, v in zip(weights, value, strict=True)))
    return torch.stack(rows)


# dot_product_attention ------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 5), st.integers(1, 5)),
    scale=st.one_of(st.none(), st.floats(-2, 2)),
    seed=st.integers(0, 2**31),
    need_weights=st.booleans(),
)
def test_dot_product_attention_matches_hand_loop(sizes, scale, seed, need_weights):
    num_queries, num_keys, key_width, value_width = sizes
    query, key = draw(num_queries, key_width, seed=seed), draw(num_keys, key_width, seed=seed + 1)
    value = draw(num_keys, value_width, seed=seed + 2)
    mask = draw(num_queries, num_keys, seed=seed + 3) > 0  # often with rows that allow nothing
    got = dot_product_attention(query, key, value, mask, scale=scale, need_weights=need_weights)
    got = got[0] if need_weights else got
    want = by_hand(query, key, value, lambda i, j: mask[i, j], 1 / math.sqrt(key_width) if scale is None else scale)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", [None, some_mask(), some_mask(empty_row=2), draw(H, TQ, TK, seed=5)])
def test_dot_product_attention_fast_path_equals_weights_path(mask):
    fast, slow = qkv(torch.float64), qkv(torch.float64)
    mask = mask.double() if mask is not None and mask.is_floating_point() else mask
    for tensor in (*fast, *slow):
        tensor.requires_grad_()
    out = dot_product_attention(*fast, mask)
    expected, weights = dot_product_attention(*slow, mask, need_weights=True)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(out, weights @ slow[2])
    direction = draw(*out.shape, seed=6, dtype=torch.float64)
    out.backward(direction)
    expected.backward(direction)
    for ours, theirs in zip(fast, slow, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_dot_product_attention_weights_are_rows_of_probabilities_over_allowed_keys():
    mask = some_mask(empty_row=1)
    _, weights = dot_product_attention(*qkv(), mask, need_weights=True)
    assert weights.shape == (B, H, TQ, TK)
    assert (weights[~mask.expand_as(weights)] == 0).all()
    rows = weights.sum(dim=-1)
    torch.testing.assert_close(rows, mask.any(dim=-1).expand_as(rows).float())


@pytest.mark.parametrize("as_bias", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_dot_product_attention_gives_zeros_and_finite_gradients_for_rows_with_nothing_to_attend(as_bias, need_weights):
    query, key, value = (tensor.requires_grad_() for tensor in qkv())
    mask = some_mask(empty_row=3)
    if as_bias:
        mask = torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    out = dot_product_attention(query, key, value, mask, need_weights=need_weights)
    out = out[0] if need_weights else out
    assert (out[:, :, 3] == 0).all()
    assert out.isfinite().all()
    out.square().sum().backward()
    for tensor in (query, key, value):
        assert tensor.grad.isfinite().all()
    assert (query.grad[:, :, 3] == 0).all()
    assert (query.grad[:, :, 0] != 0).any()


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("bias", [None, "bool", "float"])
def test_dot_product_attention_is_causal(bias, need_weights):
    query, key, value = draw(B, TQ, DK, seed=1), draw(B, TQ, DK, seed=2), draw(B, TQ, DV, seed=3)
    masks = {None: None, "bool": draw(B, TQ, TQ, seed=4) > -0.5, "float": draw(TQ, TQ, seed=4)}
    run = lambda k, v: dot_product_attention(query, k, v, masks[bias], is_causal=True, need_weights=True)[0]  # noqa: E731
    if not need_weights:
        run = lambda k, v: dot_product_attention(query, k, v, masks[bias], is_causal=True)  # noqa: E731
    before = run(key, value)
    later_key, later_value = key.clone(), value.clone()
    later_key[:, 3:], later_value[:, 3:] = 9.0, -9.0
    after = run(later_key, later_value)
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 4], after[:, 4])
    explicit = causal_mask(TQ)
    if bias == "bool":
        explicit = explicit & masks["bool"]
    if bias == "float":
        explicit = masks["float"].masked_fill(~explicit, -math.inf)
    torch.testing.assert_close(before, dot_product_attention(query, key, value, explicit), **CLOSE)


def test_dot_product_attention_scale_is_one_over_root_width_unless_given():
    query, key, value = qkv()
    torch.testing.assert_close(
        dot_product_attention(query, key, value), dot_product_attention(query, key, value, scale=DK**-0.5)
    )
    _, weights = dot_product_attention(query, key, value, scale=0.0, need_weights=True)
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / TK))


def test_dot_product_attention_float_mask_is_added_to_the_scores():
    query, key, value = qkv()
    bias = draw(H, TQ, TK, seed=9)
    scores = query @ key.mT / math.sqrt(DK) + bias
    torch.testing.assert_close(dot_product_attention(query, key, value, bias), scores.softmax(-1) @ value, **CLOSE)


@pytest.mark.parametrize("need_weights", [False, True])
def test_dot_product_attention_broadcasts_batch_dimensions(need_weights):
    query, key, value = draw(B, 1, TQ, DK, seed=1), draw(1, H, TK, DK, seed=2), draw(H, TK, DV, seed=3)
    got = dot_product_attention(query, key, value, need_weights=need_weights)
    got = got[0] if need_weights else got
    want = dot_product_attention(query.expand(B, H, -1, -1), key.expand(B, H, -1, -1), value.expand(B, H, -1, -1))
    torch.testing.assert_close(got, want, **CLOSE)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, TQ, TK), (B, 0, TK), (B, TQ, 0), (B, 0, 0), (0, 0, 0)])
@pytest.mark.parametrize("masked", [False, True])
def test_dot_product_attention_handles_empty_inputs(batch, queries, keys, masked, need_weights):
    query = draw(batch, queries, DK).requires_grad_()
    key, value = draw(batch, keys, DK).requires_grad_(), draw(batch, keys, DV).requires_grad_()
    mask = torch.ones(queries, keys, dtype=torch.bool) if masked else None
    out = dot_product_attention(query, key, value, mask, need_weights=need_weights)
    if need_weights:
        out, weights = out
        assert weights.shape == (batch, queries, keys)
    assert torch.equal(out, torch.zeros(batch, queries, DV)) or keys > 0
    assert out.shape == (batch, queries, DV)
    out.sum().backward()
    assert query.grad is None or query.grad.isfinite().all()


@pytest.mark.parametrize("need_weights", [False, True])
def test_dot_product_attention_handles_an_empty_causal_sequence(need_weights):
    empty = torch.zeros(B, 0, DK)
    mask = torch.ones(0, 0, dtype=torch.bool)
    out = dot_product_attention(empty, empty, empty, mask, is_causal=True, need_weights=need_weights)
    assert (out[0] if need_weights else out).shape == (B, 0, DK)


def test_dot_product_attention_dropout_keeps_the_expectation_and_reports_weights_before_it():
    torch.manual_seed(0)
    query, key, value = draw(4000, 2, DK), draw(1, TK, DK, seed=2), draw(1, TK, DV, seed=3)
    query = query[:1].expand(4000, -1, -1)
    kept = dot_product_attention(query, key, value)
    for need_weights in (False, True):
        out = dot_product_attention(
            query, key.expand(4000, -1, -1), value.expand(4000, -1, -1), dropout=0.4, need_weights=need_weights
        )
        if need_weights:
            out, weights = out
            torch.testing.assert_close(weights.sum(-1), torch.ones(4000, 2))
        assert not torch.allclose(out, kept)
        torch.testing.assert_close(out.mean(0), kept[0], rtol=0, atol=0.08)


@pytest.mark.parametrize(
    ("shapes", "mask", "words"),
    [
        (((5, 4), (7, 3), (7, 6)), None, r"same width.*query \(5, 4\), key \(7, 3\)"),
        (((5, 4), (7, 4), (8, 6)), None, r"one value for each key.*key \(7, 4\), value \(8, 6\)"),
        (((4,), (7, 4), (7, 6)), None, r"at least \(length, width\).*query \(4,\)"),
        (((5, 4), (7, 4), (7, 6)), torch.ones(5, 6, dtype=torch.bool), r"mask of shape \(5, 6\).*\(5, 7\)"),
        (((5, 4), (7, 4), (7, 6)), torch.ones(2, 5, 7, dtype=torch.bool), r"mask of shape \(2, 5, 7\).*\(5, 7\)"),
        (((5, 4), (7, 4), (7, 6)), torch.ones(5, 7, dtype=torch.long), r"torch\.int64.*mask\.bool\(\)"),
        (((2, 5, 4), (3, 7, 4), (3, 7, 6)), None, r"batch.*query \(2, 5, 4\), key \(3, 7, 4\)"),
    ],
)
def test_dot_product_attention_names_the_shapes_it_refuses(shapes, mask, words):
    query, key, value = (torch.zeros(shape) for shape in shapes)
    with pytest.raises(ValueError, match=words):
        dot_product_attention(query, key, value, mask)


def test_dot_product_attention_says_what_to_do_about_causal_with_a_cache():
    with pytest.raises(ValueError, match=r"got 5 and 7; .*causal_mask\(query_len, key_len\)"):
        dot_product_attention(*(tensor[0] for tensor in qkv()), is_causal=True)


# masked_softmax -------------------------------------------------------------------------------------------------


def test_masked_softmax_equals_softmax_over_the_allowed_entries():
    scores, mask = draw(TQ, TK), draw(TQ, TK, seed=1) > 0
    got = masked_softmax(scores, mask)
    for row, allowed, weights in zip(scores, mask, got, strict=True):
        torch.testing.assert_close(weights[allowed], row[allowed].softmax(-1))
        assert (weights[~allowed] == 0).all()


def test_masked_softmax_survives_huge_scores_that_defeat_a_finite_fill():
    """-1e9 in place of -inf lets a hidden key through when the allowed scores lie below -1e9 themselves."""
    scores = torch.tensor([[-3e9, -3e9, 0.0]])
    mask = torch.tensor([[True, True, False]])
    assert masked_softmax(scores, mask).tolist() == [[0.5, 0.5, 0.0]]
    assert scores.masked_fill(~mask, -1e9).softmax(-1).tolist() == [[0.0, 0.0, 1.0]]


# AdditiveAttention ----------------------------------------------------------------------------------------------


def test_additive_attention_matches_hand_loop():
    query_dim, key_dim, hidden_dim = 3, 4, 8
    layer = AdditiveAttention(query_dim, key_dim, hidden_dim)
    query, key, value = draw(B, TQ, query_dim, seed=1), draw(B, TK, key_dim, seed=2), draw(B, TK, DV, seed=3)
    mask = some_mask(empty_row=4)[:, 0]
    out, weights = layer(query, key, value, mask)
    w_q, w_k, w = layer.query_proj.weight, layer.key_proj.weight, layer.score.weight[0]
    for b in range(B):
        for i in range(TQ):
            scores = torch.stack([w @ torch.tanh(w_q @ query[b, i] + w_k @ key[b, j]) for j in range(TK)])
            allowed = mask[b, i]
            want = torch.zeros(TK)
            want[allowed] = scores[allowed].softmax(-1)
            torch.testing.assert_close(weights[b, i], want, **CLOSE)
            torch.testing.assert_close(out[b, i], want @ value[b], **CLOSE)
    assert (out[:, 4] == 0).all()


def test_additive_attention_gives_the_same_with_keys_projected_once():
    layer = AdditiveAttention(3, 4, 8)
    query, key, value = draw(B, TQ, 3, seed=1), draw(B, TK, 4, seed=2), draw(B, TK, DV, seed=3)
    whole, _ = layer(query, key, value)
    projected = layer.key_proj(key)
    steps = [layer.attend(query[:, i : i + 1], projected, value)[0] for i in range(TQ)]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)


def test_additive_attention_trains_every_parameter():
    layer = AdditiveAttention(3, 4, 8)
    out, _ = layer(draw(B, TQ, 3), draw(B, TK, 4), draw(B, TK, DV))
    out.square().sum().backward()
    assert all((p.grad != 0).any() for p in layer.parameters())


# MultiHeadAttention ---------------------------------------------------------------------------------------------

D, HEADS = 12, 3


def torch_pair(kv_dim=None, bias=True):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(D, HEADS, batch_first=True, kdim=kv_dim, vdim=kv_dim, bias=bias)
    for parameter in theirs.parameters():  # torch starts its biases at zero, where a lost bias would not show
        nn.init.normal_(parameter, std=0.4)
    ours = load(MultiHeadAttention(D, HEADS, kv_dim=kv_dim, bias=bias), theirs)
    return ours.double(), theirs.double()  # in double precision, so that a small mistake cannot hide in rounding


def grads_like_torch(module):
    """Gradients under torch's names, whichever way they are stored here."""
    weights = [p.weight.grad for p in (module.query_proj, module.key_proj, module.value_proj)]
    return weights, module.out_proj.weight.grad


def assert_same_gradients(ours, theirs):
    weights, out_weight = grads_like_torch(ours)
    if theirs.in_proj_weight is not None:
        expected = theirs.in_proj_weight.grad.chunk(3)
    else:
        expected = (theirs.q_proj_weight.grad, theirs.k_proj_weight.grad, theirs.v_proj_weight.grad)
    for got, want in zip(weights, expected, strict=True):
        torch.testing.assert_close(got, want)
    torch.testing.assert_close(out_weight, theirs.out_proj.weight.grad)
    if theirs.in_proj_bias is not None:
        biases = [p.bias.grad for p in (ours.query_proj, ours.key_proj, ours.value_proj)]
        torch.testing.assert_close(torch.cat(biases), theirs.in_proj_bias.grad)
        torch.testing.assert_close(ours.out_proj.bias.grad, theirs.out_proj.bias.grad)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention_matches_torch_in_cross_attention_with_padding(bias, need_weights):
    ours, theirs = torch_pair(kv_dim=10, bias=bias)
    x, memory = draw(B, TQ, D, seed=1, dtype=torch.float64), draw(B, TK, 10, seed=2, dtype=torch.float64)
    x_ours, x_theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    m_ours, m_theirs = memory.clone().requires_grad_(), memory.clone().requires_grad_()
    allowed = padding_mask(torch.tensor([7, 4]))
    got = ours(x_ours, m_ours, mask=allowed, need_weights=need_weights)
    want, want_weights = theirs(
        x_theirs, m_theirs, m_theirs, key_padding_mask=~allowed[:, 0], average_attn_weights=False
    )
    if need_weights:
        got, weights = got
        torch.testing.assert_close(weights, want_weights)
    torch.testing.assert_close(got, want)
    direction = draw(*got.shape, seed=3, dtype=torch.float64)
    got.backward(direction)
    want.backward(direction)
    torch.testing.assert_close(x_ours.grad, x_theirs.grad)
    torch.testing.assert_close(m_ours.grad, m_theirs.grad)
    assert_same_gradients(ours, theirs)


@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention_matches_torch_with_causal_and_padding_masks(need_weights):
    ours, theirs = torch_pair()
    x = draw(B, TQ, D, seed=1, dtype=torch.float64)
    x_ours, x_theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    allowed = padding_mask(torch.tensor([5, 2]))
    got = ours(x_ours, mask=allowed, is_causal=True, need_weights=need_weights)
    got = got[0] if need_weights else got
    want, _ = theirs(x_theirs, x_theirs, x_theirs, attn_mask=~causal_mask(TQ), key_padding_mask=~allowed[:, 0])
    torch.testing.assert_close(got, want)
    direction = draw(*got.shape, seed=3, dtype=torch.float64)
    got.backward(direction)
    want.backward(direction)
    torch.testing.assert_close(x_ours.grad, x_theirs.grad)
    assert_same_gradients(ours, theirs)


def test_multi_head_attention_ignores_padding():
    layer = MultiHeadAttention(D, HEADS).eval()
    x = draw(B, TQ, D)
    allowed = padding_mask(torch.tensor([3, 5]))
    spoiled = x.clone()
    spoiled[0, 3:] = 1e4
    before, after = layer(x, mask=allowed), layer(spoiled, mask=allowed)
    torch.testing.assert_close(before[0, :3], after[0, :3])
    torch.testing.assert_close(before[1], after[1])
    torch.testing.assert_close(before[:1, :3], layer(x[:1, :3]), **CLOSE)


def test_multi_head_attention_rows_with_nothing_to_attend_give_the_output_bias():
    layer = MultiHeadAttention(D, HEADS)
    x = draw(B, TQ, D).requires_grad_()
    for need_weights in (False, True):
        out = layer(x, mask=padding_mask(torch.tensor([5, 0])), need_weights=need_weights)
        out = out[0] if need_weights else out
        torch.testing.assert_close(out[1], layer.out_proj.bias.expand(TQ, D))
        (grad,) = torch.autograd.grad(out.square().sum(), x)
        assert grad.isfinite().all()
        assert (grad[1] == 0).all()


def test_multi_head_attention_takes_a_mask_for_each_head():
    layer = MultiHeadAttention(D, HEADS)
    mask = torch.ones(B, HEADS, TQ, TQ, dtype=torch.bool)
    mask[:, 1] = torch.eye(TQ, dtype=torch.bool)
    _, weights = layer(draw(B, TQ, D), mask=mask, need_weights=True)
    torch.testing.assert_close(weights[:, 1], torch.eye(TQ).expand(B, -1, -1))
    assert (weights[:, 0] > 0).all()


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 6, 12])
def test_multi_head_attention_has_the_same_parameter_count_for_every_number_of_heads(num_heads):
    layer = MultiHeadAttention(D, num_heads)
    assert sum(p.numel() for p in layer.parameters()) == 4 * D * D + 4 * D


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(TQ)))
def test_multi_head_attention_is_permutation_equivariant(order):
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(D, HEADS), draw(B, TQ, D)
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order], **CLOSE)
    memory = draw(B, TQ, D, seed=1)
    torch.testing.assert_close(layer(x, memory[:, order]), layer(x, memory), **CLOSE)


def test_multi_head_attention_drops_weights_in_training_only():
    layer, x = MultiHeadAttention(D, HEADS, dropout=0.5), draw(B, TQ, D)
    assert not torch.allclose(layer(x), layer(x))
    layer.eval()
    torch.testing.assert_close(layer(x), layer(x), rtol=0, atol=0)


@pytest.mark.parametrize("batch_and_length", [(0, TQ), (B, 0), (0, 0)])
def test_multi_head_attention_handles_empty_inputs(batch_and_length):
    layer = MultiHeadAttention(D, HEADS)
    x = draw(*batch_and_length, D).requires_grad_()
    for causal in (False, True):
        assert layer(x, is_causal=causal).shape == x.shape
    out, weights = layer(x, need_weights=True)
    assert weights.shape == (batch_and_length[0], HEADS, batch_and_length[1], batch_and_length[1])
    out.sum().backward()


def test_multi_head_attention_with_an_empty_memory_gives_the_output_bias():
    layer = MultiHeadAttention(D, HEADS, kv_dim=10)
    out = layer(draw(B, TQ, D), torch.zeros(B, 0, 10))
    torch.testing.assert_close(out, layer.out_proj.bias.expand(B, TQ, D))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: MultiHeadAttention(12, 5), r"d_model=12 and num_heads=5"),
        (lambda: MultiHeadAttention(12, 0), r"num_heads=0"),
        (lambda: MultiHeadAttention(0, 1), r"d_model=0"),
        (lambda: MultiHeadAttention(12, 3, dropout=1.0), r"dropout must be in \[0, 1\), got 1\.0"),
        (
            lambda: MultiHeadAttention(12, 3)(torch.zeros(2, 5, 10)),
            r"query must be \(batch, length, 12\), got \(2, 5, 10\)",
        ),
        (lambda: MultiHeadAttention(12, 3)(torch.zeros(5, 12)), r"query must be \(batch, length, 12\), got \(5, 12\)"),
        (
            lambda: MultiHeadAttention(12, 3, kv_dim=10)(torch.zeros(2, 5, 12), torch.zeros(2, 7, 12)),
            r"key must be \(batch, length, 10\), got \(2, 7, 12\)",
        ),
        (
            lambda: MultiHeadAttention(12, 3)(torch.zeros(2, 5, 12), mask=torch.ones(3, 5, 5, dtype=torch.bool)),
            r"mask of shape \(3, 1, 5, 5\)",
        ),
        (
            lambda: MultiHeadAttention(12, 3)(torch.zeros(2, 5, 12), torch.zeros(3, 7, 12)),
            r"batch.*query \(2, .*key \(3, ",
        ),
    ],
)
def test_multi_head_attention_says_what_is_wrong(build, words):
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize(
    ("theirs", "ours", "words"),
    [
        ({"bias": False}, {}, "one module has biases"),
        ({"add_bias_kv": True}, {}, "add_bias_kv"),
        ({"kdim": 10, "vdim": 10}, {}, r"k_proj_weight has shape \(12, 10\), needed \(12, 12\)"),
        ({"heads": 4}, {}, r"num_heads"),
    ],
)
def test_multi_head_attention_refuses_torch_weights_that_do_not_fit(theirs, ours, words):
    theirs = dict(theirs)
    module = nn.MultiheadAttention(D, theirs.pop("heads", HEADS), **theirs)
    target = MultiHeadAttention(D, HEADS, **ours)
    before = copy.deepcopy(target.state_dict())
    with pytest.raises(ValueError, match=words):
        load(target, module)
    for name, tensor in target.state_dict().items():
        assert torch.equal(tensor, before[name]), f"{name} changed although the load was refused"


# Precision, compiler, devices -----------------------------------------------------------------------------------


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("bias_dtype", [None, torch.bool, torch.float32])
def test_multi_head_attention_runs_under_bf16_autocast(bias_dtype, need_weights):
    layer = MultiHeadAttention(D, HEADS)
    x = draw(B, TQ, D)
    mask = None if bias_dtype is None else causal_mask(TQ)
    if bias_dtype == torch.float32:
        mask = torch.zeros(TQ, TQ).masked_fill(~mask, -math.inf)
    exact = layer(x, mask=mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(x, mask=mask, need_weights=need_weights)
    out = out[0] if need_weights else out
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), exact, rtol=0.05, atol=0.03)
    out.float().sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("need_weights", [False, True])
def test_dot_product_attention_takes_a_float32_bias_with_half_precision_queries(need_weights):
    query, key, value = qkv()
    bias = draw(H, TQ, TK, seed=9)
    exact = dot_product_attention(query, key, value, bias)
    out = dot_product_attention(query.bfloat16(), key.bfloat16(), value.bfloat16(), bias, need_weights=need_weights)
    out = out[0] if need_weights else out
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), exact, rtol=0.05, atol=0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("default::DeprecationWarning")  # the compiler's own imports
def test_multi_head_attention_compiles_into_one_graph():
    layer = MultiHeadAttention(D, HEADS)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x, allowed = draw(B, TQ, D), padding_mask(torch.tensor([5, 2]))
    torch.testing.assert_close(compiled(x, mask=allowed, is_causal=True), layer(x, mask=allowed, is_causal=True))
    for got, want in zip(compiled(x, need_weights=True), layer(x, need_weights=True), strict=True):
        torch.testing.assert_close(got, want)


def accelerators():
    found = [name for name, module in (("cuda", torch.cuda), ("mps", torch.backends.mps)) if module.is_available()]
    missing = pytest.param("none", marks=pytest.mark.skip(reason="no cuda or mps on this machine"))
    return found or [missing]


@pytest.mark.accelerator
@pytest.mark.parametrize("device", accelerators())
@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention_on_an_accelerator_equals_cpu(device, need_weights):
    layer, x = MultiHeadAttention(D, HEADS), draw(B, TQ, D)
    mask = padding_mask(torch.tensor([5, 0]))
    expected = layer(x, mask=mask, is_causal=True)
    moved = copy.deepcopy(layer).to(device)
    out = moved(x.to(device), mask=mask.to(device), is_causal=True, need_weights=need_weights)
    out = out[0] if need_weights else out
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-3, atol=1e-4)
    out.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in moved.parameters())
