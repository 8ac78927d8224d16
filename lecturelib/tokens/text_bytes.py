"""Text to UTF-8 and back, for every string that Python can hold.

A Python string may contain a lone surrogate (half of a UTF-16 pair, U+D800 to U+DFFF), which UTF-8 proper has no
bytes for. We write the three bytes its number would have, and read them back as the same surrogate.
"""


def bytes_of(text: str) -> bytes:
    """The text in UTF-8, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def text_of(content: bytes) -> str:
    """The inverse of `bytes_of`. Bytes that are no text, as a model may well write, turn into U+FFFD."""
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return content.decode("utf-8", "replace")
