"""What every chapter repeats: sizes for three scales, numbered figures with captions, numbers that reach the prose."""

from lecturelib.book.captions import captioned
from lecturelib.book.glue import glue
from lecturelib.book.scales import Sizes, sizes

__all__ = ["Sizes", "captioned", "glue", "sizes"]
