"""Checkpoints that a crash can't spoil: tensors in safetensors, everything else in JSON, nothing in pickle.

While it is trained, a run's folder holds

    last.json            the newest checkpoint: its step, its tensor file, that file's SHA-256, and all plain values
    previous.json        the one before, for the day that the newest is damaged
    step-*.safetensors   the tensors that those two name
    weights.safetensors  the weights to use: those with the best evaluation so far; its header has their SHA-256
    history.jsonl        one row a step

Every file is written beside its place, flushed to disk and then moved into it, tensors first. So at every instant
last.json names a complete file, and a kill -9 costs the steps since the last checkpoint and nothing else. A disk that
is full costs no more: what was there stays, and what could not be written is taken away again.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

Which = Literal["last", "best"]
WEIGHTS = "weights.safetensors"


class CheckpointError(ValueError):
    """A checkpoint is missing or damaged, does not fit, or could not be written."""


class CheckpointFolder:
    """Save and load the state of one run: nested dicts, lists, tuples, plain values and tensors.

    `trouble` says, after a load, what was damaged and passed over.

    Differs: nothing; it is bookkeeping, not from a paper.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.trouble: str | None = None
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

    def save_best(self, weights: Mapping[str, Tensor], step: int) -> None:
        """Keep these weights as the best so far."""
        self.folder.mkdir(parents=True, exist_ok=True)
        save_weights(self.folder / WEIGHTS, weights, step=step)

    def load_last(self) -> dict[str, Any] | None:
        """Return the newest state that is whole, or None where no run has been; `trouble` tells of a damaged one."""
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
                self.trouble = f"{troubles[0]}; going on from the previous checkpoint, of step {state['step']}, instead"
            return state
        if troubles:
            raise CheckpointError("; ".join(troubles) + "; no whole checkpoint is left, start again in a new folder")
        return None

    def load(self, name: str) -> dict[str, Any]:
        """Read last.json or previous.json with its tensors, and check that they are whole."""
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
        with _written(file) as fresh:
            save_file(tensors, fresh)
            digest = _sha256(fresh)
        return json.dumps({"step": step, "file": file.name, "sha256": digest, "state": packed})

    def _sweep(self) -> None:
        """Delete tensor files that no JSON names any more, and what a killed write left behind."""
        named = set()
        for name in ("last.json", "previous.json"):
            if (self.folder / name).exists():
                try:
                    named.add(json.loads((self.folder / name).read_text(encoding="utf-8"))["file"])
                except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
                    return  # a damaged index may name any of them: delete nothing
        for pattern in ("step-*.safetensors", "*.tmp"):
            for file in self.folder.glob(pattern):
                if file.name not in named:
                    file.unlink()


def save_weights(
    path: Path, weights: Mapping[str, Tensor], *, step: int | None = None, dtype: torch.dtype | None = None
) -> None:
    """Write weights as safetensors, with their SHA-256 in the header; `dtype` narrows the floating-point ones."""
    kept = {
        name: tensor.detach().to("cpu", dtype if tensor.is_floating_point() else None, copy=True).contiguous()
        for name, tensor in weights.items()
    }
    header = {"sha256": _digest(kept)} | ({} if step is None else {"step": str(step)})
    with _written(path) as fresh:
        save_file(kept, fresh, metadata=header)


def read_weights(path: Path) -> tuple[dict[str, Tensor], int | None]:
    """Read what `save_weights` wrote, and check that it is whole: the weights, and their step where it is known."""
    try:
        weights = load_file(path)
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} can't be loaded: {error}") from error
    if header.get("sha256", "") != _digest(weights):
        raise CheckpointError(f"{path} is damaged: its weights are not those that were written")
    return weights, int(header["step"]) if "step" in header else None


def load_weights(model: nn.Module, folder: Path | str, which: Which = "best") -> int:
    """Put the weights of a run's best or last checkpoint into a model, and return their step.

    Where the run averages its weights, the averaged ones are meant.
    """
    if which not in ("best", "last"):
        raise ValueError(f"load_weights: which={which!r} must be best or last")
    name = WEIGHTS if which == "best" else "last.json"
    if not (Path(folder) / name).exists():
        raise CheckpointError(f"{folder} holds no {name}; is it the folder of a training run?")
    if which == "best":
        weights, step = read_weights(Path(folder) / name)
    else:
        state = CheckpointFolder(folder).load(name)
        weights, step = state["average"] or state["model"], state["step"]
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"the weights in {folder} do not fit this model: {error}") from error
    return step or 0


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


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """A SHA-256 of names, shapes, kinds and values."""
    whole = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        whole.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()


def replace_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with _written(path) as fresh:
        fresh.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def _written(path: Path) -> Iterator[Path]:
    """Give a name to write under; then flush that file to disk, move it to its place, and flush the move.

    What can't be written leaves nothing behind, and an error that says which file it was.
    """
    fresh = path.with_name(path.name + ".tmp")
    try:
        yield fresh
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except (OSError, SafetensorError) as error:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise CheckpointError(f"{path} can't be written: {error}; what was saved before is as it was") from error
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
