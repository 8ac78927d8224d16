"""The losses of the course's models, each with the number of tokens or pictures it is the mean of."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data.augment.mixing import ImageBatch
from lecturelib.tokens.batches import LanguageBatch, PairBatch
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
