r"""Cut text into the pieces that byte-pair merges never cross: words with the space before them, numbers, the rest.

GPT-2's pattern is

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

and `\p{L}` (letter) and `\p{N}` (number) are beyond Python's `re`. We write the two classes out from `unicodedata`,
some 800 ranges that `re` compiles to a table, so no other package is needed. White space is Unicode's, as in
GPT-2's engine: Python's own `\s` also counts the four separators U+001C to U+001F.

Differs: letters and numbers are those of Python's Unicode version; a script that is newer than it counts as the rest.
"""

import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping

_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


def _classes() -> tuple[str, str]:
    """All letters and all numbers, each as the inside of a character class: 'A-Za-z...'."""
    ranges: dict[str, list[str]] = {"L": [], "N": []}
    codes = range(sys.maxunicode + 1)
    for kind, run in itertools.groupby(codes, key=lambda code: unicodedata.category(chr(code))[0]):
        if kind in ranges:
            first, *rest = run
            ranges[kind].append(f"\\U{first:08x}-\\U{rest[-1] if rest else first:08x}")
    return "".join(ranges["L"]), "".join(ranges["N"])


@functools.cache
def gpt2_pattern() -> re.Pattern[str]:
    """GPT-2's pattern, compiled once; the pieces it finds, joined, are the text."""
    letter, number = _classes()
    return re.compile(
        rf"'s|'t|'re|'ve|'m|'ll|'d| ?[{letter}]+| ?[{number}]+| ?[^{_SPACE}{letter}{number}]+"
        rf"|[{_SPACE}]+(?![^{_SPACE}])|[{_SPACE}]+"
    )


@functools.cache
def _digit_pattern() -> re.Pattern[str]:
    return re.compile(f"([{_classes()[1]}])")


def split_digits(text: str) -> list[str]:
    """The pieces of a text as SmolLM cuts it: every digit alone first, then GPT-2's pattern on what is between."""
    between = _digit_pattern().split(text)  # odd places are digits
    return [piece for part in between for piece in gpt2_pattern().findall(part)]


PRETOKENS: Mapping[str, Callable[[str], list[str]]] = {
    "gpt2": lambda text: gpt2_pattern().findall(text),
    "smollm": split_digits,
}
"""Ways to cut text before merging, by the name that GGUF files call them."""
