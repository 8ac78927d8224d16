"""ChatML: how a conversation is written down for a model that was tuned on conversations."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lecturelib.tokens.bpe import BPETokenizer

SMOLLM2_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


class Message(NamedTuple):
    """Who speaks, "system", "user" or "assistant", and what they say."""

    role: str
    content: str


class ChatML:
    """Turn messages into token ids: each between <|im_start|> and <|im_end|>, the speaker's role in its first line.

    What people say is never read as one of those symbols, so nobody can close a message from within and speak as
    another.

    Paper: none; the template is the one in SmolLM2's own file, which is OpenAI's ChatML.
    Differs: nothing for text without the symbols.

    Args:
        tokenizer: one with the two symbols among its specials
        system: what the model is told first, where the messages do not begin with a system message
    """

    START, END = "<|im_start|>", "<|im_end|>"

    def __init__(self, tokenizer: BPETokenizer, *, system: str = SMOLLM2_SYSTEM) -> None:
        missing = [symbol for symbol in (self.START, self.END) if symbol not in tokenizer.specials]
        if missing:
            raise ValueError(f"this tokenizer has no symbol {missing[0]}, so its model was not tuned on ChatML")
        self.tokenizer, self.system = tokenizer, system

    @property
    def end_id(self) -> int:
        """The token that ends a message, and so an answer."""
        return self.tokenizer.specials[self.END]

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """The conversation so far, and the line that says that the assistant is next."""
        if not messages or messages[0].role != "system":
            messages = [Message("system", self.system), *messages]
        ids: list[int] = []
        for message in messages:
            ids += self._open(message.role) + self.tokenizer.encode(message.content)
            ids += [self.end_id, *self.tokenizer.encode("\n")]
        return ids + self._open("assistant")

    def decode(self, ids: Iterable[int]) -> str:
        """The text of an answer."""
        return self.tokenizer.decode(ids)

    def _open(self, role: str) -> list[int]:
        return [self.tokenizer.specials[self.START], *self.tokenizer.encode(f"{role}\n")]
