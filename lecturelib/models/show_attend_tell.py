"""Captions by looking: before each word the decoder takes a glimpse at the image, soft or hard."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lecturelib.layers.additive import AdditiveAttention
from lecturelib.layers.cells import LSTM
from lecturelib.layers.checks import check_config, check_ids, check_tokens
from lecturelib.layers.precision import precise
from lecturelib.layers.state import in_precision_of, select_rows
from lecturelib.models.conv_encoder import VGG19, ConvEncoder, ConvEncoderConfig


@dataclass(frozen=True, kw_only=True)
class ShowAttendTellConfig:
    """Sizes of a `ShowAttendTell`; the image's regions are as wide as its encoder's last stage."""

    vocab_size: int
    image: ConvEncoderConfig = field(default_factory=ConvEncoderConfig)
    embedding_dim: int = 64
    hidden_dim: int = 128
    attention_dim: int = 64
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self, sizes=("vocab_size", "embedding_dim", "hidden_dim", "attention_dim"))


XU2015_COCO = ShowAttendTellConfig(
    vocab_size=10_000, image=VGG19, embedding_dim=512, hidden_dim=1800, attention_dim=512, dropout=0.5
)


class Glimpse(NamedTuple):
    """What one look gave: context (B, D), weights (B, N), and how likely the choice was: log_chosen (B,), 0 if none."""

    context: Tensor
    weights: Tensor
    log_chosen: Tensor


class SoftGlimpse(nn.Module):
    """Look everywhere a little: the average of all regions, by the softmax of their scores.

    Paper: Xu et al. 2015 [xu2015show], Section 4.2.
    Differs: nothing.

    Shapes: hidden (B, H), keys (B, N, A), grid (B, N, D) -> context (B, D), weights (B, N), log_chosen (B,)
    """

    def __init__(self, config: ShowAttendTellConfig) -> None:
        super().__init__()
        self.attention = AdditiveAttention(config.hidden_dim, config.image.d_model, config.attention_dim)

    def keys(self, grid: Tensor) -> Tensor:
        """What needs no query, done once for an image: (B, N, D) -> (B, N, A)."""
        return self.attention.key_proj(grid)

    def forward(self, hidden: Tensor, keys: Tensor, grid: Tensor) -> Glimpse:
        """One look."""
        context, weights = self.attention.attend(hidden.unsqueeze(1), keys, grid)  # (B, 1, D), (B, 1, N)
        return Glimpse(context.squeeze(1), weights.squeeze(1), hidden.new_zeros(hidden.shape[0]))


def draw_region(weights: Tensor) -> Tensor:
    """Draw one region of each image by its weight: (B, N) -> (B,)."""
    return torch.multinomial(precise(weights), 1).squeeze(1)


class HardGlimpse(SoftGlimpse):
    """Look at one region: drawn by its weight in training, the likeliest one afterwards.

    No gradient goes through a draw, so the scores learn by `Reinforce`.

    Paper: Xu et al. 2015 [xu2015show], Section 4.1.
    Differs: as there, a share of the looks in training is soft, which steadies the gradient; there it is drawn once for
    an image, here anew for every word.

    Args:
        soft_share: how likely a look is soft in training
        choose: (B, N) weights -> (B,) regions, in training
    """

    def __init__(
        self,
        config: ShowAttendTellConfig,
        *,
        soft_share: float = 0.5,
        choose: Callable[[Tensor], Tensor] = draw_region,
    ) -> None:
        super().__init__(config)
        if not 0 <= soft_share < 1:
            raise ValueError(f"HardGlimpse: soft_share={soft_share} must be in [0, 1); at 1 it is a SoftGlimpse")
        self.soft_share, self.choose = soft_share, choose

    def forward(self, hidden: Tensor, keys: Tensor, grid: Tensor) -> Glimpse:
        """One look."""
        average, weights, _ = super().forward(hidden, keys, grid)
        region = self.choose(weights.detach()) if self.training else weights.argmax(dim=1)  # (B,)
        context = grid[torch.arange(grid.shape[0], device=grid.device), region]  # (B, D)
        chosen = weights.gather(1, region[:, None]).squeeze(1)  # (B,)
        log_chosen = chosen.clamp_min(torch.finfo(chosen.dtype).tiny).log()
        if self.training and self.soft_share:
            soft = torch.rand(hidden.shape[0], device=hidden.device) < self.soft_share  # (B,)
            context = torch.where(soft[:, None], average, context)
            log_chosen = log_chosen.masked_fill(soft, 0.0)
        return Glimpse(context, weights, log_chosen)


class OneVector(nn.Module):
    """Look once: the whole grid is pressed into one vector, the same for every word. The bottleneck.

    Paper: the role of the image in Vinyals et al. 2015 [vinyals2015show].
    Differs: the vector is given to every step, not only to the first. It is the sum of two linear maps: one of the
    largest value of each feature, which finds what is there, and one of all regions, which may keep where it is.

    Args:
        regions: N, how many the grid has
    """

    def __init__(self, config: ShowAttendTellConfig, regions: int) -> None:
        super().__init__()
        self.what = nn.Linear(config.image.d_model, config.image.d_model)
        self.where = nn.Linear(regions * config.image.d_model, config.image.d_model)

    def keys(self, grid: Tensor) -> Tensor:
        """The one vector: (B, N, D) -> (B, 1, D)."""
        return (self.what(grid.amax(dim=1)) + self.where(grid.flatten(1))).unsqueeze(1)

    def forward(self, hidden: Tensor, keys: Tensor, grid: Tensor) -> Glimpse:
        """The same vector again; every region has the same weight."""
        weights = grid.new_full(grid.shape[:2], 1 / grid.shape[1])
        return Glimpse(keys.squeeze(1), weights, grid.new_zeros(grid.shape[0]))


@dataclass(frozen=True)
class CaptionState:
    """The decoder's LSTM state, and the image that it looks back at."""

    hidden: Tensor  # (B, H)
    cell: Tensor  # (B, H)
    grid: Tensor  # (B, N, D)
    keys: Tensor  # (B, N, A)

    def select(self, index: Tensor) -> "CaptionState":
        return select_rows(self, index)


