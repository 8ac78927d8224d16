"""Weights that others have trained: how the hub, timm and `torch.nn` store what our models learn."""

from lecturelib.models.weights.loading import load

__all__ = ["load"]
