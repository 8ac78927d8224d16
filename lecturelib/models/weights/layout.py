"""What a foreign layout is: where each of our parameters is stored; and copying, without a name left over."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lecturelib.layers.positions.rotary import pair_neighbours


class Entry(NamedTuple):
    """Where one of our parameters is in their checkpoint: its name there, which third of it, and if transposed.

    `halves` is the width of heads whose rotary pairs are a head's two halves there, and neighbours here. `plus` is a
    table there whose first row they always add, and which is therefore part of this bias here.
    """

    name: str
    third: int | None = None
    transposed: bool = False
    halves: int | None = None
    plus: str | None = None


Entries = dict[str, Entry]
"""Our parameters' names, and where each is."""


def _same(name: str) -> str:
    return name


def _from_config(model: type[nn.Module], config: Any, names: Mapping[str, Tensor]) -> nn.Module:
    return model(config)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How others store the weights of one of our models.

    Args:
        entries: for a model of ours, where each of its parameters is
        config: our config from the settings of a `config.json`; raises where their network is not ours
        preset: the name of a config to suggest where the sizes are not known
        mark: a part of a name by which to tell this layout from the model's others
        build: makes the model from its class, its config and their tensors
        rename: brings a name of theirs to the form that `entries` uses
        tied: names that may be there as second copies of another name, and must then be equal to it
        ignored: pattern of the names that hold no weights, or weights of a head that the model does not have
        head: how our parameters' names begin that may start afresh
    """

    entries: Callable[[Any], Entries]
    preset: str
    config: Callable[[dict[str, Any]], Any] | None = None
    mark: str = ""
    build: Callable[[Any, Any, Mapping[str, Tensor]], nn.Module] = _from_config
    rename: Callable[[str], str] = _same
    tied: Mapping[str, str] = field(default_factory=dict)
    ignored: str = "$^"
    head: tuple[str, ...] = ("head.",)


def stage_blocks(depths: Iterable[int], theirs: str) -> Iterator[tuple[str, str]]:
    """How the names of every block begin in a model of stages, ours and theirs."""
    for i, depth in enumerate(depths):
        for j in range(depth):
            yield f"stages.{i}.blocks.{j}.", f"{theirs}.{i}.blocks.{j}."


def modules(table: Mapping[str, str], ours: str = "", theirs: str = "") -> Entries:
    """The weights and biases of a table of modules, our names and theirs; each name goes on from where it is given."""
    return {
        f"{ours}{here}.{kind}": Entry(f"{theirs}{there}.{kind}")
        for here, there in table.items()
        for kind in ("weight", "bias")
    }


def weights(table: Mapping[str, str], ours: str = "", theirs: str = "") -> Entries:
    """As `modules`, of modules that have no biases."""
    return {name: entry for name, entry in modules(table, ours, theirs).items() if name.endswith(".weight")}


def require_settings(settings: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose network is not ours: settings that are present must be as expected."""
    for name, value in expected.items():
        if name in settings and settings[name] != value:
            raise ValueError(f"the checkpoint has {name}={settings[name]!r}; this model is built for {value!r} only")


ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
"""The hub's names of nonlinearities, and ours."""


def activation(settings: Mapping[str, Any], name: str = "hidden_act") -> str:
    """Our name of the nonlinearity in a setting; an error where we have none."""
    theirs = settings.get(name, "gelu")
    if theirs not in ACTIVATIONS:
        raise ValueError(f"the checkpoint has {name}={theirs!r}; this model is built for one of {sorted(ACTIVATIONS)}")
    return ACTIVATIONS[theirs]


@torch.no_grad()
def copy_weights(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    where: Mapping[str, Entry],
    *,
    tied: Mapping[str, str] | None = None,
    ignored: str = "$^",
    rename: Callable[[str], str] = _same,
    head: tuple[str, ...] = (),
    new_head: bool = False,
) -> None:
    """Copy every tensor to its place, or say which name is missing, left over, or of the wrong shape.

    Args:
        model: ours; nothing is copied unless all fits
        tensors: theirs
        where: for each of our parameters, where it is in theirs
        tied, ignored, rename, head: as in `Layout`
        new_head: of the head, leave as it is what theirs lacks or has in another shape
    """
    tied = tied or {}
    given = {rename(name): (name, tensor) for name, tensor in tensors.items()}
    parameters = dict(model.named_parameters())
    needed = {entry.name for entry in where.values()} | {entry.plus for entry in where.values() if entry.plus}
    extra = [given[name][0] for name in given.keys() - needed - tied.keys() if not re.fullmatch(ignored, name)]
    missing, misfits, pairs, lacks_head = set(), [], [], False
    for ours in where.keys() & parameters.keys():
        entry, want = where[ours], parameters[ours].shape
        original, tensor = given.get(entry.name, (entry.name, None))
        misfit = None if tensor is None else _misfit(original, tensor, want, entry)
        if tensor is not None and misfit is None:
            part = _part(tensor, entry)
            pairs.append((parameters[ours], part + given[entry.plus][1][0] if entry.plus in given else part))
        elif not (new_head and ours.startswith(head)):
            lacks_head = lacks_head or ours.startswith(head)
            missing |= {entry.name} if tensor is None else set()
            misfits += [] if misfit is None else [misfit]
    problems = [
        _listed("this model has parts that the checkpoint knows nothing of", parameters.keys() ^ where.keys()),
        _listed("missing from the checkpoint", missing),
        _listed("not known to this model", extra),
        *sorted(set(misfits)),
        *(
            f"{given[copy][0]} differs from {given[original][0]}; here they are one matrix"
            for copy, original in tied.items()
            if copy in given.keys() - needed
            and original in given
            and not torch.equal(given[copy][1], given[original][1])
        ),
        "to start a new head on these weights, pass new_head=True" if lacks_head else "",
        "if the unknown names are a head for something else, give a state dict without them" if extra else "",
    ]
    if any(problems):
        raise ValueError("the checkpoint does not fit: " + "; ".join(filter(None, problems)))
    for parameter, tensor in pairs:
        parameter.copy_(tensor)


def _part(tensor: Tensor, entry: Entry) -> Tensor:
    tensor = tensor.T if entry.transposed else tensor
    tensor = tensor if entry.third is None else tensor.chunk(3)[entry.third]
    return tensor if entry.halves is None else pair_neighbours(tensor, entry.halves)


def _misfit(name: str, tensor: Tensor, want: torch.Size, entry: Entry) -> str | None:
    """Why a tensor of theirs cannot fill a parameter of this shape."""
    theirs = tuple(want) if entry.third is None else (3 * want[0], *want[1:])
    theirs = theirs[::-1] if entry.transposed else theirs
    if tuple(tensor.shape) != theirs:
        return f"{name} has shape {tuple(tensor.shape)}, needed {theirs}"
    return None if tensor.is_floating_point() else f"{name} holds {tensor.dtype}, needed real numbers"


def _listed(what: str, names: Iterable[str]) -> str:
    names = sorted(names)
    return f"{what}: {', '.join(names)}" if names else ""
