"""Pooling: many states become one vector, by an average that is fixed, by the largest, by the last, or by attention."""

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import Attention, masked_softmax


class AttentionPooling(Attention):
    """Average states, each weighted by how well it answers a query that is learned and the same for every input.

    h̄_i = tanh(h_i W + b),  α = softmax_i(h̄_i · u),  out = Σ_i α_i h_i; with several queries u their outputs side by
    side. The result does not depend on the order of the states.

    Paper: Conneau et al. 2017 [conneau2017supervised], Section 3.2.3, with four queries there; Yang et al. 2016
    [yang2016hierarchical], Section 2.2, with one. W, b and u_w there are `key` and `query` here.
    Differs: a row without a state gives zeros.

    Args:
        input_dim: width D of the states
        hidden_dim: width of h̄
        num_queries: how many u there are

    Shapes: states (..., T, D), mask (..., T) -> (..., num_queries · D); watched weights (..., num_queries, T)
    """

    def __init__(self, input_dim: int, hidden_dim: int, *, num_queries: int = 1) -> None:
        super().__init__()
        if min(input_dim, hidden_dim, num_queries) < 1:
            raise ValueError(
                "AttentionPooling: input_dim, hidden_dim and num_queries must be at least 1, "
                f"got {input_dim}, {hidden_dim} and {num_queries}"
            )
        self.output_dim = num_queries * input_dim
        self.key = nn.Linear(input_dim, hidden_dim)
        self.query = nn.Linear(hidden_dim, num_queries, bias=False)

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Shapes: states (..., T, D), mask (..., T) boolean, True = a state to pool -> (..., num_queries · D)"""
        check_states(states, mask)
        scores = self.query(self.key(states).tanh()).transpose(-2, -1)  # (..., Q, T)
        weights = masked_softmax(scores, None if mask is None else mask.unsqueeze(-2))  # (..., Q, T)
        self.show(weights)
        return (weights @ states).flatten(-2)  # (..., Q · D)


class MeanPooling(nn.Module):
    """The average of the states: every weight is the same.

    Paper: Conneau et al. 2017 [conneau2017supervised], Section 3.2.2.
    Differs: a row without a state gives zeros.
    """

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Shapes: states (..., T, D), mask (..., T) -> (..., D)"""
        check_states(states, mask)
        real = all_real(states) if mask is None else mask
        total = states.masked_fill(~real.unsqueeze(-1), 0.0).sum(dim=-2)  # (..., D)
        return total / real.sum(dim=-1, keepdim=True).clamp_min(1).to(states.dtype)


class MaxPooling(nn.Module):
    """The largest value of each feature, whichever state has it.

    Paper: Conneau et al. 2017 [conneau2017supervised], Section 3.2.2.
    Differs: a row without a state gives zeros.
    """

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Shapes: states (..., T, D), mask (..., T) -> (..., D)"""
        check_states(states, mask)
        real = (all_real(states) if mask is None else mask).unsqueeze(-1)  # (..., T, 1)
        largest = states.masked_fill(~real, torch.finfo(states.dtype).min).amax(dim=-2)  # (..., D)
        return largest.masked_fill(~real.any(dim=-2), 0.0)


class LastPooling(nn.Module):
    """The state after the last step; of two directions, where each of them stopped: the last and the first.

    Paper: Conneau et al. 2017 [conneau2017supervised], Section 3.2.1.
    Differs: a row without a state gives zeros.
    """

    def __init__(self, directions: int = 1) -> None:
        super().__init__()
        if directions not in (1, 2):
            raise ValueError(f"LastPooling: directions must be 1 or 2, got {directions}")
        self.directions = directions

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Shapes: states (..., T, D), mask (..., T), whose real states come first -> (..., D)"""
        check_states(states, mask)
        real = all_real(states) if mask is None else mask
        last = (real.sum(dim=-1, keepdim=True) - 1).clamp_min(0).unsqueeze(-1)  # (..., 1, 1)
        at_last = states.gather(-2, last.expand(*last.shape[:-1], states.shape[-1])).squeeze(-2)  # (..., D)
        if self.directions == 2:
            half = states.shape[-1] // 2
            at_last = torch.cat([at_last[..., :half], states[..., 0, half:]], dim=-1)  # (..., D)
        return at_last.masked_fill(~real.any(dim=-1, keepdim=True), 0.0)


Pooling = AttentionPooling | MeanPooling | MaxPooling | LastPooling


def all_real(states: Tensor) -> Tensor:
    """The mask of states without padding: (..., T, D) -> (..., T)"""
    return torch.ones(states.shape[:-1], dtype=torch.bool, device=states.device)


def check_states(states: Tensor, mask: Tensor | None) -> None:
    """Raise unless the mask, if any, has a boolean for each state."""
    if states.dim() < 2:
        raise ValueError(f"states must be (..., length, width), got {tuple(states.shape)}")
    if mask is not None and (mask.dtype != torch.bool or mask.shape != states.shape[:-1]):
        raise ValueError(
            f"mask must be boolean {tuple(states.shape[:-1])}, True = a state to pool, one for each of the states "
            f"{tuple(states.shape)}; got {mask.dtype} {tuple(mask.shape)}"
        )
