"""One training loop for every model of the course."""

from lecturelib.training.average import WeightAverage
from lecturelib.training.checkpoint import CheckpointError, load_weights
from lecturelib.training.config import TrainConfig
from lecturelib.training.devices import choose_device, to_device
from lecturelib.training.history import History, read_history
from lecturelib.training.loop import NonFiniteError, train
from lecturelib.training.losses import (
    action_loss,
    caption_loss,
    class_loss,
    masked_loss,
    next_token_loss,
    reinforce_loss,
    target_loss,
)
from lecturelib.training.mask_loss import best_of, mask_iou, mask_loss, mean_of
from lecturelib.training.optimizers import LAMB, RAdam, adamw, decay_groups, rectification
from lecturelib.training.runs import Run, find_run, read_run, save_run, shipped_run
from lecturelib.training.schedules import Constant, Cosine, Linear, Noam
from lecturelib.training.set_losses import match_in_order, match_one_to_one, match_overlapping, matching_cost, set_loss
from lecturelib.training.stream import seed_everything

__all__ = [
    "LAMB",
    "CheckpointError",
    "Constant",
    "Cosine",
    "History",
    "Linear",
    "Noam",
    "NonFiniteError",
    "RAdam",
    "Run",
    "TrainConfig",
    "WeightAverage",
    "action_loss",
    "adamw",
    "best_of",
    "caption_loss",
    "choose_device",
    "class_loss",
    "decay_groups",
    "find_run",
    "load_weights",
    "mask_iou",
    "mask_loss",
    "masked_loss",
    "match_in_order",
    "match_one_to_one",
    "match_overlapping",
    "matching_cost",
    "mean_of",
    "next_token_loss",
    "read_history",
    "read_run",
    "rectification",
    "reinforce_loss",
    "save_run",
    "seed_everything",
    "set_loss",
    "shipped_run",
    "target_loss",
    "to_device",
    "train",
]
