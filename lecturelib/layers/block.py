"""The transformer block: a mixer, a feed-forward net, and the wiring of the residual stream around them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import Memory

Activation = Callable[..., Tensor]
GELU_TANH = partial(F.gelu, approximate="tanh")
ACTIVATIONS: dict[str, Activation] = {"relu": torch.relu, "gelu": F.gelu, "gelu_tanh": GELU_TANH}


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
        return self.narrow(self.dropout(self.activation(self.widen(x))))


class Wiring(nn.Module):
    """How one sublayer f sits on the residual stream: x becomes `join(x, f(enter(x)))`. See `PreNorm`, `PostNorm`.

    Paper: the two known wirings are compared by Xiong et al. 2020 [xiong2020layer].
    Differs: nothing.

    Args:
        d_model: width of the stream
        dropout: of the sublayer's output
        eps: of the norm
        norm: what makes it, from the width and eps; a layer norm, or `RMSNorm`
        branch: what the output passes through before it is added, such as `StochasticDepth`
    """

    def __init__(
        self, d_model: int, *, dropout: float = 0.0, eps: float = 1e-5, norm: Any = nn.LayerNorm, branch: Any = None
    ) -> None:
        super().__init__()
        self.norm: nn.Module = norm(d_model, eps=eps)
        self.dropout = nn.Dropout(dropout)
        self.branch = branch

    def enter(self, x: Tensor) -> Tensor:
        """What the sublayer reads: the stream as it is, or normalised."""
        return x

    def join(self, x: Tensor, out: Tensor) -> Tensor:
        """The stream after the sublayer's output has been added."""
        raise NotImplementedError

    def through_branch(self, out: Tensor) -> Tensor:
        """The sublayer's output after dropout and the branch."""
        out = self.dropout(out)
        return out if self.branch is None else self.branch(out)

    @staticmethod
    def final_norm(d_model: int, *, eps: float = 1e-5) -> nn.Module:
        """What must follow the last block of a stack that is wired so: a norm, if the stream itself never had one."""
        return nn.LayerNorm(d_model, eps=eps)


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


class PostNorm(Wiring):
    """Normalise the stream after every addition: norm(x + f(x)).

    Paper: Vaswani et al. 2017 [vaswani2017attention], Section 3.1; GPT-1 and BERT are wired so.
    Differs: nothing.
    """

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
        cache: Memory | None = None,
        memory: Tensor | None = None,
    ) -> Tensor:
        """Arguments as those of `MultiHeadAttention`; `memory` (B, M, D) is read with x (B, T, D) but not written."""
        around = self.mixer_wiring
        key = None if memory is None else around.enter(torch.cat((memory, x), dim=1))  # (B, M + T, D)
        x = around.join(x, self.mixer(around.enter(x), key, mask=mask, is_causal=is_causal, cache=cache))
        around = self.feed_forward_wiring
        return around.join(x, self.feed_forward(around.enter(x)))