class Written(NamedTuple):
    """Teacher forcing with a look at the looks: logits (B, T, V), weights (B, T, N), log_chosen (B, T)."""

    logits: Tensor
    weights: Tensor
    log_chosen: Tensor


class ShowAttendTell(nn.Module):
    """An LSTM writes a caption and, before each word, glimpses at the regions of the image.

    ẑ_t = β_t · glimpse(h_{t-1}, regions), β_t = σ(f(h_{t-1}));  h_t = LSTM([E y_{t-1}; ẑ_t], h_{t-1});
    logits_t = L_o(E y_{t-1} + L_h h_t + L_z ẑ_t)

    Paper: Xu et al. 2015 [xu2015show].
    Differs: the encoder is trained along, not taken from ImageNet; no doubly stochastic penalty; regions are compared
    by Bahdanau's additive score; L_o reads a tanh of its sum.

    Args:
        glimpse: a `SoftGlimpse` when left out; a `HardGlimpse`, or `OneVector` for a captioner without attention

    Shapes: images (B, channels, height, width), target_in (B, T) -> logits (B, T, V)
    """

    def __init__(self, config: ShowAttendTellConfig, glimpse: SoftGlimpse | OneVector | None = None) -> None:
        super().__init__()
        self.config = config
        embedding, hidden, width = config.embedding_dim, config.hidden_dim, config.image.d_model
        self.encoder = ConvEncoder(config.image)
        self.first_hidden, self.first_cell = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.embedding = nn.Embedding(config.vocab_size, embedding)
        self.glimpse = SoftGlimpse(config) if glimpse is None else glimpse
        self.gate = nn.Linear(hidden, 1)
        self.decoder = LSTM(embedding + width, hidden)
        self.from_hidden, self.from_context = nn.Linear(hidden, embedding), nn.Linear(width, embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(embedding, config.vocab_size)

    def forward(self, images: Tensor, target_in: Tensor) -> Tensor:
        """Teacher forcing: the logits of the next word at every position of the caption."""
        return self.write(images, target_in).logits

    def write(self, images: Tensor, target_in: Tensor) -> Written:
        """As `forward`, with where each word looked.

        Args:
            images: (B, channels, height, width)
            target_in: (B, T) the caption, shifted right by its start symbol
        """
        state = self.start(images)
        check_tokens(target_in, self.config.vocab_size, "target_in", batch=images.shape[0])
        embedded = self.embedding(target_in)  # (B, T, E)
        logits = [embedded.new_zeros(*target_in.shape[:1], 0, self.config.vocab_size)]  # if T is 0
        weights, chosen = [embedded.new_zeros(*target_in.shape[:1], 0, state.grid.shape[1])], []
        for word in embedded.unbind(1):
            scores, look, state = self._advance(word, state)
            logits.append(scores.unsqueeze(1))
            weights.append(look.weights.unsqueeze(1))
            chosen.append(look.log_chosen)
        log_chosen = torch.stack(chosen, 1) if chosen else embedded.new_zeros(target_in.shape)
        return Written(torch.cat(logits, 1), torch.cat(weights, 1), log_chosen)

    def start(self, images: Tensor) -> CaptionState:
        """Read the image: (B, channels, height, width) -> the state before the first word."""
        grid = self.encoder(images)  # (B, N, D)
        mean = grid.mean(dim=1)  # (B, D)
        return CaptionState(
            hidden=self.first_hidden(mean).tanh(),
            cell=self.first_cell(mean).tanh(),
            grid=grid,
            keys=self.glimpse.keys(grid),
        )

    def step(self, tokens: Tensor, state: CaptionState) -> tuple[Tensor, CaptionState]:
        """One word a row: (B,) -> logits of the next (B, V), and the state after it."""
        check_ids(tokens, self.config.vocab_size)
        state = in_precision_of(self.embedding.weight, state)
        logits, _, after = self._advance(self.embedding(tokens), state)
        return logits, after

    def _advance(self, embedded: Tensor, state: CaptionState) -> tuple[Tensor, Glimpse, CaptionState]:
        """Look with the state before the step, then step, then say: logits (B, V), the glimpse, the state after."""
        look = self.glimpse(state.hidden, state.keys, state.grid)
        context = self.gate(state.hidden).sigmoid() * look.context  # (B, D)
        hidden, cell = self.decoder(torch.cat([embedded, context], dim=-1), (state.hidden, state.cell))
        said = embedded + self.from_hidden(self.dropout(hidden)) + self.from_context(context)  # (B, E)
        logits = self.output(self.dropout(said.tanh()))  # (B, V)
        return logits, look, replace(state, hidden=hidden, cell=cell)
