"""Judging by a metric: a student's network, handed over as plain data, is built, counted and run on the trusted side.

    contest = Contest(inputs=…, targets=…, num_symbols=8, most_parameters=3000, most_flops=60_000, marks=(0.8, 0.9))

    @rubric.test("train", points=8, visible=False, topic="hidden sequences")
    def labels_hidden_sequences(submission, rng):
        return assert_scores(submission.train(inputs, targets), contest)

The student's process sees what it trains on and never what it is judged on. It returns layers and weights, as
`network.describe` makes them, and nothing else that it says or does is believed: parameters and operations are counted
here, of a network that was built here. A network within its limits that reaches no mark fails; each mark that it
reaches is worth an equal part of the points, and its score goes to the leaderboard.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lecturelib.grading.rubric.compare import Mismatch, announce
from lecturelib.grading.rubric.network import build
from lecturelib.grading.rubric.wording import name_of
from lecturelib.grading.sandbox.worker.calls import plain


@dataclass(frozen=True, kw_only=True)
class Score:
    """What a network reached: the part of the points it earns, the metric, what it costs, and all that in words."""

    share: float
    measured: tuple[tuple[str, float], ...]  # the metric first, then costs, of which less is better
    told: str


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What a network is judged on.

    Args:
        inputs: (N, T) ids of symbols
        targets: (N, T) the class of each; below 0 where nothing is asked
        num_symbols: ids there are
        num_classes: width of the network's answer
        most_parameters: limit
        most_flops: limit, for one sequence, as `lecturelib.evaluation.count_flops` counts
        marks: accuracies, rising; each that is reached is worth an equal part of the points
    """

    inputs: Tensor
    targets: Tensor
    num_symbols: int
    num_classes: int
    most_parameters: int
    most_flops: int
    marks: tuple[float, ...]

    @property
    def what(self) -> str:
        """How a message calls what is judged."""
        return "the network"

    def judge(self, got: Any) -> Score:
        """The score of a network as plain data; `Mismatch` if it is none, breaks a limit, or reaches no mark."""
        from lecturelib.evaluation import count_flops, count_parameters  # they load torch's compiler

        try:
            network = self._built(plain(got))
        except Mismatch as error:
            error.got = got
            raise
        parameters, inputs = count_parameters(network), self.inputs.long()
        flops = count_flops(network, inputs[:1])
        for count, most, name in (
            (parameters, self.most_parameters, "parameters"),
            (flops, self.most_flops, "operations for a sequence"),
        ):
            if count > most:
                raise Mismatch(f"the network has {count:,} {name}; at most {most:,} are allowed", form=True)
        with torch.no_grad():
            logits = network(inputs)
        if logits.shape[-1] != self.num_classes:
            raise Mismatch(f"the network ends with width {logits.shape[-1]}; there are {self.num_classes} classes")
        targets = self.targets.long()
        asked = targets >= 0
        accuracy = round(float((logits.argmax(dim=-1) == targets)[asked].double().mean()), 4)
        reached = sum(accuracy >= mark for mark in self.marks)
        told = (
            f"accuracy {accuracy:.3f} on {len(inputs):,} sequences that it has not seen, "
            f"with {parameters:,} of {self.most_parameters:,} parameters "
            f"and {flops:,} of {self.most_flops:,} operations a sequence"
        )
        if not reached:
            raise Mismatch(f"{told}; the first mark is {self.marks[0]:g}")
        if reached < len(self.marks):
            told += f"; the next mark is {self.marks[reached]:g}"
        measured = (("accuracy", accuracy), ("parameters", float(parameters)), ("operations", float(flops)))
        return Score(share=reached / len(self.marks), measured=measured, told=told)

    def _built(self, got: Any) -> nn.Module:
        if not isinstance(got, dict) or set(got) != {"layers", "weights"}:
            raise Mismatch(
                f"return a dict of layers and weights, as `describe(layers, network)` makes it; got {name_of(got)}",
                form=True,
            )
        try:
            with torch.device("meta"):  # costs no memory, and shows how much the real one would
                size = sum(parameter.numel() for parameter in build(got["layers"], self.num_symbols).parameters())
            if size > 10 * self.most_parameters:
                raise ValueError(f"the network has {size:,} parameters; at most {self.most_parameters:,} are allowed")
            network = build(got["layers"], self.num_symbols)
        except ValueError as error:
            raise Mismatch(str(error), form=True) from error
        _load(network, got["weights"])
        return network.eval()


def _load(network: nn.Module, weights: Any) -> None:
    """Copy weights into a network; `Mismatch` unless they are its own, by name and shape, and numbers."""
    own = dict(network.named_parameters())
    if not isinstance(weights, dict):
        raise Mismatch(f"the weights should be a dict of tensors by name, got {name_of(weights)}", form=True)
    for name in sorted(own.keys() ^ weights.keys(), key=str)[:1]:
        said = "is missing" if name in own else "belongs to no layer"
        raise Mismatch(f"the weight {str(name)[:60]!r} {said}: are these the weights of these layers?", form=True)
    for name, parameter in own.items():
        given = weights[name]
        if not isinstance(given, Tensor) or not given.is_floating_point() or given.shape != parameter.shape:
            wanted = f"real numbers of shape {tuple(parameter.shape)}"
            raise Mismatch(f"the weight {name!r} should be {wanted}, got {name_of(given)}", form=True)
        if not bool(given.isfinite().all()):
            raise Mismatch(f"the weight {name!r} has NaN or infinity in it: did the training diverge?", form=True)
        with torch.no_grad():
            parameter.copy_(given)


def assert_scores(got: Any, contest: Contest) -> Score:
    """The score of a submission's network; fails if it is none, breaks a limit, or reaches no mark."""
    announce(got, contest)
    return contest.judge(got)
