"""Attention and transformers, for real: every model of the course, trainable on a CPU, a GPU or several.

The package is a corridor of rooms. A room imports only from the rooms before it:

    machine -> data -> tokens -> layers -> models -> fast -> training -> evaluation
        -> recipes -> figures -> book -> grading -> cli

Shape legend, used in every docstring and comment:

    B   batch                       H    heads
    T   length (Tq queries,         Dh   width of one head, D / H
        Tk keys, when they differ)  V    vocabulary
    D   model width (d_model)       N    patches or nodes

Masks are boolean, and True means "may attend", in every function.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("lecturelib")
except PackageNotFoundError:  # run from a clone that was never installed
    __version__ = "0+unknown"
