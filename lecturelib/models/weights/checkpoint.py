"""Read foreign checkpoints: from a file, a folder, the hub, a running model, or a state dict at hand."""

import json
import pickle
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from lecturelib.data.store.gguf import read_gguf
from lecturelib.models.weights.blocks import dequantise

Source = Mapping[str, Tensor] | nn.Module | str | Path

NAMES = (
    "model.safetensors",
    "model.safetensors.index.json",  # large checkpoints come in several files and an index
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
PICKLED = (".bin", ".pt", ".pth")
LOCAL = (".safetensors", ".gguf", *PICKLED)  # how the name of a file ends, and no name on the hub


class Checkpoint(NamedTuple):
    """Tensors by name, and the settings of `config.json`, or of a GGUF file, where there were some."""

    tensors: dict[str, Tensor]
    settings: dict[str, Any] | None


def read_checkpoint(source: Source) -> Checkpoint:
    """Read a state dict, a module, a local file, a folder that has one of `NAMES`, or a name on the hub.

    Of a GGUF file the settings are those in the file itself, and quantised tensors become float32.

    A `.bin` file is read by torch's loader of weights only: of a pickle that asks for more, nothing is run.
    """
    if isinstance(source, nn.Module):
        config: Any = getattr(source, "config", None)
        settings = config.to_dict() if hasattr(config, "to_dict") else None  # a model of transformers knows its sizes
        return Checkpoint(dict(source.state_dict()), settings)
    if isinstance(source, Mapping):
        return Checkpoint(dict(source), None)
    path = Path(source).expanduser()
    if path.is_dir():
        path = next((path / name for name in NAMES if (path / name).is_file()), path / NAMES[0])
    if path.is_file() and path.suffix == ".gguf":
        file = read_gguf(path)
        return Checkpoint({name: dequantise(raw, name) for name, raw in file.tensors.items()}, file.settings)
    if path.is_file():
        return Checkpoint(_read_tensors(path, path.with_name), _read_settings(path.with_name("config.json")))
    if isinstance(source, Path) or source.startswith((".", "/", "~")) or path.suffix in LOCAL:
        raise FileNotFoundError(
            f"no checkpoint at {path}; give a .safetensors or .bin file, or a folder with {NAMES[0]} or {NAMES[2]}"
        )
    tensors = _read_tensors(_download_first(source), partial(_download, source))
    return Checkpoint(tensors, _read_settings(_download(source, "config.json")))


def _read_tensors(path: Path, find: Callable[[str], Path]) -> dict[str, Tensor]:
    """Read one file, or all that an index names, each where `find` has it."""
    if path.suffix == ".json":
        files = sorted(set(_read_json(path).get("weight_map", {}).values()))
        return {name: tensor for file in files for name, tensor in _read_tensors(find(file), find).items()}
    if path.suffix in PICKLED:
        return _read_pickled(path)
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged, or no .safetensors file ({error}); fetch it again") from error


def _read_pickled(path: Path) -> dict[str, Tensor]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} is damaged, or holds more than tensors, which is not run here; fetch it again, or save the "
            "weights alone as .safetensors"
        ) from error
    except (EOFError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged, or no file of torch.save ({error}); fetch it again") from error
    if isinstance(found, Mapping) and all(isinstance(tensor, Tensor) for tensor in found.values()):
        return dict(found)
    names = f"the names {', '.join(map(repr, found))}" if isinstance(found, Mapping) else f"a {type(found).__name__}"
    raise ValueError(
        f"{path} holds {names}, not tensors by name; open it with torch.load and give the state dict in it"
    )


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


def _download_first(repository: str) -> Path:
    for name in NAMES[:-1]:
        try:
            return _download(repository, name)
        except FileNotFoundError:
            continue
    return _download(repository, NAMES[-1])


def _download(repository: str, file: str) -> Path:
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError
    except ImportError:
        raise ImportError(
            f"there is no local file {repository!r}, and fetching it from the hub needs huggingface_hub: "
            "pip install 'lecturelib[hub]', or give the path of a .safetensors file"
        ) from None
    try:
        return Path(hf_hub_download(repository, file))
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        kind = FileNotFoundError if isinstance(error, EntryNotFoundError) else OSError
        raise kind(
            f"there is no local file {repository!r}, and {file} could not be had from the hub ({error}); "
            "check the name and the network, or give the path of a .safetensors file"
        ) from error
