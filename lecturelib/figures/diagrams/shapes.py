"""The shapes on the wires: measured by running the model, and written in the letters of the course's legend."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

Shape = tuple[int, ...]

MEANINGS = {
    "B": "batch",
    "T": "length",
    "S": "length of the source",
    "Ns": "sentences",
    "Tp": "length of the passage",
    "Tq": "queries",
    "Tk": "keys",
    "D": "width",
    "E": "width of the input",
    "H": "heads",
    "Dh": "width of a head",
    "V": "vocabulary",
    "N": "patches",
    "C": "classes",
    "K": "steps",
    "A": "actions",
    "Ne": "experts",
    "P": "pixels of a side",
    "Q": "object queries",
}
SMALLEST = 2  # batch or length of a run that measures
RUN = ("B", "T", "S", "Ns", "Tp", "Tq", "Tk", "K")  # chosen by whoever runs the model, not by the model


def matching(model: nn.Module, path: str) -> list[str]:
    """The modules and parameters of a model that a path with * for list indices names."""
    pattern = re.compile(re.escape(path).replace(r"\*", r"\d+"))
    names = [name for name, _ in model.named_modules(remove_duplicate=False)] + [
        name for name, _ in model.named_parameters()
    ]
    return [name for name in names if pattern.fullmatch(name)]


def free_sizes(model: nn.Module, count: int, taken: Iterable[int] = ()) -> list[int]:
    """The smallest sizes that no dimension of the model's parameters has: a shape then reads one way."""
    used = {size for parameter in model.parameters() for size in parameter.shape} | set(taken)
    return [size for size in range(SMALLEST, SMALLEST + count + len(used)) if size not in used][:count]


class Shapes:
    """What every module of a model gave when it ran, as letters.

    Args:
        letters: the size of each letter; of two letters with one size the first is written
        outputs: shapes by the path of the module
        sized: whether the legend says how large the model's own letters are
        meanings: what letters stand for that whoever runs this model chooses, where that is not what `MEANINGS` says
    """

    def __init__(
        self,
        letters: dict[str, int],
        outputs: dict[str, list[Shape]] | None = None,
        *,
        sized: bool = False,
        meanings: dict[str, str] | None = None,
    ) -> None:
        self.letters, self.outputs, self.sized = letters, outputs or {}, sized
        self.meanings, self.chosen = MEANINGS | (meanings or {}), {*RUN, *(meanings or {})}
        self.claims: list[tuple[str, str]] = []  # each path or tensor that was asked for, and what was answered

    def write(self, shape: Iterable[int]) -> str:
        """Sizes as letters, or as numbers where no letter has that size."""
        by_size = {size: letter for letter, size in reversed(self.letters.items())}
        return "(" + ", ".join(by_size.get(size, str(size)) for size in shape) + ")"

    def __getitem__(self, path: str) -> str:
        """What the modules of this path gave; an error if there is none, or if they differ."""
        pattern = re.compile(re.escape(path).replace(r"\*", r"\d+"))
        found = {shape for name, shapes in self.outputs.items() if pattern.fullmatch(name) for shape in shapes}
        if len(found) != 1:
            raise ValueError(
                f"modules {path!r} gave {sorted(found) or 'nothing'} in this forward pass; expected one shape"
            )
        text = self.write(next(iter(found)))
        self.claims.append((path, text))
        return text

    def legend(self, used: Iterable[str]) -> list[str]:
        """What the used letters mean, and how large they are in this model."""
        texts = []
        for letter in (letter for letter in self.meanings if letter in set(used) and letter in self.letters):
            size = f" = {self.letters[letter]:,}" if self.sized and letter not in self.chosen else ""
            texts.append(f"{letter}{size} {self.meanings[letter]}")
        return texts

    def of(self, what: str, tensor: Tensor) -> str:
        """The shape of a tensor that is no module's output."""
        text = self.write(tensor.shape)
        self.claims.append((what, text))
        return text


@contextmanager
def watched(model: nn.Module) -> Iterator[dict[str, list[Shape]]]:
    """Run a model inside, in evaluation mode and without gradients, to learn the shape of each module's output."""
    outputs: dict[str, list[Shape]] = {}

    def keep(name: str, output: object) -> None:
        first = output
        while isinstance(first, tuple | list) and first:
            first = first[0]
        if isinstance(first, Tensor):
            outputs.setdefault(name, []).append(tuple(first.shape))

    hooks = [
        module.register_forward_hook(lambda _module, _inputs, output, name=name: keep(name, output))
        for name, module in model.named_modules(remove_duplicate=False)
    ]
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield outputs
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()


def measure(
    model: nn.Module,
    *inputs: Tensor | None,
    letters: dict[str, int],
    sized: bool = False,
    meanings: dict[str, str] | None = None,
) -> Shapes:
    """Run a model once on these inputs."""
    with watched(model) as outputs:
        model(*inputs)
    return Shapes(letters, outputs, sized=sized, meanings=meanings)
