"""Padding, bucketing and batching, in one place.

Every stream of batches here is a function `step -> batch`: the batch of a step depends on the data, the seed and the
step, and on nothing else. So a run can be resumed at any step, and two processes agree without talking. Batches carry
lengths; `lecturelib.layers.masks.padding_mask` makes a mask of them.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

Example = TypeVar("Example")
Batch = TypeVar("Batch")


class Padded(NamedTuple):
    """Sequences of unequal length in one tensor: ids (B, T), lengths (B,)."""

    ids: Tensor
    lengths: Tensor


class LanguageBatch(NamedTuple):
    """Text and the same text one step on: inputs (B, T), targets (B, T)."""

    inputs: Tensor
    targets: Tensor


class PairBatch(NamedTuple):
    """Sources and targets, padded, the target shifted for teacher forcing.

    source (B, Ts) and source_lengths (B,); target_in (B, Tt) starts with bos, target_out (B, Tt) ends with eos, and
    target_lengths (B,) counts either: `target_in[b, t]` is what the decoder reads to predict `target_out[b, t]`.
    """

    source: Tensor
    source_lengths: Tensor
    target_in: Tensor
    target_out: Tensor
    target_lengths: Tensor


class CaptionBatch(NamedTuple):
    """Images (B, channels, height, width) with captions, padded and shifted as the targets of a `PairBatch` are."""

    images: Tensor
    target_in: Tensor
    target_out: Tensor
    target_lengths: Tensor


class LabelledBatch(NamedTuple):
    """Padded sequences with a class each: ids (B, T), lengths (B,), labels (B,)."""

    ids: Tensor
    lengths: Tensor
    labels: Tensor


def pad(sequences: Sequence[Sequence[int]], *, pad_id: int, max_len: int | None = None) -> Padded:
    """Put sequences of ids side by side, the shorter ones filled up on the right with `pad_id`.

    Args:
        max_len: the width of the tensor; a longer sequence is an error. None: as wide as the longest.
    """
    lengths = [len(sequence) for sequence in sequences]
    width = max(lengths, default=0)
    if max_len is not None and width > max_len:
        place = lengths.index(width)
        raise ValueError(f"sequence {place} has {width} ids, more than max_len={max_len}: shorten it, or raise max_len")
    width = width if max_len is None else max_len
    ids = np.full((len(sequences), width), pad_id, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : lengths[row]] = sequence
    return Padded(torch.from_numpy(ids), torch.tensor(lengths, dtype=torch.int64))


def collate_pairs(
    examples: Sequence[tuple[Sequence[int], Sequence[int]]], *, pad_id: int, bos_id: int, eos_id: int
) -> PairBatch:
    """Batch (source ids, target ids), both without bos and eos; the source gets an eos, the target is shifted."""
    source = pad([[*source, eos_id] for source, _ in examples], pad_id=pad_id)
    target_in = pad([[bos_id, *target] for _, target in examples], pad_id=pad_id)
    target_out = pad([[*target, eos_id] for _, target in examples], pad_id=pad_id)
    return PairBatch(source.ids, source.lengths, target_in.ids, target_out.ids, target_in.lengths)


def collate_captions(
    images: Tensor, captions: Sequence[Sequence[int]], *, pad_id: int, bos_id: int, eos_id: int
) -> CaptionBatch:
    """Batch images (B, channels, height, width) with the ids of their captions, without bos and eos."""
    if len(images) != len(captions):
        raise ValueError(f"each image needs one caption, got {len(images)} images and {len(captions)} captions")
    target_in = pad([[bos_id, *caption] for caption in captions], pad_id=pad_id)
    target_out = pad([[*caption, eos_id] for caption in captions], pad_id=pad_id)
    return CaptionBatch(images, target_in.ids, target_out.ids, target_in.lengths)


def collate_labelled(examples: Sequence[tuple[Sequence[int], int]], *, pad_id: int) -> LabelledBatch:
    """Batch (ids, label)."""
    padded = pad([ids for ids, _ in examples], pad_id=pad_id)
    return LabelledBatch(*padded, torch.tensor([label for _, label in examples], dtype=torch.int64))


def _permutation(size: int, *seeds: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seeds)).permutation(size)


def bucket_by_length(lengths: Sequence[int], batch_size: int, *, seed: int = 0, pool: int = 50) -> list[list[int]]:
    """Deal all indices into batches of similar length, in random order.

    Shuffles, sorts by length within pools of `pool` batches, cuts, and shuffles the batches. A larger pool pads less
    and shuffles less; `pool=1` is a plain shuffle. The remainder makes one smaller batch.
    """
    if batch_size < 1 or pool < 1:
        raise ValueError(f"batch_size={batch_size} and pool={pool} must be at least 1")
    order = _permutation(len(lengths), seed, 0)
    size = pool * batch_size
    pools = [
        sorted(map(int, order[i : i + size]), key=lambda index: lengths[index]) for i in range(0, len(order), size)
    ]
    batches = [indices[i : i + batch_size] for indices in pools for i in range(0, len(indices), batch_size)]
    return [batches[index] for index in _permutation(len(batches), seed, 1)]


class StepBatches(Generic[Example, Batch]):
    """Batches of examples as a function of the step; each pass over the data deals them anew.

    Args:
        examples: the data, by index.
        collate: turns a list of examples into a batch.
        batch_size: examples a batch; the last batch of a pass may be smaller.
        seed: decides the order of every pass.
        length: the length of an example; given, batches are bucketed by it, so that little is padded.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        collate: Callable[[list[Example]], Batch],
        *,
        batch_size: int,
        seed: int = 0,
        length: Callable[[Example], int] | None = None,
    ) -> None:
        if not len(examples):
            raise ValueError("there are no examples to make batches of")
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size} must be at least 1")
        self.examples, self.collate, self.batch_size, self.seed = examples, collate, batch_size, seed
        self._pool = 50 if length else 1
        self._lengths = [length(example) for example in examples] if length else [0] * len(examples)
        self._dealt: tuple[int, list[list[int]]] = (-1, [])  # the pass dealt last, and its batches

    def _pass(self, number: int) -> list[list[int]]:
        if self._dealt[0] != number:
            seed = int(np.random.SeedSequence((self.seed, number)).generate_state(1)[0])
            self._dealt = (number, bucket_by_length(self._lengths, self.batch_size, seed=seed, pool=self._pool))
        return self._dealt[1]

    @property
    def steps_per_pass(self) -> int:
        """How many steps it takes to see every example once."""
        return -(-len(self.examples) // self.batch_size)

    def __call__(self, step: int) -> Batch:
        """The batch of that step."""
        number, place = divmod(step, self.steps_per_pass)
        return self.collate([self.examples[index] for index in self._pass(number)[place]])

    def in_order(self) -> Iterator[Batch]:
        """Every example once, in the order given: for evaluation."""
        for start in range(0, len(self.examples), self.batch_size):
            stop = min(start + self.batch_size, len(self.examples))
            yield self.collate([self.examples[index] for index in range(start, stop)])


def pair_batches(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    batch_size: int,
    pad_id: int,
    bos_id: int,
    eos_id: int,
    seed: int = 0,
) -> StepBatches[tuple[Sequence[int], Sequence[int]], PairBatch]:
    """Sequence-to-sequence batches of (source ids, target ids), bucketed by length."""
    collate = functools.partial(collate_pairs, pad_id=pad_id, bos_id=bos_id, eos_id=eos_id)
    return StepBatches(
        pairs, collate, batch_size=batch_size, seed=seed, length=lambda pair: len(pair[0]) + len(pair[1])
    )


def _stream(ids: Sequence[int] | Tensor, length: int, batch_size: int) -> Tensor:
    stream = torch.as_tensor(ids, dtype=torch.int64)
    if stream.dim() != 1:
        raise ValueError(f"a text is one row of ids, of shape (N,); got shape {tuple(stream.shape)}")
    if length < 1 or batch_size < 1:
        raise ValueError(f"length={length} and batch_size={batch_size} must be at least 1")
    return stream


class RandomWindows:
    """Language-model batches cut out of one long text at random places, a function of the step.

    Args:
        ids: the text (N,), with N > length.
    """

    def __init__(self, ids: Sequence[int] | Tensor, *, batch_size: int, length: int, seed: int = 0) -> None:
        self.ids = _stream(ids, length, batch_size)
        if len(self.ids) <= length:
            raise ValueError(
                f"a window of length={length} and its next token need more than the {len(self.ids)} ids given"
            )
        self.batch_size, self.length, self.seed = batch_size, length, seed

    def __call__(self, step: int) -> LanguageBatch:
        """The windows of that step."""
        draw = np.random.Generator(np.random.PCG64((self.seed, step)))
        starts = torch.from_numpy(draw.integers(0, len(self.ids) - self.length, size=self.batch_size))
        places = starts[:, None] + torch.arange(self.length + 1)  # (B, T + 1)
        windows = self.ids[places]  # (B, T + 1)
        return LanguageBatch(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())


class ContiguousWindows:
    """Language-model batches in reading order: row b of the next step goes on where row b of this one stopped.

    The text is laid out as B parallel rows, for evaluation and for models that carry a state from segment to segment.
    What does not fill a row is left out; after `steps_per_pass` steps reading starts again.
    """

    def __init__(self, ids: Sequence[int] | Tensor, *, batch_size: int, length: int) -> None:
        stream = _stream(ids, length, batch_size)
        width = (len(stream) - 1) // batch_size
        if width < 1:
            raise ValueError(f"{len(stream)} ids are too few for batch_size={batch_size} rows and their next tokens")
        self.inputs = stream[: batch_size * width].reshape(batch_size, width)  # (B, N // B)
        self.targets = stream[1 : batch_size * width + 1].reshape(batch_size, width)  # (B, N // B)
        self.batch_size, self.length = batch_size, length

    @property
    def steps_per_pass(self) -> int:
        """How many steps it takes to read the text once; the last one may be narrower."""
        return -(-self.inputs.shape[1] // self.length)

    def __call__(self, step: int) -> LanguageBatch:
        """The segment of that step, a view into the text."""
        start = step % self.steps_per_pass * self.length
        stop = start + self.length
        return LanguageBatch(self.inputs[:, start:stop], self.targets[:, start:stop])
