"""The cache with room holds what the plain one holds, and writes in place only where nobody else is."""

import pytest
import torch

from lecturelib.fast.cache import FIRST_ROOM, RoomyCache
from lecturelib.layers import KeyValueCache

BATCH, HEADS, HEAD_DIM = 3, 4, 5


def new(length, batch=BATCH):
    return torch.randn(2, batch, HEADS, length, HEAD_DIM)


def extend(cache, pair):
    cache = cache.extend(pair.shape[3], pair.shape[1])
    return cache, torch.stack(cache[0].append(*pair))


@pytest.mark.parametrize("max_len", [None, FIRST_ROOM + 12])
def test_roomy_cache_holds_what_a_plain_one_holds_also_past_its_first_room(max_len):
    torch.manual_seed(0)
    plain, roomy = KeyValueCache(max_len=max_len), RoomyCache(max_len=max_len)
    for length in (4, 1, FIRST_ROOM, 1, 2):
        pair = new(length)
        plain, want = extend(plain, pair)
        roomy, held = extend(roomy, pair)
        assert torch.equal(held, want)
    index = torch.tensor([2, 2, 0, 1])
    _, want = extend(plain.select(index), pair := new(1, batch=4))
    assert torch.equal(extend(roomy.select(index), pair)[1], want)


def test_roomy_cache_appends_in_place_until_a_search_branches():
    cache, _ = extend(RoomyCache(), new(3))
    first, held = extend(cache, new(1))
    before = held.clone()
    assert first.rooms["0"] is cache.rooms["0"]
    second, other = extend(cache, new(1))
    assert second.rooms["0"] is not cache.rooms["0"]
    assert torch.equal(torch.stack(first.entries["0"]), before)
    assert torch.equal(other[..., :3, :], before[..., :3, :])
    assert not torch.equal(other, before)


def test_roomy_cache_takes_a_plain_one_over_and_leaves_it():
    plain, held = extend(KeyValueCache(absent=torch.tensor([1, 0, 2])), new(3))
    before = held.clone()
    roomy, after = extend(RoomyCache.of(plain), pair := new(1))
    assert torch.equal(after, torch.cat((before, pair), dim=3))
    assert torch.equal(torch.stack(plain.entries["0"]), before)
    assert roomy.absent is plain.absent
    assert RoomyCache.of(roomy) is roomy


def test_roomy_cache_made_in_inference_mode_can_be_written_outside():
    with torch.inference_mode():
        cache, _ = extend(RoomyCache(), new(3))
        cache = cache.select(torch.arange(3))
    _, held = extend(cache, pair := new(1))
    assert torch.equal(held[..., 3:, :], pair)
