"""The decision transformer: acting as sequence modelling. A GPT over returns-to-go, states and actions."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PreNorm, find_activation
from lecturelib.layers.checks import check_config, check_heads, ends


@dataclass(frozen=True, kw_only=True)
class DecisionTransformerConfig:
    """The sizes of a decision transformer; `d_ff` is 4 · d_model when left out.

    Args:
        state_dim: width of a state; the number of states where they are one-hot
        action_dim: width of an action; the number of actions where they are one-hot
        max_steps: time steps there may be, from 0
        bounded: whether actions are squashed into (-1, 1) by a tanh, for forces; not for logits of discrete actions
    """

    state_dim: int
    action_dim: int
    max_steps: int
    d_model: int = 128
    num_heads: int = 1
    num_layers: int = 3
    d_ff: int | None = None
    dropout: float = 0.1
    activation: str = "relu"
    bounded: bool = False

    def __post_init__(self) -> None:
        sizes = ("state_dim", "action_dim", "max_steps", "d_model", "num_heads", "num_layers")
        check_config(self, sizes=sizes if self.d_ff is None else (*sizes, "d_ff"))
        check_heads(self.d_model, self.num_heads, "DecisionTransformerConfig")
        find_activation(self.activation)


DECISION_TRANSFORMER_HOPPER = DecisionTransformerConfig(state_dim=11, action_dim=3, max_steps=1000, bounded=True)


class DecisionTransformer(nn.Module):
    """Predict each action from the returns asked for, the states and the actions before it.

    A step of an episode is three tokens, in this order: return-to-go, state, action. The action is read off the output
    at the *state* token, which sees its own return-to-go and everything before, but not the action itself.

    Paper: Chen et al. 2021 [chen2021decision], Section 3 and Algorithm 1.
    Differs: nothing in the network. The three tokens of a step share one learned embedding of the time step, and there
    are no other positions. The authors' code also has heads for states and returns, which the paper does not train;
    they are left out. Discrete actions are one-hot and enter through a linear map, which is a table of embeddings. All
    matrices start at a standard deviation of 0.02, as in `transformers`; the authors leave the embeddings to torch,
    where the time steps start fifty times as large and at first drown the states.
    """

    def __init__(self, config: DecisionTransformerConfig) -> None:
        super().__init__()
        self.config = config
        d_model = config.d_model
        self.time_embedding = nn.Embedding(config.max_steps, d_model)
        self.return_embedding = nn.Linear(1, d_model)
        self.state_embedding = nn.Linear(config.state_dim, d_model)
        self.action_embedding = nn.Linear(config.action_dim, d_model)
        self.embedding_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            Block(
                MultiHeadAttention(d_model, config.num_heads, dropout=config.dropout),
                FeedForward(d_model, config.d_ff or 4 * d_model, activation=find_activation(config.activation)),
                partial(PreNorm, d_model, dropout=config.dropout),
            )
            for _ in range(config.num_layers)
        )
        self.final_norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, config.action_dim)
        self.squash = nn.Tanh() if config.bounded else nn.Identity()
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(
        self, states: Tensor, actions: Tensor, returns_to_go: Tensor, timesteps: Tensor, real: Tensor | None = None
    ) -> Tensor:
        """The action (or its logits) at every step; those of padding mean nothing.

        Args:
            states: (B, K, state_dim)
            actions: (B, K, action_dim); that of a step is seen by later steps only
            returns_to_go: (B, K, 1)
            timesteps: (B, K) integers below max_steps
            real: (B, K) boolean, False for padding, which nothing attends to; all is real when left out

        Shapes: -> (B, K, action_dim)
        """
        features = self.features(states, actions, returns_to_go, timesteps, real)  # (B, 3K, D)
        return self.squash(self.head(features[:, 1::3]))

    def features(
        self, states: Tensor, actions: Tensor, returns_to_go: Tensor, timesteps: Tensor, real: Tensor | None = None
    ) -> Tensor:
        """The last layer's output at all tokens, in the order return-to-go, state, action. Shapes: -> (B, 3K, D)"""
        self._check(states, actions, returns_to_go, timesteps, real)
        when = self.time_embedding(timesteps)  # (B, K, D)
        step = (
            self.return_embedding(returns_to_go) + when,
            self.state_embedding(states) + when,
            self.action_embedding(actions) + when,
        )
        x = torch.stack(step, dim=2).flatten(1, 2)  # (B, 3K, D)
        x = self.dropout(self.embedding_norm(x))
        mask = None if real is None else real.repeat_interleave(3, dim=1)[:, None]  # (B, 1, 3K)
        for block in self.blocks:
            x = block(x, mask, is_causal=True)
        return self.final_norm(x)

    def _check(
        self, states: Tensor, actions: Tensor, returns_to_go: Tensor, timesteps: Tensor, real: Tensor | None
    ) -> None:
        if states.dim() != 3 or states.shape[-1] != self.config.state_dim:
            raise ValueError(f"states must be (batch, steps, {self.config.state_dim}), got {tuple(states.shape)}")
        batch, steps, _ = states.shape
        wanted = {"actions": (batch, steps, self.config.action_dim), "returns_to_go": (batch, steps, 1)}
        for name, tensor in (("actions", actions), ("returns_to_go", returns_to_go)):
            if tuple(tensor.shape) != wanted[name]:
                raise ValueError(f"{name} must be {wanted[name]} to fit the states, got {tuple(tensor.shape)}")
        if tuple(timesteps.shape) != (batch, steps):
            raise ValueError(f"timesteps must be ({batch}, {steps}) to fit the states, got {tuple(timesteps.shape)}")
        if timesteps.is_floating_point():
            raise ValueError(f"timesteps must be integers, got {timesteps.dtype}")
        found = ends(timesteps)
        if found and not 0 <= found[0] <= found[1] < self.config.max_steps:
            raise ValueError(f"timesteps must be from 0 to {self.config.max_steps - 1}, got {found[0]} to {found[1]}")
        if real is not None and (real.dtype != torch.bool or tuple(real.shape) != (batch, steps)):
            raise ValueError(f"real must be ({batch}, {steps}) booleans, got {real.dtype} {tuple(real.shape)}")
