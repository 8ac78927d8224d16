"""The losses of the course's models, each with the number of tokens or pictures it is the mean of."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data.augment.mixing import ImageBatch
from lecturelib.data.sets.episodes import Windows
from lecturelib.tokens.batches import CaptionBatch, LanguageBatch, PairBatch
from lecturelib.tokens.masking import MaskedBatch


def next_token_loss(model: nn.Module, batch: LanguageBatch) -> tuple[Tensor, int]:
    """Cross-entropy of each next token, for a model from tokens (B, T) to logits (B, T, V)."""
    logits = model(batch.inputs)  # (B, T, V)
    return F.cross_entropy(logits.flatten(0, 1).float(), batch.targets.flatten()), batch.targets.numel()


def target_loss(model: nn.Module, batch: PairBatch, *, label_smoothing: float = 0.0) -> tuple[Tensor, int]:
    """Cross-entropy of each target token under teacher forcing, padding left out, for an encoder-decoder.

    Paper: Szegedy et al. 2016 [szegedy2016rethinking], Section 7, for label smoothing.
    Differs: nothing; use `functools.partial` to choose the smoothing.
    """
    logits = model(batch.source, batch.source_lengths, batch.target_in)  # (B, Tt, V)
    width = batch.target_out.shape[1]
    real = torch.arange(width, device=logits.device) < batch.target_lengths[:, None]  # (B, Tt)
    mean = F.cross_entropy(logits[real].float(), batch.target_out[real], label_smoothing=label_smoothing)
    return mean, int(batch.target_lengths.sum())


def caption_loss(model: nn.Module, batch: CaptionBatch) -> tuple[Tensor, int]:
    """Cross-entropy of each word of a caption under teacher forcing, padding left out."""
    likely, real = _word_scores(model(batch.images, batch.target_in), batch)
    return -likely.sum() / real.sum(), int(batch.target_lengths.sum())


def reinforce_loss(model: Any, batch: CaptionBatch, *, entropy: float = 0.0) -> tuple[Tensor, int]:
    """`caption_loss`, and for looks that were drawn the score-function gradient (REINFORCE) of the same aim.

    A draw has no gradient. Instead the probability of each draw is raised by how much better the words from there on
    went than those of the other captions of the batch at the same place: that mean is the baseline.

    Paper: Xu et al. 2015 [xu2015show], Section 4.1; Williams 1992 [williams1992simple].
    Differs: a draw is credited with the words from its own on, and not with those before it, which it cannot change.
    The baseline is the mean of the *other* captions of the batch, which leaves the gradient unbiased and needs no
    memory from step to step; the paper's is a moving average of whole captions.

    Args:
        model: with a `write(images, target_in)` that gives logits, weights and log_chosen, as `ShowAttendTell` has
        entropy: weight of a reward for looks that are not yet decided
    """
    written = model.write(batch.images, batch.target_in)
    likely, real = _word_scores(written.logits, batch)  # (B, T), 0 at padding; (B, T)
    rewards = likely.detach().flip(1).cumsum(1).flip(1)  # (B, T), log-probability of the words from here on
    others = real.sum(dim=0) - 1  # (T,)
    baseline = (rewards.sum(dim=0) - rewards) / others.clamp_min(1)  # (B, T)
    better = (rewards - baseline) * (real & (others > 0))  # (B, T)
    weights = written.weights.float()
    undecided = -(weights * weights.clamp_min(torch.finfo(weights.dtype).tiny).log()).sum(dim=-1) * real  # (B, T)
    gained = likely + better * written.log_chosen.float() + entropy * undecided
    return -gained.sum() / real.sum(), int(batch.target_lengths.sum())


def _word_scores(logits: Tensor, batch: CaptionBatch) -> tuple[Tensor, Tensor]:
    """The log-probability of each word of the captions (B, T), 0 at padding, and which are real (B, T)."""
    width = batch.target_out.shape[1]
    real = torch.arange(width, device=logits.device) < batch.target_lengths[:, None]  # (B, T)
    scores = F.cross_entropy(logits.flatten(0, 1).float(), batch.target_out.flatten(), reduction="none")
    return -scores.view(batch.target_out.shape) * real, real


def class_loss(model: nn.Module, batch: ImageBatch, *, label_smoothing: float = 0.0) -> tuple[Tensor, int]:
    """Cross-entropy of each picture's class, or of its probabilities where pictures were mixed.

    Paper: Szegedy et al. 2016 [szegedy2016rethinking], Section 7, for label smoothing.
    Differs: nothing; use `functools.partial` to choose the smoothing.
    """
    logits = model(batch.images)  # (B, classes)
    return F.cross_entropy(logits.float(), batch.targets, label_smoothing=label_smoothing), len(batch.images)


def masked_loss(model: nn.Module, batch: MaskedBatch) -> tuple[Tensor, int]:
    """Cross-entropy of the tokens asked for, plus that of "the second passage follows", for BERT with both heads.

    Paper: Devlin et al. 2019 [devlin2019bert], Appendix A.2: the sum of the two means.
    Differs: nothing.
    """
    words, follows = model(batch.tokens, batch.token_types)  # (B, T, V), (B, 2)
    asked = int(batch.chosen.sum())
    total = F.cross_entropy(words[batch.chosen].float(), batch.targets[batch.chosen], reduction="sum")
    return total / max(1, asked) + F.cross_entropy(follows.float(), batch.follows), asked


def action_loss(model: nn.Module, batch: Windows) -> tuple[Tensor, int]:
    """Cross-entropy of each action that was taken, padding left out, for a decision transformer.

    Paper: Chen et al. 2021 [chen2021decision], Section 3: cross-entropy for discrete actions, at all K steps alike.
    Differs: nothing.
    """
    logits = model(batch.states, batch.actions, batch.returns_to_go, batch.timesteps, batch.real)  # (B, K, A)
    taken = batch.actions[batch.real].argmax(dim=-1)
    return F.cross_entropy(logits[batch.real].float(), taken), len(taken)
