"""Checkpoints that a crash can't spoil: tensors in safetensors, everything else in JSON, nothing in pickle.

A run's folder holds

    last.json      the newest checkpoint: its step, its tensor file, that file's SHA-256, and all plain values
    previous.json  the one before, for the day that the newest is damaged
    best.json      the weights with the best evaluation
    step-*.safetensors, best-*.safetensors   the tensors that those three name
    history.jsonl  one row a step

Every file is written beside its place, flushed to disk and then moved into it, tensors first. So at every instant
last.json names a complete file, and a kill -9 costs the steps since the last checkpoint and nothing else.
"""

import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

Which = Literal["last", "best"]


class CheckpointError(ValueError):
    """A checkpoint is missing or damaged, or does not fit."""


class CheckpointFolder:
    """Save and load the state of one run: nested dicts, lists, tuples, plain values and tensors.

    Differs: nothing; it is bookkeeping, not from a paper.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._newest: str | None = None  # the text of the last.json that we know to be good

    def holds_a_run(self) -> bool:
        return any((self.folder / name).exists() for name in ("last.json", "previous.json"))

    def save_last(self, state: dict[str, Any], step: int) -> None:
        """Make this the newest checkpoint, and the newest one the previous."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._newest is not None and json.loads(self._newest)["step"] == step:
            return
        text = self._write_tensors(f"step-{step:08d}", state, step)
        if self._newest is not None:
            replace_text(self.folder / "previous.json", self._newest)
        replace_text(self.folder / "last.json", text)
        self._newest = text
        self._sweep()

    def save_best(self, weights: dict[str, Any], step: int) -> None:
        """Keep these weights as the best so far."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_text(self.folder / "best.json", self._write_tensors(f"best-{step:08d}", weights, step))
        self._sweep()

    def load_last(self) -> dict[str, Any] | None:
        """Return the newest state that is whole, or None where no run has been; a damaged one is reported."""
        troubles = []
        for name in ("last.json", "previous.json"):
            if not (self.folder / name).exists():
                continue
            try:
                state = self.load(name)
            except CheckpointError as error:
                troubles.append(str(error))
                continue
            self._newest = (self.folder / name).read_text(encoding="utf-8")
            if troubles:
                warnings.warn(f"{troubles[0]}; going on from the previous checkpoint instead", stacklevel=2)
            return state
        if troubles:
            raise CheckpointError("; ".join(troubles) + "; no whole checkpoint is left, start again in a new folder")
        return None

    def load(self, name: str) -> dict[str, Any]:
        """Read one of last.json, previous.json and best.json with its tensors, and check that they are whole."""
        path = self.folder / name
        try:
            index = json.loads(path.read_text(encoding="utf-8"))
            file, digest, packed = self.folder / index["file"], index["sha256"], index["state"]
            if _sha256(file) != digest:
                raise CheckpointError(f"{file} is damaged: it is not the file that {path.name} describes")
            return _unpack(packed, load_file(file))
        except CheckpointError:
            raise
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged: it can't be read as a checkpoint") from error
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{path} can't be loaded: {error}") from error

    def _write_tensors(self, stem: str, state: dict[str, Any], step: int) -> str:
        """Write the tensors and return the JSON text that will make them count."""
        tensors: dict[str, Tensor] = {}
        packed = _pack(state, "", tensors, {})
        file = self.folder / f"{stem}.safetensors"
        fresh = file.with_name(file.name + ".tmp")
        save_file(tensors, fresh)
        digest = _sha256(fresh)
        settle(fresh, file)
        return json.dumps({"step": step, "file": file.name, "sha256": digest, "state": packed})

    def _sweep(self) -> None:
        """Delete tensor files that no JSON names any more, and what a killed write left behind."""
        named = set()
        for name in ("last.json", "previous.json", "best.json"):
            if (self.folder / name).exists():
                try:
                    named.add(json.loads((self.folder / name).read_text(encoding="utf-8"))["file"])
                except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
                    return  # a damaged index may name any of them: delete nothing
        for pattern in ("step-*.safetensors", "best-*.safetensors", "*.safetensors.tmp"):
            for file in self.folder.glob(pattern):
                if file.name not in named:
                    file.unlink()


def load_weights(model: nn.Module, folder: Path | str, which: Which = "best") -> int:
    """Put the weights of a run's best or last checkpoint into a model, and return their step."""
    if which not in ("best", "last"):
        raise ValueError(f"load_weights: which={which!r} must be best or last")
    if not (Path(folder) / f"{which}.json").exists():
        raise CheckpointError(f"{folder} holds no {which}.json; is it the folder of a training run?")
    state = CheckpointFolder(folder).load(f"{which}.json")
    weights = state if which == "best" else state["model"]
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"the weights in {folder} do not fit this model: {error}") from error
    return int(json.loads((Path(folder) / f"{which}.json").read_text(encoding="utf-8"))["step"])


def _pack(value: Any, name: str, tensors: dict[str, Tensor], seen: dict[tuple[Any, ...], str]) -> Any:
    """Turn a state into JSON, with its tensors moved out under dotted names; a tensor that is tied is kept once."""
    if isinstance(value, Tensor):
        place = (value.untyped_storage().data_ptr(), value.storage_offset(), value.shape, value.stride(), value.dtype)
        key = seen.setdefault(place, name) if value.numel() else name
        if key not in tensors:
            whole = value.numel() * value.element_size() == value.untyped_storage().nbytes()
            cpu = value.detach().to("cpu")
            tensors[key] = (cpu if whole or not value.numel() else cpu.clone()).contiguous()
        return {"tensor": key}
    if isinstance(value, dict):
        items = [[key, _pack(part, f"{name}.{key}".lstrip("."), tensors, seen)] for key, part in value.items()]
        return {"dict": items}
    if isinstance(value, list | tuple):
        parts = [_pack(part, f"{name}.{i}", tensors, seen) for i, part in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": parts}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} is a {type(value).__name__}; a checkpoint holds tensors, numbers, text, lists and dicts")


def _unpack(packed: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    match kind:
        case "tensor":
            return tensors[content]
        case "dict":
            return {key: _unpack(part, tensors) for key, part in content}
        case "tuple":
            return tuple(_unpack(part, tensors) for part in content)
        case "list":
            return [_unpack(part, tensors) for part in content]
    raise ValueError(f"unknown kind {kind!r}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_text(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".tmp")
    fresh.write_text(text, encoding="utf-8")
    settle(fresh, path)


def settle(fresh: Path, path: Path) -> None:
    """Flush a file to disk, then move it into its place, then flush the move."""
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(fresh, path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
