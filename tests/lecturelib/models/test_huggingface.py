"""Where checkpoints come from: the hub is stood in for, so that no network is needed."""

import json
import sys
import types

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from lecturelib.models.huggingface import Entry, copy_weights, read_checkpoint, require_settings


class HubError(OSError):
    pass


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub that has one repository, `someone/small`, and is down for any other."""
    save_file({"weight": torch.arange(6.0).view(2, 3)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "small"}))

    def hf_hub_download(repository, file):
        if repository != "someone/small":
            raise HubError("no connection")
        return str(tmp_path / file)

    module, errors = types.ModuleType("huggingface_hub"), types.ModuleType("huggingface_hub.errors")
    module.hf_hub_download = hf_hub_download
    errors.HfHubHTTPError = errors.HFValidationError = HubError
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


def test_read_checkpoint_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="pip install huggingface_hub, or give the path"):
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
