"""A small set for the tests of the `grade` command: a function that needs a function, a class that needs a class."""

import torch
from torch import nn

from lecturelib.grading import Rubric, assert_close

rubric = Rubric("small", title="A small set")
rubric.exercise("softmax", title="Softmax", minutes=1, difficulty=1)
rubric.exercise("attention", title="Attention", minutes=1, difficulty=1)
rubric.exercise("layer", title="A layer", minutes=1, difficulty=1, defines=("Layer",))
rubric.exercise("stack", title="Two layers", minutes=1, difficulty=1, defines=("Stack",))


@rubric.reference
def softmax(x):
    return torch.softmax(x, -1)


@rubric.mistake("softmax", "Each row must sum to 1: divide by the sum.")
def unnormalised(x):
    return x.exp()


@rubric.reference
class Layer(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.linear = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.linear(x).tanh()


@rubric.test("softmax", points=1, visible=True)
def rows_sum_to_one(submission, rng):
    x = torch.randn(2, 3, 5, generator=rng)
    assert_close(submission.softmax(x), softmax(x))


@rubric.test("attention", points=2, visible=False, needs=("softmax",))
def attention_matches(submission, rng):
    q, k, v = (torch.randn(2, n, 3, generator=rng) for n in (4, 5, 5))
    want = nn.functional.scaled_dot_product_attention(q, k, v)
    assert_close(submission.attention(q, k, v), want)


@rubric.test("layer", points=1, visible=True)
def layer_matches(submission, rng):
    ours, x = Layer(3), torch.randn(2, 3, generator=rng)
    theirs = submission.Layer(3)
    theirs.load_state_dict(ours.state_dict())
    assert_close(theirs(x), ours(x).detach())


@rubric.test("stack", points=3, visible=False, needs=("Layer",))
def stack_applies_two_layers_and_learns(submission, rng):
    ours, x = nn.ModuleDict({"first": Layer(3), "second": Layer(3)}), torch.randn(2, 3, generator=rng)
    theirs = submission.Stack(3)
    theirs.load_state_dict(ours.state_dict())
    got, want = theirs.gradients(x), ours["second"](ours["first"](x))
    want.sum().backward()
    assert_close(got.value, want.detach())
    for name, parameter in ours.named_parameters():
        assert_close(got.parameters[name], parameter.grad, what=f"the gradient of {name}")
