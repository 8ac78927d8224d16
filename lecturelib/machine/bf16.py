"""Does bfloat16 work on this processor? Asked once, in a process of its own, because the answer can be a crash.

On some processors (Intel's with AMX, inside some virtual machines) oneDNN's fastest bf16 code dies of SIGILL or raises
"could not create a primitive". Told to use the next best instructions, in the environment and before torch is imported,
it works. So programs call `settle_bf16` first of all: it tries, sets that cap for this process and its children if it
helps, and says so in a line. The answer is kept for this machine and torch, so that it costs nothing twice.
"""

import hashlib
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from lecturelib.machine.caches import cache_folder

CAP = ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
VERDICT, REASON = "LECTURELIB_BF16", "LECTURELIB_BF16_REASON"  # how children know; neither is for users
PATIENCE = 60.0  # seconds for products that take a twentieth of one: a busy machine is slow, not broken
Verdict = Literal["works", "capped", "broken", "unknown"]

TRIAL = """
import torch
from torch import nn
print("ready", flush=True)
torch.manual_seed(0)
with torch.autocast("cpu", torch.bfloat16):
    for rows, width in ((4, 128), (33, 96), (1, 768)):
        x = torch.randn(rows, 7, width, requires_grad=True)
        layer = nn.Linear(width, 3 * width)
        (layer(x).sum() + (x @ x.transpose(1, 2)).sum()).float().backward()
        with torch.inference_mode():
            layer(x)
    nn.functional.scaled_dot_product_attention(*torch.randn(3, 2, 4, 9, 16, requires_grad=True)).sum().backward()
    image = torch.randn(2, 3, 32, 32, requires_grad=True)
    for patch, stride in ((4, 4), (3, 1), (16, 16)):
        nn.Conv2d(3, 24, patch, stride)(image).float().sum().backward()
    for net in (nn.LSTM(24, 32, batch_first=True), nn.GRU(24, 32, batch_first=True)):
        net(torch.randn(3, 5, 24, requires_grad=True))[0].float().sum().backward()
low = torch.bfloat16
nn.Linear(64, 64).to(low)(torch.randn(5, 64, dtype=low)).sum().backward()
print("done", flush=True)
"""


def settle_bf16(
    trial: Sequence[str] = (sys.executable, "-c", TRIAL),
    *,
    patience: float = PATIENCE,
    remember: Path | None = None,
    quiet: bool = False,
) -> Verdict:
    """Find out whether bf16 works here, and make it work if a cap does; call this before torch is imported.

    Args:
        trial: the command to try; it prints "ready" once torch is there, and then computes
        patience: seconds that it may compute
        remember: the file that keeps answers; in the cache folder when left out
        quiet: say nothing; otherwise a line goes to stderr when there is something to say
    """
    if (told := os.environ.get(VERDICT)) in ("works", "capped", "broken"):
        return told  # type: ignore[return-value]  # by the program that started this one
    path = remember or cache_folder() / "bf16.json"
    question = _question(trial)
    verdict, reason = _recall(path, question) or ("unknown", "")
    if verdict == "unknown":
        verdict, reason = _find_out(trial, patience)
        if verdict != "unknown":
            _note(path, question, verdict, reason)
    if verdict == "capped":
        os.environ[CAP[0]] = CAP[1]
    os.environ[VERDICT], os.environ[REASON] = verdict, reason
    if not quiet and verdict == "capped":
        print(f"bf16 fails on this processor ({reason}); going on with {'='.join(CAP)}, which helps", file=sys.stderr)
    if not quiet and verdict == "broken":
        print(f"bf16 fails on this processor ({reason}); nothing here will use it", file=sys.stderr)
    return verdict


def bf16_refusal() -> str | None:
    """Why bf16 can't be used in this process, as far as it was found out; None when it can."""
    return (os.environ.get(REASON) or "it fails") if os.environ.get(VERDICT) == "broken" else None


def _find_out(trial: Sequence[str], patience: float) -> tuple[Verdict, str]:
    reason = _try(trial, dict(os.environ), patience)
    if reason is None:
        return "works", ""
    if "ModuleNotFoundError" in reason or "ImportError" in reason:
        return "unknown", reason  # there is no torch to ask
    if CAP[0] not in os.environ and _try(trial, {**os.environ, CAP[0]: CAP[1]}, patience) is None:
        return "capped", reason
    return "broken", reason


def _try(trial: Sequence[str], environment: dict[str, str], patience: float) -> str | None:
    """None when the trial works, else why it does not. Importing torch may take five times the patience."""
    pipe, environment = subprocess.PIPE, environment | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        trial, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=environment
    ) as child:
        assert child.stdout is not None
        ready = threading.Thread(target=child.stdout.readline, daemon=True)
        ready.start()
        ready.join(5 * patience)
        try:
            _, errors = child.communicate(timeout=0.1 if ready.is_alive() else patience)
        except subprocess.TimeoutExpired:
            child.kill()
            return f"no answer after {patience:g} seconds"
    if child.returncode < 0:
        return f"it dies of signal {signal.strsignal(-child.returncode) or -child.returncode}"
    if child.returncode:
        return (errors.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
    return None


def _question(trial: Sequence[str]) -> str:
    """This processor, this torch, this trial: what an answer is an answer to."""
    cpu = platform.processor() + platform.machine()
    with suppress(OSError):
        known = ("vendor_id", "cpu family", "model", "stepping", "flags")
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
        cpu += "".join(line for line in lines if line.startswith(known) and "MHz" not in line)
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = "none"
    parts = (cpu, torch, os.environ.get(CAP[0], ""), *trial)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _recall(path: Path, question: str) -> tuple[Verdict, str] | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        answer = json.loads(path.read_text(encoding="utf-8"))[question]
        if answer["verdict"] in ("works", "capped", "broken"):
            return answer["verdict"], str(answer["reason"])
    return None


def _note(path: Path, question: str, verdict: Verdict, reason: str) -> None:
    """Keep an answer; where that can't be, it is found out again next time."""
    answers: dict[str, dict[str, str]] = {}
    with suppress(OSError, ValueError):
        answers = json.loads(path.read_text(encoding="utf-8"))
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with suppress(OSError, TypeError):
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps(answers | {question: {"verdict": verdict, "reason": reason}}), encoding="utf-8")
        os.replace(fresh, path)
