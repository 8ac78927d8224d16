"""What tests of parity with another implementation share."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.testing import assert_close


def moved(model: nn.Module) -> nn.Module:
    """The model in evaluation, every parameter moved from its initial value."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def assert_same_gradients(
    ours: nn.Module, theirs: nn.Module, load: Callable[[Mapping[str, Tensor]], nn.Module], inputs: Tensor
) -> None:
    """Equal logits, and of a random linear function of them equal gradients by every parameter, none of them zero."""
    got, want = ours(inputs), theirs(inputs)
    want = getattr(want, "logits", want)
    assert_close(got, want, atol=1e-4, rtol=1e-4)
    weight = torch.randn_like(got)
    (got * weight).sum().backward()
    (want * weight).sum().backward()
    copy = load({name: parameter.grad for name, parameter in theirs.named_parameters()})
    for (name, parameter), gradient in zip(ours.named_parameters(), copy.parameters(), strict=True):
        assert_close(parameter.grad, gradient, atol=1e-4, rtol=2e-3, msg=lambda m, name=name: f"{name}: {m}")
    assert all(parameter.grad.any() for parameter in ours.parameters())
