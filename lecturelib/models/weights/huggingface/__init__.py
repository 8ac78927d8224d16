"""Layouts of the Hugging Face hub: where `transformers` keeps what our models learn, and what its settings mean."""

from lecturelib.models.weights.huggingface.control import CONTROL
from lecturelib.models.weights.huggingface.language import LANGUAGE
from lecturelib.models.weights.huggingface.vision import VISION

HUGGINGFACE = LANGUAGE | VISION | CONTROL

__all__ = ["HUGGINGFACE"]
