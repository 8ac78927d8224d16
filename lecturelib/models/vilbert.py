"""ViLBERT: one stream of words, one of image regions, and blocks in which each reads the other (co-attention)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PostNorm
from lecturelib.layers.checks import check_config, check_heads, check_lengths, check_tokens
from lecturelib.layers.masked_heads import EPS, Guesses, MaskedHead, check_regions
from lecturelib.layers.masks import padding_mask
from lecturelib.layers.positions.added import LearnedPositions
from lecturelib.models.bert import initialise_bert


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """The sizes of one stream."""

    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int

    def __post_init__(self) -> None:
        check_config(self, sizes=("num_layers", "d_ff"), dropout=())
        check_heads(self.d_model, self.num_heads, "StreamConfig")


@dataclass(frozen=True, kw_only=True)
class ViLBERTConfig:
    """The sizes of a ViLBERT: each block of the image stream has a co-attention before it, so has one of the text."""

    vocab_size: int
    max_len: int
    region_dim: int
    text: StreamConfig
    image: StreamConfig
    co_dim: int
    co_heads: int
    num_region_classes: int = 1601
    dropout: float = 0.1

    def __post_init__(self) -> None:
        check_config(self, sizes=("vocab_size", "max_len", "region_dim", "num_region_classes"))
        check_heads(self.co_dim, self.co_heads, "ViLBERTConfig, with co_dim for d_model and co_heads for num_heads")
        if self.text.num_layers < self.image.num_layers:
            raise ValueError(
                "ViLBERTConfig: the text needs at least as many layers as the image, "
                f"got text.num_layers={self.text.num_layers} and image.num_layers={self.image.num_layers}"
            )


VILBERT_BASE = ViLBERTConfig(
    vocab_size=30_522,
    max_len=512,
    region_dim=2048 + 5,
    text=StreamConfig(d_model=768, num_heads=12, num_layers=12, d_ff=3072),
    image=StreamConfig(d_model=1024, num_heads=8, num_layers=6, d_ff=1024),
    co_dim=1024,
    co_heads=8,
)


class CoAttention(MultiHeadAttention):
    """Attention from one stream to another: the reader, what it reads, and the heads may all have their own widths.

    Paper: Lu et al. 2019 [lu2019vilbert], "Co-Attentional Transformer Layers".
    Differs: nothing.

    Args:
        d_model: width of the reader
        kv_dim: width of what it reads
        co_dim: of queries, keys and values, all heads together
        num_heads: must divide co_dim

    Shapes: query (B, Tq, d_model), key (B, Tk, kv_dim) -> (B, Tq, d_model)
    """

    def __init__(self, d_model: int, kv_dim: int, co_dim: int, num_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__(co_dim, num_heads, kv_dim=kv_dim, dropout=dropout)
        self.d_model = d_model
        self.query_proj, self.out_proj = nn.Linear(d_model, co_dim), nn.Linear(co_dim, d_model)


class ReadingBlock(nn.Module):
    """A post-norm block that reads a source in place of itself: attention to the source, then a feed-forward net.

    Paper: Lu et al. 2019 [lu2019vilbert]: one half of a co-attentional transformer layer.
    Differs: nothing.

    Shapes: x (B, Tq, d_model), source (B, Tk, kv_dim) -> (B, Tq, d_model)
    """

    def __init__(self, stream: StreamConfig, kv_dim: int, config: ViLBERTConfig) -> None:
        super().__init__()
        wiring = partial(PostNorm, stream.d_model, dropout=config.dropout, eps=EPS)
        self.attention = CoAttention(stream.d_model, kv_dim, config.co_dim, config.co_heads, dropout=config.dropout)
        self.attention_wiring = wiring()
        self.feed_forward = FeedForward(stream.d_model, stream.d_ff, activation=F.gelu)
        self.feed_forward_wiring = wiring()

    def forward(self, x: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
        """Read `source`, of which `mask` (B, 1, Tk) says what may be read."""
        x = self.attention_wiring.join(x, self.attention(x, source, mask=mask))
        return self.feed_forward_wiring.join(x, self.feed_forward(x))


class CoBlock(nn.Module):
    """Two streams read each other: words with their queries the regions' keys and values, and regions those of words.

    Both read what the other was before the block.

    Paper: Lu et al. 2019 [lu2019vilbert], "Co-Attentional Transformer Layers".
    Differs: nothing.

    Shapes: words (B, T, Dw), regions (B, N, Dr) -> the same
    """

    def __init__(self, config: ViLBERTConfig) -> None:
        super().__init__()
        self.text = ReadingBlock(config.text, config.image.d_model, config)
        self.image = ReadingBlock(config.image, config.text.d_model, config)

    def forward(
        self, words: Tensor, regions: Tensor, word_mask: Tensor | None, region_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Both streams after they have read each other; masks (B, 1, T) and (B, 1, N), True = may be read."""
        return self.text(words, regions, region_mask), self.image(regions, words, word_mask)


