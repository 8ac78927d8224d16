"""One training loop for every model of the course."""

from lecturelib.training.batches import seed_everything
from lecturelib.training.checkpoint import CheckpointError, load_weights
from lecturelib.training.config import TrainConfig
from lecturelib.training.devices import choose_device, to_device
from lecturelib.training.history import History, read_history
from lecturelib.training.loop import NonFiniteError, train
from lecturelib.training.losses import class_loss, next_token_loss, target_loss
from lecturelib.training.schedules import Constant, Cosine, Linear, Noam
from lecturelib.training.shipped import ShippedRun, save_shipped_run, shipped_run

__all__ = [
    "CheckpointError",
    "Constant",
    "Cosine",
    "History",
    "Linear",
    "Noam",
    "NonFiniteError",
    "ShippedRun",
    "TrainConfig",
    "choose_device",
    "class_loss",
    "load_weights",
    "next_token_loss",
    "read_history",
    "save_shipped_run",
    "seed_everything",
    "shipped_run",
    "target_loss",
    "to_device",
    "train",
]
