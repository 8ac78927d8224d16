"""The skeleton of chapter 21: its layers cost the same, and see as far as they say."""

import pytest
import torch

from lecturelib.evaluation import count_flops
from lecturelib.models import LabellerConfig, SequenceLabeller


def build(*mixers: str, **changes: int) -> SequenceLabeller:
    torch.manual_seed(0)
    return SequenceLabeller(LabellerConfig(vocab_size=7, num_classes=5, mixers=mixers, **changes)).eval()


def test_layers_of_every_kind_cost_the_same_where_width_is_length_and_kernels_are_six():
    tokens = torch.randint(7, (1, 32))
    stacks = [("convolution",) * 2, ("recurrence",) * 2, ("attention",) * 2, ("convolution", "attention")]
    by_hand = 32 * (2 * (12 * 32**2 + 2 * 2 * 32 * 64) + 2 * 32 * 5)
    assert {count_flops(build(*stack), tokens) for stack in stacks} == {by_hand}


@pytest.mark.parametrize(("mixers", "reach"), [(("convolution",), 2), (("convolution",) * 2, 8), (("recurrence",), 14)])
def test_convolutions_see_as_far_as_kernel_and_dilation_reach(mixers, reach):
    model, tokens = build(*mixers, d_model=8, kernel_size=3), torch.randint(7, (1, 15))
    embedded = model.embedding(tokens).detach().requires_grad_()
    x = embedded
    for block in model.blocks:
        x = block(x, is_causal=True)
    (grad,) = torch.autograd.grad(x[0, -1].sum(), embedded)
    felt = (grad[0].abs().sum(dim=1) > 0).nonzero().flatten()
    assert int(felt.min()) == 14 - reach


def test_state_of_convolution_and_recurrence_stays_and_that_of_attention_grows():
    sizes = {}
    for name in ("convolution", "recurrence", "attention"):
        model = build(name, d_model=8, kernel_size=3)
        for length in (6, 11):
            _, state = model.start(torch.randint(7, (2, length)))
            sizes[name, length] = sum(tensor.numel() for layer in state.layers for tensor in layer)
    assert sizes["convolution", 6] == sizes["convolution", 11] == 2 * 2 * 8
    assert sizes["recurrence", 6] == sizes["recurrence", 11] == 2 * 8
    assert [sizes["attention", length] for length in (6, 11)] == [2 * 2 * 6 * 8, 2 * 2 * 11 * 8]


def test_a_mixer_that_is_not_there_is_explained():
    with pytest.raises(ValueError, match=r"mixers must name one of .* got \('pooling',\)"):
        LabellerConfig(vocab_size=7, num_classes=5, mixers=("pooling",))
    with pytest.raises(ValueError, match="take no key and no mask"):
        build("convolution").blocks[0].mixer(torch.zeros(1, 2, 32), torch.zeros(1, 2, 32))
