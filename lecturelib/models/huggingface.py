"""Read checkpoints in the layout of the Hugging Face hub, and copy them into our models without a name left over."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

Source = Mapping[str, Tensor] | str | Path


class Checkpoint(NamedTuple):
    """Tensors by name, and the settings of `config.json` where there was one."""

    tensors: dict[str, Tensor]
    settings: dict[str, Any] | None


class Entry(NamedTuple):
    """Where one of our parameters is in their checkpoint: its name there, which third of it, and if transposed."""

    name: str
    third: int | None = None
    transposed: bool = False


ONE_FILE, INDEX = "model.safetensors", "model.safetensors.index.json"


def read_checkpoint(source: Source) -> Checkpoint:
    """Read a state dict, a local `.safetensors` file, a folder with `model.safetensors`, or a name on the hub.

    Large checkpoints come in several files and an index, `model.safetensors.index.json`, which is read as well.
    """
    if isinstance(source, Mapping):
        return Checkpoint(dict(source), None)
    path = Path(source).expanduser()
    if path.is_dir():
        path = path / (ONE_FILE if (path / ONE_FILE).is_file() or not (path / INDEX).is_file() else INDEX)
    if path.is_file():
        return Checkpoint(_read_tensors(path, path.with_name), _read_settings(path.with_name("config.json")))
    if isinstance(source, Path) or source.startswith((".", "/", "~")) or source.endswith(".safetensors"):
        raise FileNotFoundError(f"no checkpoint at {path}; give a .safetensors file or a folder with model.safetensors")
    try:
        path = _download(source, ONE_FILE)
    except FileNotFoundError:
        path = _download(source, INDEX)
    return Checkpoint(_read_tensors(path, partial(_download, source)), _read_settings(_download(source, "config.json")))


def _read_tensors(path: Path, find: Callable[[str], Path]) -> dict[str, Tensor]:
    """Read one file, or all that an index names, each where `find` has it."""
    if path.suffix == ".json":
        files = sorted(set(_read_json(path).get("weight_map", {}).values()))
        return {name: tensor for file in files for name, tensor in _read_tensors(find(file), find).items()}
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged, or no .safetensors file ({error}); fetch it again") from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged, or no JSON ({error}); fetch it again") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it holds a {type(found).__name__}, needed names and values")
    return found


def _read_settings(path: Path) -> dict[str, Any] | None:
    return _read_json(path) if path.is_file() else None


def _download(repository: str, file: str) -> Path:
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError
    except ImportError:
        raise ImportError(
            f"there is no local file {repository!r}, and fetching it from the hub needs huggingface_hub: "
            "pip install huggingface_hub, or give the path of a .safetensors file"
        ) from None
    try:
        return Path(hf_hub_download(repository, file))
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        kind = FileNotFoundError if isinstance(error, EntryNotFoundError) else OSError
        raise kind(
            f"there is no local file {repository!r}, and {file} could not be had from the hub ({error}); "
            "check the name and the network, or give the path of a .safetensors file"
        ) from error


def require_settings(settings: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose network is not ours: settings that are present must be as expected."""
    for name, value in expected.items():
        if name in settings and settings[name] != value:
            raise ValueError(f"the checkpoint has {name}={settings[name]!r}; this model is built for {value!r} only")


@torch.no_grad()
def copy_weights(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    where: Mapping[str, Entry],
    *,
    tied: Mapping[str, str] | None = None,
    ignored: str = "$^",
    rename: Callable[[str], str] = str,
) -> None:
    """Copy every tensor to its place, or say which name is missing, left over, or of the wrong shape.

    Args:
        model: ours; nothing is copied unless all fits
        tensors: theirs
        where: for each of our parameters, where it is in theirs
        tied: names that may be there as second copies of another name, and must then be equal to it
        ignored: pattern of the names that hold no weights
        rename: brings a name of theirs to the form that `where` uses
    """
    tied = tied or {}
    given = {rename(name): (name, tensor) for name, tensor in tensors.items()}
    parameters = dict(model.named_parameters())
    assert parameters.keys() == where.keys(), parameters.keys() ^ where.keys()
    needed = {entry.name for entry in where.values()}
    missing = sorted(needed - given.keys())
    extra = sorted(given[n][0] for n in given.keys() - needed - tied.keys() if not re.fullmatch(ignored, n))
    problems = [f"missing from the checkpoint: {', '.join(missing)}"] if missing else []
    problems += [f"not known to this model: {', '.join(extra)}"] if extra else []
    fitting: list[tuple[Tensor, Tensor]] = []
    for ours, entry in where.items():
        if entry.name not in given:
            continue
        tensor = given[entry.name][1]
        tensor = tensor.T if entry.transposed else tensor
        want = list(parameters[ours].shape)
        if entry.third is not None:
            want[0] *= 3
        if list(tensor.shape) != want:
            got = tuple(given[entry.name][1].shape)
            problems.append(f"{given[entry.name][0]} has shape {got}, needed {_theirs(want, entry.transposed)}")
            continue
        if not tensor.is_floating_point():
            problems.append(f"{given[entry.name][0]} holds {tensor.dtype}, needed real numbers")
            continue
        fitting.append((parameters[ours], tensor if entry.third is None else tensor.chunk(3)[entry.third]))
    for copy, original in tied.items():
        if copy in given and original in given and not torch.equal(given[copy][1], given[original][1]):
            problems.append(f"{given[copy][0]} differs from {given[original][0]}; here they are one matrix")
    if problems:
        raise ValueError("the checkpoint does not fit: " + "; ".join(dict.fromkeys(problems)))
    for parameter, tensor in fitting:
        parameter.copy_(tensor)


def _theirs(shape: list[int], transposed: bool) -> tuple[int, ...]:
    return tuple(reversed(shape)) if transposed else tuple(shape)
