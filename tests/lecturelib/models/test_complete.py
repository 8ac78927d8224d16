"""Every public module stands in the contract suite: some case of conftest.py is built from it."""

import importlib
import pkgutil

import pytest
from torch import nn

import lecturelib.layers
import lecturelib.models

ELSEWHERE = {
    "HardGlimpse": "draws in training, and its scores learn by Reinforce alone: test_show_attend_tell.py",
    "LoRALinear": "adapts a layer whose own weights then rest: every case has adapters in test_fast.py",
    "PowerNorm": "divides by what it remembers of other batches: test_norms.py",
    "QuantisedLinear": "has no parameters to train: weights/test_gguf.py",
}


def public_modules(package):
    """The names of all modules in the files of a package that do not begin with an underscore."""
    found = set()
    for file in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for name, thing in vars(importlib.import_module(file.name)).items():
            is_here = isinstance(thing, type) and issubclass(thing, nn.Module) and thing.__module__ == file.name
            if is_here and not name.startswith("_"):
                found.add(name)
    return found


@pytest.fixture(scope="module")
def used(request):
    """The names of all kinds of modules in the cases, and of what these kinds inherit from."""
    cases = next(plugin.CASES for plugin in request.config.pluginmanager.get_plugins() if hasattr(plugin, "CASES"))
    return {kind.__name__ for case in cases for part in case.build().modules() for kind in type(part).__mro__}


@pytest.mark.parametrize("package", [lecturelib.models, lecturelib.layers], ids=["models", "layers"])
def test_every_public_module_is_in_a_case(package, used):
    missing = public_modules(package) - used - ELSEWHERE.keys()
    assert not missing, f"add a case to conftest.py for {sorted(missing)}"


def test_what_stands_elsewhere_is_public_and_in_no_case(used):
    assert public_modules(lecturelib.layers) | public_modules(lecturelib.models) >= ELSEWHERE.keys()
    assert not used & ELSEWHERE.keys()
