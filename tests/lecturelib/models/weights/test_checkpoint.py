"""Where checkpoints come from: the hub is stood in for, so that no network is needed."""

import json
import sys
import types

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from lecturelib.models.weights.checkpoint import read_checkpoint
from lecturelib.models.weights.layout import Entry, copy_weights, require_settings


class HubError(OSError):
    pass


class NoSuchFile(HubError):
    pass


def write_shards(folder):
    """Two files and an index, as large checkpoints come."""
    folder.mkdir()
    save_file({"weight": torch.arange(6.0).view(2, 3)}, folder / "model-1-of-2.safetensors")
    save_file({"bias": torch.ones(2)}, folder / "model-2-of-2.safetensors")
    shards = {"weight": "model-1-of-2.safetensors", "bias": "model-2-of-2.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    (folder / "config.json").write_text(json.dumps({"model_type": "sharded"}))
    return folder


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub that has two repositories, `someone/small` and, in shards, `someone/sharded`; it is down for any other."""
    (tmp_path / "small").mkdir()
    save_file({"weight": torch.arange(6.0).view(2, 3)}, tmp_path / "small" / "model.safetensors")
    (tmp_path / "small" / "config.json").write_text(json.dumps({"model_type": "small"}))
    write_shards(tmp_path / "sharded")

    def hf_hub_download(repository, file):
        path = tmp_path / repository.removeprefix("someone/") / file
        if not path.parent.exists():
            raise HubError("no connection")
        if not path.exists():
            raise NoSuchFile("404")
        return str(path)

    module, errors = types.ModuleType("huggingface_hub"), types.ModuleType("huggingface_hub.errors")
    module.hf_hub_download = hf_hub_download
    errors.HfHubHTTPError = errors.HFValidationError = HubError
    errors.EntryNotFoundError = NoSuchFile
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)


@pytest.mark.usefixtures("hub")
def test_read_checkpoint_fetches_from_the_hub():
    tensors, settings = read_checkpoint("someone/small")
    assert torch.equal(tensors["weight"], torch.arange(6.0).view(2, 3))
    assert settings == {"model_type": "small"}


@pytest.mark.usefixtures("hub")
def test_read_checkpoint_says_when_the_hub_does_not_answer():
    with pytest.raises(OSError, match=r"'someone/large'.*no connection.*check the name and the network"):
        read_checkpoint("someone/large")


@pytest.mark.usefixtures("hub")
def test_read_checkpoint_joins_shards_of_the_hub_and_of_a_folder(tmp_path):
    for source in ("someone/sharded", tmp_path / "sharded", tmp_path / "sharded" / "model.safetensors.index.json"):
        tensors, settings = read_checkpoint(source)
        assert tensors.keys() == {"weight", "bias"}
        assert torch.equal(tensors["weight"], torch.arange(6.0).view(2, 3))
        assert settings == {"model_type": "sharded"}


@pytest.mark.parametrize("name", ["config.json", "model-2-of-2.safetensors", "model.safetensors.index.json"])
def test_read_checkpoint_names_the_damaged_file(tmp_path, name):
    path = write_shards(tmp_path / "sharded") / name
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(ValueError, match=rf"{name} is damaged.*fetch it again"):
        read_checkpoint(path.parent)


def test_read_checkpoint_names_the_missing_shard(tmp_path):
    folder = write_shards(tmp_path / "sharded")
    (folder / "model-1-of-2.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model-1-of-2\.safetensors"):
        read_checkpoint(folder)


def test_read_checkpoint_finds_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    save_file({"weight": torch.ones(3)}, tmp_path / "model.safetensors")
    assert torch.equal(read_checkpoint("~/model.safetensors").tensors["weight"], torch.ones(3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_copy_weights_takes_other_precisions(dtype):
    ours, given = nn.Linear(3, 2, bias=False), torch.arange(6.0).view(2, 3)
    copy_weights(ours, {"w": given.to(dtype)}, {"weight": Entry("w")})
    assert ours.weight.dtype == torch.float32
    assert torch.equal(ours.weight, given)


def test_copy_weights_refuses_whole_numbers():
    with pytest.raises(ValueError, match=r"w holds torch.int8, needed real numbers"):
        copy_weights(nn.Linear(3, 2, bias=False), {"w": torch.ones(2, 3, dtype=torch.int8)}, {"weight": Entry("w")})


def test_read_checkpoint_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"pip install 'lecturelib\[hub\]', or give the path"):
        read_checkpoint("someone/small")


@pytest.mark.parametrize("name", ["./weights", "weights.safetensors"])
def test_read_checkpoint_never_takes_a_path_for_a_repository(name):
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        read_checkpoint(name)


def test_copy_weights_takes_thirds_and_transposes():
    ours = nn.ModuleDict({name: nn.Linear(3, 2, bias=False) for name in ("query", "key", "value")})
    stored = torch.arange(18.0).view(3, 6)  # (in, 3 · out)
    where = {f"{name}.weight": Entry("qkv", third, transposed=True) for third, name in enumerate(ours)}
    copy_weights(ours, {"model.qkv": stored}, where, rename=lambda name: name.removeprefix("model."))
    assert torch.equal(torch.cat([layer.weight for layer in ours.values()]), stored.T)


def test_copy_weights_changes_nothing_unless_all_fits():
    ours = nn.Linear(3, 2)
    before = ours.weight.clone()
    with pytest.raises(ValueError, match=r"missing from the checkpoint: b; not known to this model: c, d; w has shape"):
        copy_weights(
            ours,
            {"w": torch.zeros(3, 2), "d": torch.zeros(1), "c": torch.zeros(1)},
            {"weight": Entry("w"), "bias": Entry("b")},
        )
    assert torch.equal(ours.weight, before)


def test_require_settings_names_the_setting():
    require_settings({"act": "gelu"}, {"act": "gelu", "absent": 1})
    with pytest.raises(ValueError, match="act='relu'; this model is built for 'gelu'"):
        require_settings({"act": "relu"}, {"act": "gelu"})
