"""The transformer block: a mixer, a feed-forward net, and the wiring of the residual stream around them."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.cache import LayerCache
from lecturelib.layers.inference import only_result_matters

Activation = Callable[..., Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


def find_activation(name: str) -> Activation:
    """The nonlinearity of a name, or an error that says which there are."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)}, got {name!r}")
    return ACTIVATIONS[name]


class FeedForward(nn.Module):
    """Widen each token, bend it, and narrow it again; every token alike, and none sees another.

    Paper: Vaswani et al. 2017 [vaswani2017attention], Equation 2.
    Differs: the activation is a part; dropout after it, as in the authors' code and in `torch.nn`.

    Args:
        d_model: width in and out
        d_ff: width between
        activation: relu in the paper; GPT and BERT have gelu
        dropout: after the activation

    Shapes: (..., D) -> (..., D)
    """

    def __init__(self, d_model: int, d_ff: int, *, activation: Activation = torch.relu, dropout: float = 0.0) -> None:
        super().__init__()
        self.widen = nn.Linear(d_model, d_ff)
        self.narrow = nn.Linear(d_ff, d_model)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Two matrices with a bend between them."""
        hidden = self._bend(self.widen(x))
        return self.narrow(self.dropout(hidden) if self.training else hidden)

    def _bend(self, hidden: Tensor) -> Tensor:
        is_gelu = getattr(self.activation, "func", self.activation) is F.gelu  # a `partial` of it, too
        if is_gelu and only_result_matters(self.widen):
            return self.activation(hidden, out=hidden)  # in place: a second tensor of this size costs page faults
        return self.activation(hidden)


class Wiring(nn.Module):
    """How one sublayer f sits on the residual stream: x becomes `join(x, f(enter(x)))`. See `PreNorm`, `PostNorm`.

    Paper: the two known wirings are compared by Xiong et al. 2020 [xiong2020layer].
    Differs: nothing.

    Args:
        d_model: width of the stream
        dropout: of the sublayer's output
        eps: of the layer norm
        branch: what the output passes through before it is added, such as `StochasticDepth` or `LayerScale`
    """

    def __init__(
        self, d_model: int, *, dropout: float = 0.0, eps: float = 1e-5, branch: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=eps)
        self.dropout = nn.Dropout(dropout)
        self.branch = branch

    def enter(self, x: Tensor) -> Tensor:
        """What the sublayer reads."""
        raise NotImplementedError

    def join(self, x: Tensor, out: Tensor) -> Tensor:
        """The stream after the sublayer's output has been added."""
        raise NotImplementedError

    def through_branch(self, out: Tensor) -> Tensor:
        """The sublayer's output after dropout and the branch, both skipped where they would change nothing."""
        out = self.dropout(out) if self.training else out
        return out if self.branch is None else self.branch(out)

    @staticmethod
    def final_norm(d_model: int, *, eps: float = 1e-5) -> nn.Module:
        """What must follow the last block of a stack that is wired so."""
        raise NotImplementedError


class PreNorm(Wiring):
    """Normalise what the sublayer reads and leave the stream itself alone: x + f(norm(x)).

    Paper: Xiong et al. 2020 [xiong2020layer], Figure 1b; GPT-2 [radford2019language] is wired so.
    Differs: nothing.
    """

    def enter(self, x: Tensor) -> Tensor:
        """The normalised stream."""
        return self.norm(x)

    def join(self, x: Tensor, out: Tensor) -> Tensor:
        """The stream plus the output, not normalised."""
        return x + self.through_branch(out)

    @staticmethod
    def final_norm(d_model: int, *, eps: float = 1e-5) -> nn.Module:
        """A norm, because the stream was never normalised."""
        return nn.LayerNorm(d_model, eps=eps)


class PostNorm(Wiring):
    """Normalise the stream after every addition: norm(x + f(x)).

    Paper: Vaswani et al. 2017 [vaswani2017attention], Section 3.1; GPT-1 and BERT are wired so.
    Differs: nothing.
    """

    def enter(self, x: Tensor) -> Tensor:
        """The stream as it is."""
        return x

    def join(self, x: Tensor, out: Tensor) -> Tensor:
        """The sum, normalised."""
        return self.norm(x + self.through_branch(out))

    @staticmethod
    def final_norm(d_model: int, *, eps: float = 1e-5) -> nn.Module:
        """Nothing: the last block's output is normalised already."""
        return nn.Identity()


WIRINGS: dict[str, type[Wiring]] = {"pre_norm": PreNorm, "post_norm": PostNorm}


