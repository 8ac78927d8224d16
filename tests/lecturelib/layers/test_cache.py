"""The key-value cache: what goes in comes out, in its place, and never in another branch's."""

import pytest
import torch
from torch.testing import assert_close

from lecturelib.layers import KeyValueCache, MultiHeadAttention, causal_mask
from lecturelib.layers.cache import align_right

LAYERS, BATCH, HEADS, HEAD_DIM = 2, 3, 4, 5
CPU = torch.device("cpu")


def pairs(length, batch=BATCH):
    return [torch.randn(2, batch, HEADS, length, HEAD_DIM) for _ in range(LAYERS)]


def extend(cache, new):
    """The cache after `new`, and what each layer then holds."""
    cache = cache.extend(new[0].shape[3], new[0].shape[1])
    return cache, [torch.stack(cache[layer].append(*pair)) for layer, pair in enumerate(new)]


def test_cache_returns_all_that_was_appended():
    cache, want = KeyValueCache(), None
    for length in (4, 1, 6, 1):
        new = pairs(length)
        want = new if want is None else [torch.cat(both, dim=3) for both in zip(want, new, strict=True)]
        cache, held = extend(cache, new)
        assert all(torch.equal(a, b) for a, b in zip(held, want, strict=True))
    assert cache.length == 12


def test_cache_stays_as_it_was_when_others_go_on_from_it():
    cache, held = extend(KeyValueCache(absent=torch.tensor([1, 0, 2])), pairs(3))
    before = [pair.clone() for pair in held]
    first, in_first = extend(cache, first_new := pairs(1))
    _, in_second = extend(cache, second_new := pairs(1))
    for layer in range(LAYERS):
        assert torch.equal(in_first[layer], torch.cat((before[layer], first_new[layer]), dim=3))
        assert torch.equal(in_second[layer], torch.cat((before[layer], second_new[layer]), dim=3))
        assert torch.equal(torch.stack(cache.entries[str(layer)]), before[layer])
        assert torch.equal(torch.stack(first.entries[str(layer)]), in_first[layer])


def test_cache_selects_rows():
    cache, held = extend(KeyValueCache(absent=torch.tensor([1, 0, 2])), pairs(3))
    index = torch.tensor([2, 2, 0, 1])
    new = pairs(1, batch=4)
    chosen, after = extend(cache.select(index), new)
    for before, now, pair in zip(held, after, new, strict=True):
        assert torch.equal(now, torch.cat((before[:, index], pair), dim=3))
    assert chosen.absent.tolist() == [2, 2, 1, 0]


def test_cache_rows_of_different_lengths_end_together():
    prompt = torch.arange(12).view(3, 4)
    moved, absent = align_right(prompt, torch.tensor([1, 4, 2]))
    assert absent.tolist() == [3, 0, 2]
    assert [row[a:].tolist() for row, a in zip(moved, absent, strict=True)] == [[0], [4, 5, 6, 7], [8, 9]]
    cache, _ = extend(KeyValueCache(absent=absent), pairs(4))
    assert cache.positions(CPU).tolist() == [[0, 0, 0, 0], [0, 1, 2, 3], [0, 0, 0, 1]]
    cache, _ = extend(cache, pairs(2))
    assert cache.positions(CPU).tolist() == [[1, 2], [4, 5], [2, 3]]
    want = causal_mask(2, 6) & (torch.arange(6) >= absent[:, None])[:, None]
    assert torch.equal(cache.mask(CPU), want)


def test_cache_mask_is_causal_for_several_new_tokens_and_none_for_one():
    cache, _ = extend(KeyValueCache(), pairs(3))
    several, _ = extend(cache, pairs(2))
    assert torch.equal(several.mask(CPU), causal_mask(2, 5))
    one, _ = extend(cache, pairs(1))
    assert one.mask(CPU) is None


def test_attention_with_a_cache_in_chunks_equals_causal_attention():
    d_model = HEADS * HEAD_DIM
    attention = MultiHeadAttention(d_model, HEADS)
    x = torch.randn(BATCH, 7, d_model)
    cache, pieces = KeyValueCache(), []
    with torch.no_grad():
        for chunk in x.split((3, 1, 2, 1), dim=1):
            cache = cache.extend(chunk.shape[1], BATCH)
            pieces.append(attention(chunk, mask=cache.mask(CPU), cache=cache[0]))
        want = attention(x, is_causal=True)
    assert_close(torch.cat(pieces, dim=1), want, atol=1e-6, rtol=1e-5)


def test_attention_with_a_cache_projects_a_source_once():
    attention = MultiHeadAttention(HEADS * HEAD_DIM, HEADS)
    target, source = torch.randn(BATCH, 2, HEADS * HEAD_DIM), torch.randn(BATCH, 7, HEADS * HEAD_DIM)
    calls = []
    attention.key_proj.register_forward_hook(lambda *call: calls.append(call))
    cache, pieces = KeyValueCache(), []
    for one in target.split(1, dim=1):
        cache = cache.extend(1, BATCH)
        pieces.append(attention(one, source, cache=cache[0].part("cross")))
    assert len(calls) == 1
    assert_close(torch.cat(pieces, dim=1), attention(target, source), atol=1e-6, rtol=1e-5)


def test_cache_says_what_is_wrong():
    cache, _ = extend(KeyValueCache(max_len=4), pairs(3))
    with pytest.raises(ValueError, match="3 tokens and 2 more do not fit in max_len=4"):
        cache.extend(2, BATCH)
    with pytest.raises(ValueError, match="3 rows but 5 tokens"):
        cache.extend(1, 5)
