"""The key-value cache: what every attention layer of a decoder remembers of the tokens it has read."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

KeysValues = tuple[Tensor, Tensor]  # of one attention layer, (B, H, T, Dh) each


@dataclass(kw_only=True)
class KeyValueCache:
    """The keys and values of every attention layer, so that a step reads only its new token.

    `extend` makes the cache of the next step, to which each layer then appends; the one before stays as it was, so a
    search may branch from it.

    Rows may have read different numbers of tokens (prompts of different lengths). They end together: `absent` (B,) says
    how many places at the front of each row hold nothing, and `mask` hides those.

    Paper: Vaswani et al. 2017 [vaswani2017attention] decode this way without naming it; the name and the cost model
    are in Pope et al. 2023 [pope2023efficiently].
    Differs: nothing.

    """

    max_len: int | None = None  # most tokens a row may hold, absent ones included
    absent: Tensor | None = None  # (B,), None when there are none
    length: int = 0  # tokens read, the newest included
    num_new: int = 0  # of those, read in this step
    entries: dict[str, KeysValues] = field(default_factory=dict)  # by the layer's name

    def extend(self, num_tokens: int, batch: int) -> Self:
        """The cache of a step that reads `num_tokens` more tokens in each of `batch` rows."""
        length = self.length + num_tokens
        if self.max_len is not None and length > self.max_len:
            raise ValueError(
                f"the cache holds {self.length} tokens and {num_tokens} more do not fit in max_len={self.max_len}; "
                "generate fewer tokens, or start again from the last part of the text"
            )
        for rows in {len(keys) for keys, _ in self.entries.values()} - {batch}:
            raise ValueError(f"the state has {rows} rows but {batch} tokens came; one token for each row is needed")
        return replace(self, length=length, num_new=num_tokens, entries=dict(self.entries))

    def positions(self, device: torch.device) -> Tensor:
        """Where the newest tokens stand in their texts: (T,), or (B, T) when rows differ; an absent one at 0."""
        where = torch.arange(self.length - self.num_new, self.length, device=device)
        return where if self.absent is None else (where - self.absent[:, None]).clamp(min=0)

    def mask(self, device: torch.device) -> Tensor | None:
        """Which keys the newest tokens may attend to: all up to themselves. None where that is every key there is.

        Shapes: (T, Tk), or (B, T, Tk) when rows differ
        """
        if self.num_new == 1 and self.absent is None:
            return None
        keys = torch.arange(self.length, device=device)
        mask = keys <= keys[self.length - self.num_new :, None]  # (T, Tk)
        return mask if self.absent is None else mask & (keys >= self.absent[:, None])[:, None]  # (B, T, Tk)

    def select(self, index: Tensor) -> Self:
        """Take the rows `index` (reordered, repeated or dropped) of every layer, as beam search needs."""
        absent = None if self.absent is None else self.absent.index_select(0, index)
        entries = {name: (k.index_select(0, index), v.index_select(0, index)) for name, (k, v) in self.entries.items()}
        return replace(self, absent=absent, entries=entries)

    def __getitem__(self, layer: int) -> "LayerCache":
        return LayerCache(self, str(layer))


class LayerCache(NamedTuple):
    """One layer's part of a `KeyValueCache`, as its attention sees it."""

    cache: KeyValueCache
    name: str

    def part(self, name: str) -> "LayerCache":
        """What a second attention of the same layer keeps."""
        return LayerCache(self.cache, f"{self.name}.{name}")

    @property
    def length(self) -> int:
        """How many tokens this layer has read before."""
        return self.cache.entries[self.name][0].shape[2] if self.name in self.cache.entries else 0

    def append(self, keys: Tensor, values: Tensor) -> KeysValues:
        """Remember the newest tokens' keys and values (B, H, T, Dh), and return all there are (B, H, Tk, Dh)."""
        if self.name in self.cache.entries:  # autocast may have come or gone since the last step
            old_keys, old_values = self.cache.entries[self.name]
            keys = torch.cat((old_keys.to(keys.dtype), keys), dim=2)
            values = torch.cat((old_values.to(values.dtype), values), dim=2)
        self.cache.entries[self.name] = keys, values
        return keys, values

    def keep(self, project: Callable[[], KeysValues]) -> KeysValues:
        """Keys and values that do not grow, such as a source's: projected in the first step, and kept."""
        if self.name not in self.cache.entries:
            self.cache.entries[self.name] = project()
        return self.cache.entries[self.name]


def align_right(prompt: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Move each row's real tokens to its end, where the next one comes.

    Shapes: prompt (B, T), lengths (B,) -> the rows moved (B, T), and the places before their first tokens (B,)
    """
    absent = prompt.shape[1] - lengths
    place = torch.arange(prompt.shape[1], device=prompt.device) - absent[:, None]  # (B, T), negative: none
    return prompt.gather(1, place.clamp(min=0)), absent
