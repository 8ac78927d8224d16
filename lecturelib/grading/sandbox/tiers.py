"""How well a submission can be confined on this machine, in three names.

    full      own namespaces (files, processes, network), own user, Landlock, seccomp, limits
    reduced   no namespaces, or no Landlock; still: no file of the grader's can be read, no network
    minimal   limits, a clean environment and on Linux seccomp; a submission can read and change what its user can

The tier is found by trying: a confined process attempts what must be refused, and what it managed decides. In every
tier tests, references and expected values stay out of the student's process.
"""

import os
import sys
from dataclasses import dataclass
from typing import Literal, get_args

Tier = Literal["minimal", "reduced", "full"]
TIERS: tuple[Tier, ...] = get_args(Tier)
_ALWAYS = (
    *("read a file of the grader's", "write beside it", "open a socket", "run a program"),
    *("change the mode of a file of the grader's", "cut off a file of the grader's"),
    *("signal another process", "limit another process", "slow another process", "schedule another process"),
    *("share memory (System V)", "share semaphores (System V)", "share messages (System V)"),
    *("share memory (POSIX)", "share messages (POSIX)", "leave its session", "leave its process group"),
)


NO_TIER = (
    "this system cannot confine submissions at all: it offers no tier. Linux offers full or reduced, also within WSL 2 "
    "on Windows; macOS offers minimal. Or grade on machines that can, with --dask or on Gradescope"
)


class TierError(RuntimeError):
    """This machine cannot confine submissions as well as was required."""


class SandboxFailed(RuntimeError):
    """A process of ours in the sandbox has ended, which is no submission's fault: it is to be graded again."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What the zygote has in force, and for each thing tried from inside whether it was refused."""

    namespaces: bool
    own_user: bool
    landlock: bool
    seccomp: bool
    refused: dict[str, bool]
    without: str = ""  # why something stronger could not be had

    @property
    def tier(self) -> Tier:
        held = bool(self.refused) and all(self.refused.get(name, False) for name in _ALWAYS)
        if not held:
            return "minimal"
        every = self.namespaces and self.own_user and self.landlock and self.seccomp and all(self.refused.values())
        return "full" if every else "reduced"

    def describe(self) -> str:
        """One line for the instructor: the tier's name, what is in force, what could be done from inside."""
        measures = {
            "namespaces": self.namespaces,
            "own user": self.own_user,
            "Landlock": self.landlock,
            "seccomp": self.seccomp,
        }
        held = ", ".join(name for name, there in measures.items() if there) or "limits only"
        line = f"sandbox tier: {self.tier} ({held})"
        if open_doors := [name for name, refused in self.refused.items() if not refused]:
            line += f"; a submission can {', '.join(open_doors)}"
        return line + (f"; {self.without}" if self.without else "")


def check_platform(platform: str = sys.platform) -> None:
    """Raise `TierError` where no tier can be offered, so that nothing else need be tried there."""
    if platform in ("win32", "cygwin", "emscripten", "wasi") or not hasattr(os, "fork"):
        raise TierError(NO_TIER)


def require(proof: Proof, required: Tier | None) -> None:
    """Raise `TierError` unless the proof reaches the required tier."""
    if required is not None and required not in TIERS:
        raise ValueError(f"a tier is one of {', '.join(TIERS)}, got {required!r}")
    if required is not None and TIERS.index(proof.tier) < TIERS.index(required):
        raise TierError(f"tier {required!r} is required, but this machine gives {proof.tier!r}: {proof.describe()}")
