"""Let a decision transformer act: ask for a return, and see what it earns."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data.sets.episodes import Episodes, play
from lecturelib.data.sets.worlds import World


class Pursuit:
    """The policy of a decision transformer that is asked for a return: call it as `play` calls a policy.

    Before each action the model reads the last `context` steps. After it, the reward is taken off what is still asked.

    Paper: Chen et al. 2021 [chen2021decision], Section 3 and Algorithm 1.
    Differs: a history shorter than `context` is read as it is, without the padding that a mask would hide.

    Args:
        model: called as `DecisionTransformer` is, with logits of discrete actions
        asked: (B,) the return asked of each episode
        world: whose states and actions are made one-hot
        context: how many steps the model may see, K in the paper
        greedy: take the likeliest action; drawn by its probability when left out
    """

    def __init__(
        self, model: nn.Module, asked: np.ndarray, world: World, *, context: int, greedy: bool = False
    ) -> None:
        self.model, self.world, self.context, self.greedy = model, world, context, greedy
        self.device = next(model.parameters()).device
        batch = len(asked)
        self.to_go = torch.as_tensor(asked, dtype=torch.float32).reshape(batch, 1)  # (B, steps so far)
        self.states = torch.zeros(batch, 0, world.num_seen)
        self.actions = torch.zeros(batch, 0, world.num_actions)

    def __call__(self, seen: np.ndarray, step: int, draw: np.random.Generator) -> np.ndarray:
        self.states = _append(self.states, torch.from_numpy(seen), self.world.num_seen)
        blank = torch.zeros(len(seen), 1, self.world.num_actions)  # the action that is to be found
        chances = self.read(torch.cat((self.actions, blank), dim=1)).softmax(dim=-1).cpu().double().numpy()
        if self.greedy:
            chosen = chances.argmax(axis=-1)
        else:
            chosen = (draw.random(len(seen))[:, None] > chances.cumsum(axis=-1)[:, :-1]).sum(axis=-1)
        self.actions = _append(self.actions, torch.from_numpy(chosen), self.world.num_actions)
        return chosen

    def earned(self, rewards: np.ndarray) -> None:
        """Take what was just earned (B,) off what is still asked for."""
        rest = self.to_go[:, -1] - torch.as_tensor(rewards, dtype=torch.float32)
        self.to_go = torch.cat((self.to_go, rest[:, None]), dim=1)

    @torch.inference_mode()
    def read(self, actions: Tensor) -> Tensor:
        """Logits of the next action, from the last `context` steps. Shapes: (B, steps, A) -> (B, A)"""
        steps = self.states.shape[1]
        first = max(0, steps - self.context)
        times = torch.arange(first, steps).expand(len(actions), -1)
        given = (self.states[:, first:], actions[:, first:], self.to_go[:, first:steps, None], times)
        return self.model(*(tensor.to(self.device) for tensor in given))[:, -1]


def _append(history: Tensor, new: Tensor, width: int) -> Tensor:
    return torch.cat((history, F.one_hot(new, width)[:, None].float()), dim=1)


def pursue(
    model: nn.Module,
    world: World,
    asked: np.ndarray,
    *,
    context: int,
    seed: int,
    greedy: bool = False,
    starts: np.ndarray | None = None,
) -> Episodes:
    """Play one episode for each return asked for. Arguments as those of `Pursuit` and `play`."""
    was_training = model.training
    model.eval()
    policy = Pursuit(model, asked, world, context=context, greedy=greedy)
    episodes = play(world, policy, len(asked), seed=seed, starts=starts, earned=policy.earned)
    model.train(was_training)
    return episodes
