"""Models without their numbers: on `meta`, faked, exported, and with one gradient for each example.

Where a tensor has no values, or only a GPU knows them, no forward pass may ask for one. One does, which no tensor
without values can show: on a GPU recurrent models pack padded batches, as the *Differs* of `Recurrent` says.
"""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

LOOKS = {"_local_scalar_dense", "is_nonzero", "equal", "nonzero", "item"}


class CountLooks(TorchDispatchMode):
    """Counts the calls that bring a value, or a shape that depends on one, from a device to Python."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.__name__.split(".")[0] in LOOKS:
            self.seen.append(function.__name__)
        return function(*args, **(kwargs or {}))


def batch(case):
    generator = torch.Generator().manual_seed(1)
    inputs = case.inputs(generator)
    return inputs, case.targets(inputs, generator)


def build(case):
    torch.manual_seed(0)
    return case.build().eval()


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_forward_and_backward_on_meta_look_at_nothing(case, training):
    model, (inputs, targets) = build(case).train(training).to("meta"), batch(case)
    with CountLooks() as looks:
        loss = case.loss(model, tuple(x.to("meta") for x in inputs), targets.to("meta"))
        loss.backward()
    assert looks.seen == []
    assert all(parameter.grad.shape == parameter.shape for parameter in model.parameters())


def test_steps_on_meta_look_at_nothing(decoding_case):
    model, (inputs, _) = build(decoding_case).to("meta"), batch(decoding_case)
    *source, tokens = (x.to("meta") for x in inputs)
    with CountLooks() as looks:
        state = model.start(*source) if source else model.start(tokens[:, :2])[1]
        for t in (2, 3):
            logits, state = model.step(tokens[:, t], state)
    assert looks.seen == []
    assert logits.shape == (len(tokens), model(*source, tokens).shape[-1])


def test_a_look_is_counted():
    with CountLooks() as looks:
        int(torch.arange(3).max())
    assert looks.seen == ["_local_scalar_dense.default"]


def test_forward_and_backward_on_fake_tensors_look_at_nothing(case):
    model, (inputs, targets) = build(case), batch(case)
    with FakeTensorMode() as mode, CountLooks() as looks:
        faked = mode.from_tensor
        parameters = {name: faked(parameter) for name, parameter in model.named_parameters()}
        lent = parameters | {name: faked(buffer) for name, buffer in model.named_buffers()}

        class Lent(nn.Module):
            def forward(self, *given):
                return torch.func.functional_call(model, lent, given)

        loss = case.loss(Lent(), tuple(faked(x) for x in inputs), faked(targets))
        loss.backward()
    assert looks.seen == []
    assert all(parameter.grad.shape == parameter.shape for parameter in parameters.values())


# torch.export is slow to import what it needs, and warns of it.
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_exported_equals_eager(case):
    model, (inputs, _) = build(case), batch(case)
    exported = torch.export.export(model, inputs).module()
    torch.testing.assert_close(exported(*inputs), model(*inputs), atol=1e-5, rtol=1e-4)


# Over the kernel of an LSTM, too, torch maps one by one.
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_gradients_of_single_examples_equal_those_of_a_loop(case):
    model, (inputs, targets) = build(case), batch(case)
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(parameters, target, *row):
        class Lent(nn.Module):
            def forward(self, *given):
                return torch.func.functional_call(model, parameters, given)

        return case.loss(Lent(), tuple(x[None] for x in row), target[None])

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, *(0 for _ in inputs)))
    with sdpa_kernel(SDPBackend.MATH):  # with the others torch warns that it maps over them one by one
        got = each(parameters, targets, *inputs)
    model = build(case)  # anew: functional_call does not give a module that several blocks share its parameters back
    for row in range(len(targets)):
        model.zero_grad()
        case.loss(model, tuple(x[row : row + 1] for x in inputs), targets[row : row + 1]).backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(got[name][row], parameter.grad, atol=1e-5, rtol=1e-3)
