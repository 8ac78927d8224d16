"""The key-value cache: what every attention layer of a decoder remembers of the tokens it has read."""

from typing import NamedTuple

import torch
from torch import Tensor

FIRST_CAPACITY = 64
SPARE_AFTER_SELECT = 4


class KeyValueCache:
    """The keys and values of every layer, in tensors with room to grow, as a value that never changes.

    `advance` makes the cache of the next step: it owns one more position (or several) in each layer, which
    `cache[layer].append(keys, values)` then fills. The new tokens are written into spare room of the same storage,
    so a step copies nothing that is already there; only stepping twice from the *same* cache (a search that branches)
    copies, because both branches want the same slot.

    Rows may have read different numbers of tokens (prompts of different lengths): each row's tokens then sit at the
    front of its own storage, at their own positions, and `mask` hides the rest.

    Paper: Vaswani et al. 2017 [vaswani2017attention] decode this way without naming it; the name and the cost model
    are in Pope et al. 2023 [pope2023efficiently].
    Differs: nothing.

    Args:
        num_layers: attention layers that share this cache
        num_heads: heads of the keys
        head_dim: width of one head
        max_len: most tokens a row may hold; no limit when left out

    Shapes: storage (2, B, H, capacity, Dh) for each layer, keys at [0] and values at [1]
    """

    def __init__(self, num_layers: int, num_heads: int, head_dim: int, *, max_len: int | None = None) -> None:
        self.max_len = max_len
        self.length = 0  # of the longest row
        self.lengths: Tensor | None = None  # (B,) when rows differ, else all are `length` long
        self._shape = (num_layers, 2, num_heads, head_dim)
        self._storage: _Storage | None = None
        self._new = 0  # positions that the last `advance` added
        self._where: Tensor | None = None

    def advance(self, num_tokens: int, batch: int, like: Tensor) -> "KeyValueCache":
        """The cache after `num_tokens` more tokens in each of `batch` rows; device and dtype are those of `like`."""
        length = self.length + num_tokens
        if self.max_len is not None and length > self.max_len:
            raise ValueError(
                f"the cache holds {self.length} tokens and {num_tokens} more do not fit in max_len={self.max_len}; "
                "generate fewer tokens, or start again from the last part of the text"
            )
        if self._storage is not None and self._storage.layers[0].shape[1] != batch:
            rows = self._storage.layers[0].shape[1]
            raise ValueError(f"the state has {rows} rows but {batch} tokens came; one token for each row is needed")
        following = self._copy()
        following.length, following._new = length, num_tokens
        following._storage = self._storage_for(length, batch, like)
        following._storage.filled = length
        if self.lengths is not None:
            following.lengths = self.lengths + num_tokens
        return following

    def _storage_for(self, length: int, batch: int, like: Tensor) -> "_Storage":
        """Storage with room for `length` positions, in which no other branch has written past ours."""
        storage = self._storage
        capacity = 0 if storage is None else storage.layers[0].shape[-2]
        if storage is not None and length <= capacity and storage.filled == self.length:
            return storage
        if length > capacity:
            capacity = max(length + FIRST_CAPACITY, 2 * capacity)
            capacity = capacity if self.max_len is None else min(capacity, self.max_len)
        num_layers, two, num_heads, head_dim = self._shape
        kind = like.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else like.dtype
        shape = (two, batch, num_heads, capacity, head_dim)
        layers = [like.new_zeros(shape, dtype=dtype) for _ in range(num_layers)]
        if storage is not None:
            for new, old in zip(layers, storage.layers, strict=True):
                new[..., : self.length, :] = old[..., : self.length, :]
        return _Storage(layers)

    def with_lengths(self, lengths: Tensor) -> "KeyValueCache":
        """Say that row b holds only its first `lengths[b]` tokens; what comes after them was padding."""
        ragged = self._copy()
        ragged.lengths, ragged.length = lengths, int(lengths.max()) if lengths.numel() else 0
        if ragged._storage is not None:
            ragged._storage.filled = ragged.length
        return ragged

    @property
    def positions(self) -> Tensor:
        """Where the newest tokens stand: (T,) when all rows are equally long, else (B, T)."""
        if self._where is None:
            assert self._storage is not None, "advance first"
            device = self._storage.layers[0].device
            if self.lengths is None:
                self._where = torch.arange(self.length - self._new, self.length, device=device)
            else:
                new = torch.arange(-self._new, 0, device=device)
                self._where = self.lengths[:, None] + new  # (B, T)
        return self._where

    def mask(self) -> Tensor | None:
        """Which keys the newest tokens may attend to: all up to themselves. None where that is every key there is.

        Shapes: (T, Tk), or (B, T, Tk) when rows differ
        """
        if self._new == 1 and self.lengths is None:
            return None
        return torch.arange(self.length, device=self.positions.device) <= self.positions[..., None]  # (..., T, Tk)

    def select(self, index: Tensor) -> "KeyValueCache":
        """Take the rows `index` (reordered, repeated or dropped) of every layer, as beam search needs.

        This copies what is filled and a little room after it: a search selects at every step, and would otherwise
        spend its time copying empty places.
        """
        chosen = self._copy()
        if self._storage is not None:
            layers = [self._select_rows(layer, index) for layer in self._storage.layers]
            chosen._storage = _Storage(layers, filled=self.length)
        if self.lengths is not None:
            chosen.lengths = self.lengths.index_select(0, index)
        return chosen

    def _select_rows(self, layer: Tensor, index: Tensor) -> Tensor:
        two, _, num_heads, _, head_dim = layer.shape
        room = self.length + SPARE_AFTER_SELECT
        chosen = layer.new_empty(two, index.shape[0], num_heads, room, head_dim)  # (2, B', H, room, Dh)
        filled, spare = chosen.split((self.length, SPARE_AFTER_SELECT), dim=-2)
        spare.zero_()
        torch.index_select(layer[..., : self.length, :], 1, index, out=filled)
        return chosen

    def __getitem__(self, layer: int) -> "LayerCache":
        return LayerCache(self, layer)

    def append_one(self, layer: int, pair: Tensor) -> tuple[Tensor, Tensor]:
        """As `self[layer].append`, for one new token in rows of equal length, its key and value in one tensor.

        Shapes: pair (2, B, H, Dh) -> two of (B, H, Tk, Dh)
        """
        assert self._storage is not None, "advance first"
        storage = self._storage.layers[layer]
        storage.select(-2, self.length - 1).copy_(pair)
        keys, values = storage.narrow(-2, 0, self.length).unbind()
        return keys, values

    def _append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        assert self._storage is not None, "advance first"
        all_keys, all_values = self._storage.layers[layer][..., : self.length, :].unbind()  # (B, H, Tk, Dh) each
        if self.lengths is None:
            start = self.length - self._new
            all_keys[:, :, start:] = keys
            all_values[:, :, start:] = values
        else:
            row = torch.arange(keys.shape[0], device=keys.device)[:, None]  # (B, 1)
            all_keys[row, :, self.positions] = keys.transpose(1, 2).to(all_keys.dtype)  # (B, T, H, Dh)
            all_values[row, :, self.positions] = values.transpose(1, 2).to(all_keys.dtype)
        if all_keys.dtype == keys.dtype:
            return all_keys, all_values
        return all_keys.to(keys.dtype), all_values.to(values.dtype)  # autocast came or went between two steps

    def _copy(self) -> "KeyValueCache":
        num_layers, _, num_heads, head_dim = self._shape
        copy = KeyValueCache(num_layers, num_heads, head_dim, max_len=self.max_len)
        copy.length, copy.lengths, copy._storage = self.length, self.lengths, self._storage
        return copy


class LayerCache(NamedTuple):
    """One layer's part of a `KeyValueCache`, as its attention sees it."""

    cache: KeyValueCache
    layer: int

    @property
    def positions(self) -> Tensor:
        """Where the newest tokens stand, (T,) or (B, T)."""
        return self.cache.positions

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Remember the newest tokens' keys and values (B, H, T, Dh), and return all there are (B, H, Tk, Dh)."""
        return self.cache._append(self.layer, keys, values)


class _Storage:
    """The tensors that several caches may share, and how far they have been written.

    One for each layer rather than one for all: memory this size is handed out again at once, while a tensor of tens of
    megabytes comes fresh, and empty, from the system at every `select`.
    """

    def __init__(self, layers: list[Tensor], filled: int = 0) -> None:
        self.layers, self.filled = layers, filled
