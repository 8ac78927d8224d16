"""Switch: many feed-forward nets side by side, of which each token passes through one."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.block import Activation, FeedForward
from lecturelib.layers.checks import ends
from lecturelib.layers.precision import precise, without_autocast


class Routing(NamedTuple):
    """Where tokens went: probabilities of the experts (B, T, E), the chosen one (B, T), whether it had room (B, T)."""

    probabilities: Tensor
    chosen: Tensor
    kept: Tensor


class SwitchFFN(nn.Module):
    """Send each token to the one feed-forward net (expert) that a router finds the most probable.

    The expert's output is multiplied by its probability, which is how the router learns. An expert takes at most
    `capacity` tokens of a text, the first that come; a token too many gets zeros, so that only the residual stream
    carries it on. With E experts there are E times the weights, and each token costs what it costs in a single one.

    Paper: Fedus et al. 2022 [fedus2022switch], Section 2.
    Differs: room is counted within each text, in reading order, so that no token depends on a later one or on another
    text; in eval mode there is room for all (the paper: twice the even share). The router's input is not jittered, and
    weights start as any `FeedForward`'s do. On a CPU each expert reads its own tokens. Elsewhere, where finding them
    out would stop the device, it reads as many places as it has room for, filled or not, as in the paper: in eval mode
    that is a whole text for each expert.

    Args:
        d_model: width in and out
        d_ff: width within each expert
        num_experts: how many there are
        capacity_factor: room of an expert in training, as a multiple of the even share T / E
        activation: as in `FeedForward`

    Shapes: (B, T, D) -> (B, T, D)
    """

    watchers: tuple[Callable[[Routing], None], ...] = ()

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        num_experts: int,
        *,
        capacity_factor: float = 1.25,
        activation: Activation = torch.relu,
    ) -> None:
        super().__init__()
        if num_experts < 1 or capacity_factor <= 0:
            raise ValueError(
                f"SwitchFFN: num_experts={num_experts} must be at least 1, "
                f"and capacity_factor={capacity_factor} more than 0"
            )
        self.capacity_factor = capacity_factor
        self.router = nn.Linear(d_model, num_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(d_model, d_ff, activation=activation) for _ in range(num_experts))

    def capacity(self, length: int) -> int:
        """Tokens of a text of this length that each expert has room for, in the mode that it is in."""
        return max(1, int(self.capacity_factor * length / len(self.experts))) if self.training else length

    def route(self, x: Tensor) -> Routing:
        """Choose an expert for each token: (B, T, D) -> three tensors."""
        with without_autocast(x):
            scores = self.router(x.to(next(self.router.parameters()).dtype))  # (B, T, E)
        probabilities = precise(scores).softmax(dim=-1)
        chosen = probabilities.argmax(dim=-1)  # (B, T)
        return Routing(probabilities, chosen, self._place(chosen) < self.capacity(x.shape[1]))

    def _place(self, chosen: Tensor) -> Tensor:
        """How many tokens of the text came to a token's expert before it: (B, T) -> (B, T)."""
        experts = torch.arange(len(self.experts), device=chosen.device)
        queue = (chosen[..., None] == experts).cumsum(dim=1)  # (B, T, E)
        return queue.gather(-1, chosen[..., None]).squeeze(-1) - 1

    def forward(self, x: Tensor) -> Tensor:
        """Each token's expert, times its probability."""
        routing = self.route(x)
        for watcher in self.watchers:
            watcher(routing)
        gate = routing.probabilities.amax(dim=-1, keepdim=True).to(x.dtype)  # (B, T, 1)
        return gate * (self._by_place(x, routing) if ends(routing.chosen) is None else self._by_token(x, routing))

    def _by_token(self, x: Tensor, routing: Routing) -> Tensor:
        """Each expert reads the tokens that chose it, however many they are."""
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mine = (routing.chosen == number) & routing.kept  # (B, T)
            out[mine] = expert(x[mine]).to(x.dtype)  # (tokens of this expert, D)
        return out

    def _by_place(self, x: Tensor, routing: Routing) -> Tensor:
        """The same by shapes that no value decides: each expert reads C = `capacity` places of every text."""
        room = self.capacity(x.shape[1])
        place = routing.chosen * room + self._place(routing.chosen)  # (B, T), among all experts' places
        place = place.where(routing.kept, len(self.experts) * room)  # those without room share one place more
        place = place[..., None].expand_as(x)  # (B, T, D)
        places = x.new_zeros(len(x), len(self.experts) * room + 1, x.shape[2]).scatter(1, place, x)
        said = [expert(mine).to(x.dtype) for expert, mine in zip(self.experts, places.split(room, dim=1), strict=False)]
        return F.pad(torch.cat(said, dim=1), (0, 0, 0, 1)).gather(1, place)  # (B, E · C, D), one more, (B, T, D)


def balance_loss(routings: Iterable[Routing]) -> Tensor:
    """How unevenly tokens are spread, added up over layers: E Σᵢ fᵢ Pᵢ, which is 1 for a layer that is even.

    fᵢ is the share of tokens sent to expert i, Pᵢ the mean probability it got; only Pᵢ has a gradient.

    Paper: Fedus et al. 2022 [fedus2022switch], Equations 4 to 6, without the factor α (0.01 there).
    Differs: nothing; shares are taken over all tokens of the batch.
    """
    parts = []
    for routing in routings:
        num_experts = routing.probabilities.shape[-1]
        ones = F.one_hot(routing.chosen, num_experts).to(routing.probabilities.dtype)
        share = ones.flatten(0, -2).mean(dim=0)  # (E,)
        parts.append(num_experts * (share * routing.probabilities.flatten(0, -2).mean(dim=0)).sum())
    if not parts:
        raise ValueError("balance_loss needs the routing of at least one SwitchFFN")
    return torch.stack(parts).sum()


@torch.no_grad()
def use_switch(stack: nn.ModuleList, num_experts: int, *, every: int = 2, capacity_factor: float = 1.25) -> None:
    """Put a `SwitchFFN` in place of each second feed-forward net of a stack, the second, fourth, …

    Experts have the sizes and the activation of the net they replace, and start as spread out as it did.

    Paper: Fedus et al. 2022 [fedus2022switch], Section 2.1 and Table 9: every other layer.
    Differs: nothing.

    Args:
        stack: a model's blocks, such as `GPT.blocks`; changed in place
        num_experts: in each
        every: 1 for every layer, 2 for every other one
        capacity_factor: of each `SwitchFFN`
    """
    replaced = [block for number, block in enumerate(stack, start=1) if number % every == 0]
    if not replaced:
        raise ValueError(f"use_switch: a stack of {len(stack)} has no layer to replace with every={every}")
    for block in replaced:
        dense = block.feed_forward
        if not isinstance(dense, FeedForward):
            raise ValueError(f"use_switch replaces a FeedForward, and this block has a {type(dense).__name__}")
        switch = SwitchFFN(
            dense.widen.in_features,
            dense.widen.out_features,
            num_experts,
            capacity_factor=capacity_factor,
            activation=dense.activation,
        ).to(dense.widen.weight)
        for expert in switch.experts:
            for name, weight in expert.named_parameters():
                start = dense.get_parameter(name)
                nn.init.normal_(weight, std=float(start.std()) if start.dim() > 1 else 0.0)
        nn.init.normal_(switch.router.weight, std=float(dense.widen.weight.std()))
        block.feed_forward = switch
