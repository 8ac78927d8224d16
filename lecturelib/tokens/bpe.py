"""Byte-level byte-pair encoding: any text, a fixed vocabulary, no unknown words."""

import functools
import heapq
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lecturelib.tokens.bpe_training import learn_merges
from lecturelib.tokens.pretokens import PRETOKENS, gpt2_pattern
from lecturelib.tokens.text_bytes import bytes_of, text_of

_ORDINARY = 1  # the number of ordinary tokens in a GGUF file; the others are control symbols and the like
_CACHED_LENGTH, _CACHED_PIECES = 64, 1 << 18  # remember short pieces only, and not without end


@functools.cache
def byte_characters() -> tuple[str, ...]:
    """GPT-2's printable character for each byte, so that tokens can be written to a text file.

    Bytes that print stand for themselves; the others, in order, for U+0100 and on. A space is "Ġ".
    """
    printing = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = itertools.count(0x100)
    return tuple(chr(byte if byte in printing else next(others)) for byte in range(256))


@functools.cache
def _character_bytes() -> dict[str, int]:
    return {character: byte for byte, character in enumerate(byte_characters())}


def printable(token: bytes) -> str:
    """A token as GPT-2's files write it."""
    return "".join(map(byte_characters().__getitem__, token))


def unprintable(text: str) -> bytes:
    """The inverse of `printable`."""
    try:
        return bytes(map(_character_bytes().__getitem__, text))
    except KeyError as error:
        raise ValueError(f"{text!r} is not a byte-level token: {error.args[0]!r} stands for no byte") from None


