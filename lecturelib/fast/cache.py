"""A key-value cache with room to grow, so that a step copies nothing that is already there."""

from dataclasses import dataclass, field, fields, replace
from typing import Self

import torch
from torch import Tensor

from lecturelib.layers.cache import KeysValues, KeyValueCache, LayerCache

FIRST_ROOM = 64
ROOM_AFTER_SELECT = 4  # a search selects at every step, and would otherwise spend its time copying empty places


class Room:
    """One layer's tensor (2, B, H, capacity, Dh), keys at [0] and values at [1], and how far it has been written."""

    def __init__(self, tensor: Tensor, filled: int) -> None:
        self.tensor, self.filled = tensor, filled
        self.keys, self.values = tensor.unbind()


@dataclass(kw_only=True)
class RoomyCache(KeyValueCache):
    """As `KeyValueCache`, a value that never changes; but caches that follow one another share their tensors.

    New tokens are written into spare room. Only stepping twice from the same cache (a search that branches) copies,
    because both branches want the same place.
    """

    rooms: dict[str, Room] = field(default_factory=dict)

    @classmethod
    def of(cls, cache: KeyValueCache) -> "RoomyCache":
        """A plain cache with room; one that has room already as it is."""
        if isinstance(cache, cls):
            return cache
        parts = {part.name: getattr(cache, part.name) for part in fields(cache)}
        return cls(**parts | {"entries": dict(cache.entries)})

    def extend(self, num_tokens: int, batch: int) -> Self:
        """The cache of a step that reads `num_tokens` more tokens in each of `batch` rows."""
        return replace(super().extend(num_tokens, batch), rooms=dict(self.rooms))

    def select(self, index: Tensor) -> Self:
        """Take the rows `index` of every layer, with a little room after what is filled."""
        absent = None if self.absent is None else self.absent.index_select(0, index)
        chosen = replace(self, absent=absent, entries={}, rooms={})
        for name, (keys, values) in self.entries.items():
            if name not in self.rooms:  # it does not grow
                chosen.entries[name] = keys.index_select(0, index), values.index_select(0, index)
                continue
            room = _new_room(keys, len(index), self.length + ROOM_AFTER_SELECT)
            filled = room.tensor[..., : self.length, :]
            torch.index_select(self.rooms[name].tensor[..., : self.length, :], 1, index, out=filled)
            room.filled, chosen.rooms[name] = self.length, room
            chosen.entries[name] = filled[0], filled[1]
        return chosen

    def __getitem__(self, layer: int) -> "RoomyLayer":
        return RoomyLayer(self, str(layer))

    def append(self, name: str, pair: Tensor) -> KeysValues:
        """Write the newest keys and values (2, B, H, T, Dh) of a layer, and return all there are (B, H, Tk, Dh)."""
        past, room = self.length - self.num_new, self.rooms.get(name)
        capacity = 0 if room is None else room.tensor.shape[-2]
        if room is None or room.filled != past or capacity < self.length or not _may_write(room.tensor, pair):
            if capacity < self.length:
                capacity = max(self.length + FIRST_ROOM, 2 * capacity)
                capacity = capacity if self.max_len is None else min(capacity, self.max_len)
            room = _new_room(pair, pair.shape[1], capacity)
            for new, old in zip(room.tensor, self.entries.get(name, ()), strict=False):
                new[:, :, :past] = old[:, :, :past]
            self.rooms[name] = room
        room.tensor.narrow(-2, past, self.num_new).copy_(pair)
        room.filled = self.length
        keys, values = room.keys.narrow(2, 0, self.length), room.values.narrow(2, 0, self.length)
        self.entries[name] = keys, values
        return keys, values


class RoomyLayer(LayerCache):
    """One layer's part of a `RoomyCache`, as its attention sees it."""

    def append(self, keys: Tensor, values: Tensor) -> KeysValues:
        """As the plain one's."""
        assert isinstance(self.cache, RoomyCache)
        return self.cache.append(self.name, torch.stack((keys, values)))


def _may_write(room: Tensor, pair: Tensor) -> bool:
    """Whether the type is the same, and a tensor of inference mode is not written outside it."""
    return room.dtype == pair.dtype and (torch.is_inference_mode_enabled() or not room.is_inference())


def _new_room(like: Tensor, batch: int, capacity: int) -> Room:
    """Zeros, like keys (..., H, T, Dh) in kind."""
    shape = (2, batch, like.shape[-3], capacity, like.shape[-1])
    return Room(torch.zeros(shape, dtype=like.dtype, device=like.device), filled=0)