class Block(nn.Module):
    """One layer of an encoder, or of a decoder-only model: tokens mix, then each is transformed by itself.

    Pre-norm and post-norm are the same block with another `wiring`:

        Block(MultiHeadAttention(d_model, num_heads), FeedForward(d_model, d_ff), lambda: PostNorm(d_model))

    Paper: Vaswani et al. 2017 [vaswani2017attention], Section 3.1.
    Differs: nothing, wired with `PostNorm`.

    Args:
        mixer: called as `MultiHeadAttention` is
        feed_forward: (B, T, D) -> (B, T, D)
        wiring: makes a new `PreNorm`, `PostNorm` or other `Wiring` for each of the two sublayers
    """

    def __init__(self, mixer: nn.Module, feed_forward: nn.Module, wiring: Callable[[], Wiring]) -> None:
        super().__init__()
        self.mixer, self.mixer_wiring = mixer, wiring()
        self.feed_forward, self.feed_forward_wiring = feed_forward, wiring()

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
        need_weights: bool = False,
        cache: LayerCache | None = None,
        memory: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Arguments as those of `MultiHeadAttention`, and one more.

        Args:
            memory: (B, M, D) the stream at M earlier tokens, read with x but not written (segment recurrence)

        Shapes: x (B, T, D) -> (B, T, D), or a pair with the weights (B, H, T, Tk)
        """
        around = self.mixer_wiring
        key = None if memory is None else around.enter(torch.cat((memory, x), dim=1))  # (B, M + T, D)
        mixed = self.mixer(around.enter(x), key, mask=mask, is_causal=is_causal, need_weights=need_weights, cache=cache)
        mixed, weights = mixed if need_weights else (mixed, None)
        x = around.join(x, mixed)
        around = self.feed_forward_wiring
        x = around.join(x, self.feed_forward(around.enter(x)))
        return x if weights is None else (x, weights)


class DecoderWeights(NamedTuple):
    """What one decoder block attended to: earlier targets (B, H, T, T), and the source (B, H, T, S)."""

    target: Tensor
    source: Tensor


class DecoderBlock(nn.Module):
    """One layer of a decoder: look back over the target, look across at the source, then think.

    Paper: Vaswani et al. 2017 [vaswani2017attention], Section 3.1.
    Differs: nothing, wired with `PostNorm`.

    Args:
        mixer: self-attention over the target
        cross: attention from the target to the source
        feed_forward: (B, T, D) -> (B, T, D)
        wiring: makes a new `PreNorm`, `PostNorm` or other `Wiring` for each of the three sublayers
    """

    def __init__(
        self,
        mixer: nn.Module,
        cross: MultiHeadAttention,
        feed_forward: nn.Module,
        wiring: Callable[[], Wiring],
    ) -> None:
        super().__init__()
        self.mixer, self.mixer_wiring = mixer, wiring()
        self.cross, self.cross_wiring = cross, wiring()
        self.feed_forward, self.feed_forward_wiring = feed_forward, wiring()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, DecoderWeights]:
        """Read the whole target at once, as in training.

        Args:
            x: target (B, T, D)
            memory: the encoder's output (B, S, D)
            mask: True = may attend, broadcasts to (B, T, T)
            memory_mask: True = may attend, broadcasts to (B, T, S)
            is_causal: a target sees itself and those before it

        Shapes: -> (B, T, D), or a pair with the weights of both attentions
        """
        mixed = self.mixer(self.mixer_wiring.enter(x), mask=mask, is_causal=is_causal, need_weights=need_weights)
        mixed, target_weights = mixed if need_weights else (mixed, None)
        x = self.mixer_wiring.join(x, mixed)
        query = self.cross_wiring.enter(x)
        if target_weights is None:
            x = self.cross_wiring.join(x, self.cross(query, memory, mask=memory_mask))
            return self._think(x)
        crossed, source_weights = self.cross(query, memory, mask=memory_mask, need_weights=True)
        x = self.cross_wiring.join(x, crossed)
        return self._think(x), DecoderWeights(target_weights, source_weights)

    def step(
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor],
        memory_mask: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        cache: LayerCache,
    ) -> Tensor:
        """Read the newest targets only, the earlier ones from the cache; `memory` is `cross.project_memory(...)`.

        Shapes: x (B, T, D) -> (B, T, D), T being 1 as a rule
        """
        x = self.mixer_wiring.join(x, self.mixer(self.mixer_wiring.enter(x), mask=mask, cache=cache))
        x = self.cross_wiring.join(x, self.cross.read_memory(self.cross_wiring.enter(x), *memory, memory_mask))
        return self._think(x)

    def _think(self, x: Tensor) -> Tensor:
        return self.feed_forward_wiring.join(x, self.feed_forward(self.feed_forward_wiring.enter(x)))