class BPETokenizer:
    """Byte-pair encoding of UTF-8 bytes, with GPT-2's way of cutting text into words.

    Paper: Sennrich et al. 2016 [sennrich2016neural]; on bytes, Radford et al. 2019 [radford2019language].
    Differs: a lone surrogate is encoded as its three bytes, where UTF-8 proper has none; special tokens are read from
    text only on request, so that no text can smuggle one in.

    `decode(encode(text)) == text` for every Python string, unless the vocabulary is partial.

    Args:
        vocab: the id of each token; every single byte must be among the tokens.
        merges: pairs of tokens to join, the first learned first.
        specials: the ids of symbols that stand for no text, such as "<|endoftext|>".
        pretokens: how text is cut before merging, a name in `lecturelib.tokens.pretokens.PRETOKENS`.
        partial: allow single bytes to be missing from the vocabulary; they are then dropped from a text, silently, as
            the `tokenizers` library does.
    """

    def __init__(
        self,
        vocab: Mapping[bytes, int],
        merges: Sequence[tuple[bytes, bytes]],
        *,
        specials: Mapping[str, int] | None = None,
        pretokens: str = "gpt2",
        partial: bool = False,
    ) -> None:
        self.vocab = dict(vocab)
        self.merges = [(left, right) for left, right in merges]
        self.specials = dict(specials or {})
        if pretokens not in PRETOKENS:
            raise ValueError(f"pretokens must be one of {', '.join(sorted(PRETOKENS))}, got {pretokens!r}")
        self.pretokens, self.partial = pretokens, partial
        missing = [byte for byte in range(256) if bytes([byte]) not in self.vocab]
        if missing and not partial:
            raise ValueError(
                f"a byte-level vocabulary has all 256 bytes; {len(missing)} are missing, first {missing[0]}"
            )
        ids = [*self.vocab.values(), *self.specials.values()]
        if len(set(ids)) < len(ids):
            twice = Counter(ids).most_common(1)[0][0]
            raise ValueError(f"every token has an id of its own; id {twice} is given twice")
        self._tokens = {index: token for token, index in self.vocab.items()}
        self._special_of = {index: symbol for symbol, index in self.specials.items()}
        self._byte_ids = [self.vocab.get(bytes([byte])) for byte in range(256)]
        self._ranks: dict[tuple[int, int], int] = {}  # pair of ids -> its place in the merges
        self._joined: list[int] = []  # place in the merges -> id of the joined token
        for rank, (left, right) in enumerate(self.merges):
            if unknown := [token for token in (left, right, left + right) if token not in self.vocab]:
                raise ValueError(
                    f"merge {rank}, {left!r} + {right!r}, has {unknown[0]!r}, which is not in the vocabulary"
                )
            self._ranks[self.vocab[left], self.vocab[right]] = rank
            self._joined.append(self.vocab[left + right])
        self._pieces: dict[str, list[int]] = {}

    @classmethod
    def train(
        cls, texts: str | Iterable[str], *, vocab_size: int, specials: Sequence[str] = (), min_count: int = 0
    ) -> "BPETokenizer":
        """Learn merges from text until there are `vocab_size` tokens, or no pair occurs `min_count` times.

        Ids: the specials first, then the 256 bytes in the order of `byte_characters`, then the merges as learned.
        """
        alphabet = sorted((bytes([byte]) for byte in range(256)), key=printable)
        least = len(specials) + len(alphabet)
        if vocab_size < least:
            raise ValueError(
                f"vocab_size={vocab_size} must be at least {least}: 256 bytes and {len(specials)} specials"
            )
        if len(set(specials)) < len(specials) or "" in specials:
            raise ValueError(f"specials={tuple(specials)} must be distinct and not empty")
        pieces: Counter[str] = Counter()
        for text in [texts] if isinstance(texts, str) else texts:
            pieces.update(gpt2_pattern().findall(text))
        words = Counter({bytes_of(piece): count for piece, count in pieces.items()})
        pairs = learn_merges(words, alphabet, vocab_size - len(specials), min_count)
        tokens, merges = list(alphabet), []
        vocab = {token: index for index, token in enumerate(tokens)}
        for left, right in pairs:
            merges.append((tokens[left], tokens[right]))
            if (token := tokens[left] + tokens[right]) not in vocab:
                vocab[token] = len(tokens)
                tokens.append(token)
        return cls(
            {token: index + len(specials) for token, index in vocab.items()},
            merges,
            specials={symbol: index for index, symbol in enumerate(specials)},
        )

    @property
    def vocab_size(self) -> int:
        """One more than the largest id, the number of rows an embedding needs."""
        return 1 + max(max(self.vocab.values()), max(self.specials.values(), default=0))

    def __len__(self) -> int:
        return self.vocab_size

    def __repr__(self) -> str:
        return f"BPETokenizer({self.vocab_size} tokens, {len(self.merges)} merges, {len(self.specials)} specials)"

    def encode(self, text: str, *, allow_specials: bool = False) -> list[int]:
        """Text to ids. With `allow_specials` the text's "<|endoftext|>" is the special one, and not 13 characters."""
        if not (allow_specials and self.specials):
            return self._encode_ordinary(text)
        longest_first = sorted(self.specials, key=lambda symbol: (-len(symbol), symbol))
        ids: list[int] = []
        for part in re.split(f"({'|'.join(map(re.escape, longest_first))})", text):
            ids += [self.specials[part]] if part in self.specials else self._encode_ordinary(part)
        return ids

    def _encode_ordinary(self, text: str) -> list[int]:
        ids: list[int] = []
        known = self._pieces
        for piece in PRETOKENS[self.pretokens](text):
            encoded = known.get(piece)
            if encoded is None:
                found = (self._byte_ids[byte] for byte in bytes_of(piece))
                encoded = self._merge([index for index in found if index is not None])
                if len(piece) <= _CACHED_LENGTH and len(known) < _CACHED_PIECES:
                    known[piece] = encoded
            ids += encoded
        return ids

    def _merge(self, ids: list[int]) -> list[int]:
        """Join neighbours, the pair learned first before all others and from the left, until none can be joined.

        The ids form a linked list, and a heap holds the possible joins, so that a piece of n bytes takes n log n
        steps: a page without a single space is no problem. A join is one number, rank · n + place, which sorts by
        rank and then by place.
        """
        ranks, joined, end = self._ranks, self._joined, len(ids)
        following = list(range(1, end + 1))
        preceding = list(range(-1, end - 1))
        found = (ranks.get(pair) for pair in itertools.pairwise(ids))
        heap = [rank * end + place for place, rank in enumerate(found) if rank is not None]
        heapq.heapify(heap)
        while heap:
            rank, place = divmod(heapq.heappop(heap), end)
            neighbour = following[place]
            if ids[place] < 0 or neighbour == end or ranks.get((ids[place], ids[neighbour])) != rank:
                continue  # one of the two has been joined to another since
            ids[place], ids[neighbour] = joined[rank], -1
            after, before = following[neighbour], preceding[place]
            following[place] = after
            if after < end:
                preceding[after] = place
                if (rank_after := ranks.get((joined[rank], ids[after]))) is not None:
                    heapq.heappush(heap, rank_after * end + place)
            if before >= 0 and (rank_before := ranks.get((ids[before], joined[rank]))) is not None:
                heapq.heappush(heap, rank_before * end + before)
        return [index for index in ids if index >= 0]

    def decode(self, ids: Iterable[int], *, skip_specials: bool = True) -> str:
        """Ids (a list or a tensor of one dimension) to text. Bytes that are no text turn into U+FFFD."""
        parts = []
        for index in map(int, ids):
            if index in self._tokens:
                parts.append(self._tokens[index])
            elif index not in self._special_of:
                raise ValueError(f"id {index} is outside this vocabulary of {self.vocab_size} tokens")
            elif not skip_specials:
                parts.append(bytes_of(self._special_of[index]))
        return text_of(b"".join(parts))

    def save(self, path: str | Path) -> None:
        """Write the tokenizer as JSON."""
        content = {
            "type": "byte-level bpe",
            "specials": self.specials,
            "pretokens": self.pretokens,
            "partial": self.partial,
            "vocab": {printable(token): index for token, index in self.vocab.items()},
            "merges": [[printable(left), printable(right)] for left, right in self.merges],
        }
        Path(path).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "BPETokenizer":
        """Read what `save` wrote."""
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("type") != "byte-level bpe":
            raise ValueError(f"{path} is not a saved BPETokenizer")
        vocab = {unprintable(token): index for token, index in content["vocab"].items()}
        merges = [(unprintable(left), unprintable(right)) for left, right in content["merges"]]
        return cls(
            vocab,
            merges,
            specials=content["specials"],
            pretokens=content.get("pretokens", "gpt2"),  # older files do not say
            partial=content.get("partial", False),
        )

    @classmethod
    def from_gguf(cls, settings: Mapping[str, Any]) -> "BPETokenizer":
        """Make the tokenizer that a GGUF file describes, from its settings: see `lecturelib.data.read_gguf`."""
        kind = settings.get("tokenizer.ggml.model")
        if kind != "gpt2":
            raise ValueError(f"the file's tokenizer is {kind!r}; only byte-level BPE, 'gpt2', can be read here")
        tokens: list[str] = settings["tokenizer.ggml.tokens"]
        kinds = settings.get("tokenizer.ggml.token_type") or [_ORDINARY] * len(tokens)
        specials = {token: i for i, (token, kind) in enumerate(zip(tokens, kinds, strict=True)) if kind != _ORDINARY}
        pairs = [tuple(map(unprintable, merge.split(" "))) for merge in settings["tokenizer.ggml.merges"]]
        name = settings.get("tokenizer.ggml.pre", "default")
        return cls(
            {unprintable(token): index for index, token in enumerate(tokens) if token not in specials},
            [(left, right) for left, right in pairs],
            specials=specials,
            pretokens={"default": "gpt2", "gpt-2": "gpt2"}.get(
                name := settings.get("tokenizer.ggml.pre", "gpt2"), name
            ),
            partial=True,
        )

    @classmethod
    def load_gpt2(
        cls, vocab: str | Path, merges: str | Path, *, specials: Sequence[str] = ("<|endoftext|>",)
    ) -> "BPETokenizer":
        """Read GPT-2's two files, `vocab.json` (token to id) and `merges.txt` (a pair a line)."""
        ids: dict[str, int] = json.loads(Path(vocab).read_text(encoding="utf-8"))
        if absent := [symbol for symbol in specials if symbol not in ids]:
            raise ValueError(f"{vocab} has no token {absent[0]!r}: name the special tokens it does have in specials=")
        pairs = []
        for number, line in enumerate(Path(merges).read_text(encoding="utf-8").split("\n"), start=1):
            if not line.strip() or (number == 1 and line.startswith("#version")):
                continue
            parts = line.split(" ")
            if len(parts) != 2:
                raise ValueError(f"{merges}, line {number}: {line!r} should be two tokens with a space between them")
            pairs.append((unprintable(parts[0]), unprintable(parts[1])))
        tokens = {unprintable(token): index for token, index in ids.items() if token not in specials}
        return cls(tokens, pairs, specials={symbol: ids[symbol] for symbol in specials})
