"""Symbols and their numbers: the table between text and the rows of an embedding matrix."""

from collections import Counter
from collections.abc import Iterable, Sequence

PAD, BOS, EOS, UNK = "<pad>", "<bos>", "<eos>", "<unk>"
SPECIALS = (PAD, BOS, EOS, UNK)


class Vocabulary:
    """A fixed list of symbols; a symbol's id is its place in the list, specials first.

    Args:
        symbols: the ordinary symbols, in the order of their ids, none twice.
        specials: symbols that stand for no text, such as padding. With "<unk>" among them an unknown symbol becomes
            that; without, it is an error.
    """

    def __init__(self, symbols: Iterable[str], *, specials: Sequence[str] = SPECIALS) -> None:
        self.specials = tuple(specials)
        self.symbols = (*self.specials, *symbols)
        self._ids = {symbol: index for index, symbol in enumerate(self.symbols)}
        if len(self._ids) < len(self.symbols):
            twice = sorted(symbol for symbol, count in Counter(self.symbols).items() if count > 1)
            raise ValueError(f"a vocabulary lists each symbol once; these come twice: {twice[:5]}")

    @classmethod
    def build(
        cls,
        sequences: Iterable[Iterable[str]],
        *,
        specials: Sequence[str] = SPECIALS,
        min_count: int = 1,
        max_size: int | None = None,
    ) -> "Vocabulary":
        """Take the symbols that occur at least `min_count` times, the most frequent first, ties in symbol order.

        `max_size` bounds the whole vocabulary, specials included.
        """
        counts = Counter(symbol for sequence in sequences for symbol in sequence)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        kept = [symbol for symbol, count in ranked if count >= min_count and symbol not in specials]
        if max_size is not None:
            if max_size < len(specials):
                raise ValueError(f"max_size={max_size} has no room for the {len(specials)} special symbols")
            kept = kept[: max_size - len(specials)]
        return cls(kept, specials=specials)

    def __len__(self) -> int:
        return len(self.symbols)

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.symbols == other.symbols and self.specials == other.specials

    def __hash__(self) -> int:
        return hash((self.symbols, self.specials))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} symbols, {len(self.specials)} of them special)"

    def id_of(self, symbol: str) -> int:
        """The symbol's id; the id of "<unk>" for an unknown one, where there is such a special."""
        index = self._ids.get(symbol)
        if index is None:
            index = self._ids.get(UNK) if UNK in self.specials else None
        if index is None:
            raise ValueError(
                f"{symbol!r} is not among the {len(self)} symbols of this vocabulary, and it has no {UNK} to stand in. "
                "Build the vocabulary from text that has it."
            )
        return index

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Symbols to ids."""
        return [self.id_of(symbol) for symbol in symbols]

    def decode(self, ids: Iterable[int], *, skip_specials: bool = True) -> list[str]:
        """Ids (a list or a tensor of one dimension) to symbols, without the special ones unless asked for."""
        first = len(self.specials) if skip_specials else 0
        symbols = []
        for index in map(int, ids):
            if not 0 <= index < len(self.symbols):
                raise ValueError(f"id {index} is outside this vocabulary of {len(self)} symbols (0 to {len(self) - 1})")
            if index >= first:
                symbols.append(self.symbols[index])
        return symbols

    @property
    def special_ids(self) -> dict[str, int]:
        """The special symbols with their ids."""
        return {symbol: self._ids[symbol] for symbol in self.specials}

    def _special(self, symbol: str) -> int:
        if symbol not in self.specials:
            raise ValueError(
                f"this vocabulary has no special symbol {symbol}: build it with specials=(..., {symbol!r})"
            )
        return self._ids[symbol]

    @property
    def pad_id(self) -> int:
        """The id that fills a batch up."""
        return self._special(PAD)

    @property
    def bos_id(self) -> int:
        """The id that a decoder starts from."""
        return self._special(BOS)

    @property
    def eos_id(self) -> int:
        """The id that ends a sequence."""
        return self._special(EOS)

    @property
    def unk_id(self) -> int:
        """The id of every symbol that is not in the list."""
        return self._special(UNK)
