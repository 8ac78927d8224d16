"""The one door behind which speed lives: `fast(model)` is the same model, prepared once for inference."""

from lecturelib.fast.prepare import CannotPrepare, fast, fast_if_possible

__all__ = ["CannotPrepare", "fast", "fast_if_possible"]