class ApartBlock(nn.Module):
    """A `CoBlock` without the crossing: each stream reads itself, so that words and regions never meet.

    Paper: the ablation of Lu et al. 2019 [lu2019vilbert] that the authors' code calls `with_coattention=False`.
    Differs: there the block is left out; here it stays, so that both models have the same size.

    Shapes: words (B, T, Dw), regions (B, N, Dr) -> the same
    """

    def __init__(self, config: ViLBERTConfig) -> None:
        super().__init__()
        self.text = ReadingBlock(config.text, config.text.d_model, config)
        self.image = ReadingBlock(config.image, config.image.d_model, config)

    def forward(
        self, words: Tensor, regions: Tensor, word_mask: Tensor | None, region_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Both streams, each after it has read itself."""
        return self.text(words, words, word_mask), self.image(regions, regions, region_mask)


class ViLBERTOutput(NamedTuple):
    """Words (B, T, Dw) and regions (B, N, Dr) in context, and from the first of each one vector (B, co_dim)."""

    words: Tensor
    regions: Tensor
    pooled_words: Tensor
    pooled_regions: Tensor


class ViLBERT(nn.Module):
    """Read a text and the regions of an image in two streams that look at each other from time to time.

    Words go through their first blocks alone. Then, as often as the image stream has blocks: a `CoBlock`, and a block
    of self-attention in each stream.

    Paper: Lu et al. 2019 [lu2019vilbert].
    Differs: no token types, which the authors' code has and never uses for captions. A region's features and the five
    numbers of its place come as one vector and are projected by one matrix, which is the sum of the authors' two.

    Args:
        connect: what makes a block that both streams go through, from the config: `CoBlock`, or `ApartBlock`

    Shapes: tokens (B, T), regions (B, N, F) -> words (B, T, Dw), regions (B, N, Dr), and both pooled (B, co_dim)
    """

    def __init__(self, config: ViLBERTConfig, connect: Callable[[ViLBERTConfig], nn.Module] = CoBlock) -> None:
        super().__init__()
        self.config = config
        text, image = config.text, config.image
        self.token_embedding = nn.Embedding(config.vocab_size, text.d_model)
        self.positions = LearnedPositions(config.max_len, text.d_model)
        self.region_proj = nn.Linear(config.region_dim, image.d_model)
        self.text_norm, self.image_norm = (nn.LayerNorm(stream.d_model, eps=EPS) for stream in (text, image))
        self.dropout = nn.Dropout(config.dropout)
        self.text_blocks = nn.ModuleList(_block(text, config.dropout) for _ in range(text.num_layers))
        self.image_blocks = nn.ModuleList(_block(image, config.dropout) for _ in range(image.num_layers))
        self.connections = nn.ModuleList(connect(config) for _ in range(image.num_layers))
        self.text_pooler, self.image_pooler = (nn.Linear(stream.d_model, config.co_dim) for stream in (text, image))
        self.apply(initialise_bert)

    def forward(
        self, tokens: Tensor, regions: Tensor, lengths: Tensor | None = None, counts: Tensor | None = None
    ) -> ViLBERTOutput:
        """Encode texts with their images.

        Args:
            tokens: (B, T), the first of each row being the one that is pooled
            regions: (B, N, F), the first of each row being the whole image, which is pooled
            lengths: (B,) real tokens in each row; all of them when left out
            counts: (B,) real regions in each row; all of them when left out
        """
        self._check(tokens, regions, lengths, counts)
        word_mask = None if lengths is None else padding_mask(lengths, tokens.shape[1])  # (B, 1, T)
        region_mask = None if counts is None else padding_mask(counts, regions.shape[1])  # (B, 1, N)
        where = torch.arange(tokens.shape[1], device=tokens.device)
        words = self.dropout(self.text_norm(self.token_embedding(tokens) + self.positions(where)))  # (B, T, Dw)
        seen = self.dropout(self.image_norm(self.region_proj(regions)))  # (B, N, Dr)
        alone = len(self.text_blocks) - len(self.image_blocks)
        for block in self.text_blocks[:alone]:
            words = block(words, word_mask)
        for connect, text, image in zip(self.connections, self.text_blocks[alone:], self.image_blocks, strict=True):
            words, seen = connect(words, seen, word_mask, region_mask)
            words, seen = text(words, word_mask), image(seen, region_mask)
        return ViLBERTOutput(words, seen, self.text_pooler(words[:, 0]).relu(), self.image_pooler(seen[:, 0]).relu())

    def _check(self, tokens: Tensor, regions: Tensor, lengths: Tensor | None, counts: Tensor | None) -> None:
        check_tokens(tokens, self.config.vocab_size)
        if not 1 <= tokens.shape[1] <= self.config.max_len:
            raise ValueError(
                f"a text of {tokens.shape[1]} tokens does not fit; 1 to max_len={self.config.max_len} are allowed"
            )
        check_regions(regions, self.config.region_dim, len(tokens))
        if lengths is not None:
            check_lengths(lengths, *tokens.shape)
        if counts is not None:
            check_lengths(counts, regions.shape[0], regions.shape[1], "counts")


class ViLBERTPretraining(nn.Module):
    """A ViLBERT with three heads: which word was masked, what is in a masked region, do text and image match?

    The last reads the product of the two pooled vectors, number by number.

    Paper: Lu et al. 2019 [lu2019vilbert], "Training Tasks and Objectives".
    Differs: no dropout before the last head.
    """

    def __init__(self, config: ViLBERTConfig, connect: Callable[[ViLBERTConfig], nn.Module] = CoBlock) -> None:
        super().__init__()
        self.config = config
        self.trunk = ViLBERT(config, connect)
        self.words = MaskedHead(config.text.d_model, config.vocab_size)
        self.regions = MaskedHead(config.image.d_model, config.num_region_classes)
        self.matches = nn.Linear(config.co_dim, 2)
        for head in (self.words, self.regions, self.matches):
            head.apply(initialise_bert)
        self.words.output.weight = self.trunk.token_embedding.weight

    def forward(
        self, tokens: Tensor, regions: Tensor, lengths: Tensor | None = None, counts: Tensor | None = None
    ) -> Guesses:
        """Arguments as those of `ViLBERT`.

        Shapes: tokens (B, T), regions (B, N, F) -> words (B, T, V), regions (B, N, C), matches (B, 2)
        """
        words, seen, pooled_words, pooled_regions = self.trunk(tokens, regions, lengths, counts)
        return Guesses(self.words(words), self.regions(seen), self.matches(pooled_words * pooled_regions))


def _block(stream: StreamConfig, dropout: float) -> Block:
    """A block of one stream, as BERT's."""
    return Block(
        MultiHeadAttention(stream.d_model, stream.num_heads, dropout=dropout),
        FeedForward(stream.d_model, stream.d_ff, activation=F.gelu),
        partial(PostNorm, stream.d_model, dropout=dropout, eps=EPS),
    )
