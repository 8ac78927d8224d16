"""Text to image: a GPT over a caption's words and, after them, the ids of an image."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.cache import KeyValueCache
from lecturelib.layers.checks import check_config, check_heads, check_tokens
from lecturelib.layers.precision import precise
from lecturelib.models.gpt import GPT, GPTConfig


@dataclass(frozen=True, kw_only=True)
class TextToImageConfig:
    """The sizes of a text-to-image transformer; `d_ff` is 4 · d_model when left out.

    Args:
        vocab_size: words, padding included
        num_codes: ids of image tokens, the size of a tokenizer's codebook
        caption_len: words of a caption; shorter ones are padded at their end
        image_len: tokens of an image, N
    """

    vocab_size: int
    num_codes: int
    caption_len: int
    image_len: int
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int | None = None
    dropout: float = 0.1

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "num_codes", "caption_len", "image_len", "d_model", "num_heads", "num_layers")
        check_config(self, sizes=sizes if self.d_ff is None else (*sizes, "d_ff"))
        check_heads(self.d_model, self.num_heads, "TextToImageConfig")

    @property
    def gpt(self) -> GPTConfig:
        """The GPT inside: one vocabulary for words and codes, room for a caption and an image."""
        return GPTConfig(
            vocab_size=self.vocab_size + self.num_codes,
            max_len=self.caption_len + self.image_len,
            d_model=self.d_model,
            num_heads=self.num_heads,
            num_layers=self.num_layers,
            d_ff=self.d_ff,
            dropout=self.dropout,
        )


class TextToImage(nn.Module):
    """Go on from a caption with the tokens of an image, as a language model goes on from a prompt.

    Word w is token w of one joint vocabulary and code k is token vocab_size + k. The sequence is the caption, then the
    codes of the image in reading order. What `start` and `step` give are logits of codes alone, so

        drawn = decode(model, read_prompt(model, captions), max_len=model.config.image_len, choose=Sampler())

    are codes that a `VQTokenizer` paints.

    Paper: Ramesh et al. 2021 [ramesh2021zero], Section 2.2.
    Differs: full causal attention in every layer where the paper's layers look along rows, columns and neighbourhoods;
    one table of positions where it has one for words, one for rows and one for columns; padding is one token where it
    learns one for each position. Captions are padded to one length, so that each region has its own position, as there.
    """

    def __init__(self, config: TextToImageConfig) -> None:
        super().__init__()
        self.config = config
        self.gpt = GPT(config.gpt)

    @property
    def max_len(self) -> int:
        """The longest sequence it reads: a caption and an image."""
        return self.config.caption_len + self.config.image_len

    def forward(self, captions: Tensor, codes: Tensor) -> Tensor:
        """Logits of the next token, word or code, at every position of the joint sequence.

        Shapes: captions (B, caption_len), codes (B, up to N) -> (B, caption_len + N, vocab_size + num_codes)
        """
        return self.gpt(self.join(captions, codes))

    def join(self, captions: Tensor, codes: Tensor) -> Tensor:
        """One sequence of the joint vocabulary: (B, caption_len), (B, N) -> (B, caption_len + N)."""
        self._check(captions)
        check_tokens(codes, self.config.num_codes, "codes", batch=len(captions))
        if codes.shape[1] > self.config.image_len:
            raise ValueError(f"an image has at most {self.config.image_len} codes, got {codes.shape[1]}")
        return torch.cat([captions, codes + self.config.vocab_size], dim=1)

    @torch.no_grad()
    def start(self, captions: Tensor) -> tuple[Tensor, KeyValueCache]:
        """Read captions; give the logits of the first code, and the state to go on from.

        Shapes: captions (B, caption_len) -> (B, num_codes), state
        """
        self._check(captions)
        logits, state = self.gpt.start(captions)
        return logits[:, self.config.vocab_size :], state

    @torch.no_grad()
    def step(self, codes: Tensor, state: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        """Read one more code in every row.

        Shapes: codes (B,) -> logits of the next one (B, num_codes), state
        """
        logits, state = self.gpt.step(codes + self.config.vocab_size, state)
        return logits[:, self.config.vocab_size :], state

    def _check(self, captions: Tensor) -> None:
        check_tokens(captions, self.config.vocab_size, "captions")
        if captions.shape[1] != self.config.caption_len:
            raise ValueError(
                f"captions must be padded to caption_len={self.config.caption_len} words, got {captions.shape[1]}"
            )


def text_to_image_loss(model: TextToImage, captions: Tensor, codes: Tensor, *, image_weight: float = 7 / 8) -> Tensor:
    """Cross-entropy of the codes and, with the rest of the weight, of the words after the first.

    Paper: Ramesh et al. 2021 [ramesh2021zero], Section 2.2: the codes count 7/8 and the words 1/8.
    Differs: the first word has no token before it and is not asked for.
    """
    tokens = model.join(captions, codes)  # (B, T)
    logits = model.gpt(tokens[:, :-1])  # (B, T - 1, V)
    scores = F.cross_entropy(precise(logits.flatten(0, 1)), tokens[:, 1:].flatten(), reduction="none")
    words, painted = scores.view(len(tokens), -1).split((captions.shape[1] - 1, codes.shape[1]), dim=1)
    return (1 - image_weight) * words.mean() + image_weight * painted.mean()
