"""`fast(model)` is the model, only quicker, for every model of the contract suite; or it says why it cannot be."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from lecturelib.evaluation import beam_search, decode, read_prompt, read_source
from lecturelib.fast import CannotPrepare, fast
from lecturelib.layers import Attention, add_lora, attention_weights, lora_parameters
from lecturelib.models import GraphConvolution

CLOSE = {
    torch.float64: {"atol": 1e-12, "rtol": 1e-10},
    torch.float32: {"atol": 1e-5, "rtol": 1e-4},
    torch.bfloat16: {"atol": 0.05, "rtol": 0.05},
}


def build(case, dtype=torch.float32):
    """A model in eval mode, every parameter moved from its initial value."""
    torch.manual_seed(0)
    model = case.build()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval().to(dtype)


def inputs_of(case, dtype=torch.float32):
    inputs = case.inputs(torch.Generator().manual_seed(1))
    return tuple(tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in inputs)


def assert_equal_outputs(case, model, dtype=torch.float32):
    inputs = inputs_of(case, dtype)
    with torch.no_grad():
        want = model(*inputs)
    got = fast(model)(*inputs)
    assert got.dtype == want.dtype
    assert not got.requires_grad
    torch.testing.assert_close(got, want, **CLOSE[dtype])
    return want


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_fast_equals_plain(case, dtype):
    assert_equal_outputs(case, build(case, dtype), dtype)


def test_fast_equals_plain_under_autocast(case):
    model = build(case)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inputs = inputs_of(case)
        with torch.no_grad():
            want = model(*inputs)
        torch.testing.assert_close(fast(model)(*inputs), want, **CLOSE[torch.bfloat16])


def test_fast_sees_changed_weights_when_it_is_made_anew(case):
    model = build(case)
    before = assert_equal_outputs(case, model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    assert not torch.allclose(assert_equal_outputs(case, model), before)


def test_fast_equals_plain_with_lora(case):
    model = build(case)
    names = {path.rsplit(".")[-1] for path, part in model.named_modules() if isinstance(part, nn.Linear)}
    targets = tuple(names & {"query_proj", "value_proj", "widen", "output", "head"})
    if not targets:
        pytest.skip("no linear layer to adapt")
    before = assert_equal_outputs(case, model)
    add_lora(model, rank=1, targets=targets)
    with torch.no_grad():
        for _, parameter in lora_parameters(model):
            parameter.add_(0.3)
    assert not torch.allclose(assert_equal_outputs(case, model.eval()), before)


def test_fast_leaves_the_model_alone(case):
    model, inputs = build(case), inputs_of(case)
    types, kept = [type(part) for part in model.modules()], copy.deepcopy(model.state_dict())
    prepared = fast(model)
    prepared(*inputs)
    assert [type(part) for part in model.modules()] == types
    assert all(torch.equal(kept[name], tensor) for name, tensor in model.state_dict().items())
    model(*inputs).square().sum().backward()
    assert any(parameter.grad is not None for parameter in model.parameters())


def test_fast_refuses_what_it_would_leave_out(case):
    model = build(case)
    kinds = nn.Linear | nn.Conv2d | GraphConvolution
    name, part = next((name, part) for name, part in model.named_modules() if isinstance(part, kinds))
    hook = part.register_forward_hook(lambda part, args, out: 2 * out)
    with pytest.raises(CannotPrepare, match=f"{name} has a forward hook"):
        fast(model)
    hook.remove()
    hook = register_module_forward_hook(lambda part, args, out: None)
    try:
        with pytest.raises(CannotPrepare, match="for all modules"):
            fast(model)
    finally:
        hook.remove()
    part.train()
    with pytest.raises(CannotPrepare, match=f"{name} is in training mode"):
        fast(model)
    part.eval()
    part.forward = lambda x: x
    with pytest.raises(CannotPrepare, match=f"{name} has had its forward replaced"):
        fast(model)
    del part.forward
    part.weight = nn.Parameter(part.weight.detach().to_sparse())
    with pytest.raises(CannotPrepare, match=f"{name} has a weight that is no plain matrix"):
        fast(model)


def begin(model, inputs):
    """A state and the tokens to feed it, as the contract suite has them."""
    *source, tokens = inputs
    return (model.start(*source), tokens) if source else (model.start(tokens[:, :2])[1], tokens[:, 2:])


def run(model, state, tokens):
    steps = []
    for t in range(tokens.shape[1]):
        logits, state = model.step(tokens[:, t], state)
        steps.append(logits)
    return torch.stack(steps, dim=1), state


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("starts", ["plain", "fast"])
def test_fast_steps_equal_plain_steps(decoding_case, dtype, starts):
    model, inputs = build(decoding_case, dtype), inputs_of(decoding_case, dtype)
    prepared = fast(model)
    state, tokens = begin(model, inputs)
    want, _ = run(model, state, tokens)
    state, _ = begin(model if starts == "plain" else prepared, inputs)
    got, _ = run(prepared, state, tokens)
    torch.testing.assert_close(got, want, **CLOSE[dtype])


def test_fast_steps_branch_and_select_as_plain_steps_do(decoding_case):
    model, inputs = build(decoding_case), inputs_of(decoding_case)
    prepared = fast(model)
    (state, tokens), (quick_state, _) = begin(model, inputs), begin(prepared, inputs)
    _, state = model.step(tokens[:, 0], state)
    _, quick_state = prepared.step(tokens[:, 0], quick_state)
    index = torch.tensor([2, 0, 0, 1, 2])
    for branch in (1, 2):  # twice from the same state
        want, after = model.step(tokens[:, branch], state)
        got, quick_after = prepared.step(tokens[:, branch], quick_state)
        torch.testing.assert_close(got, want, **CLOSE[torch.float32])
        want, _ = model.step(tokens[index, 2], after.select(index))
        got, _ = prepared.step(tokens[index, 2], quick_after.select(index))
        torch.testing.assert_close(got, want, **CLOSE[torch.float32])


def test_fast_steps_from_prompts_of_unequal_length(prompted_case):
    model, (tokens,) = build(prompted_case), inputs_of(prompted_case)
    lengths = torch.tensor([1, 3, 2])
    state = model.start(tokens[:, :3], lengths)[1]
    want, _ = run(model, state, tokens[:, 3:])
    got, _ = run(fast(model), state, tokens[:, 3:])
    torch.testing.assert_close(got, want, **CLOSE[torch.float32])


@pytest.mark.parametrize("quick", [False, True], ids=["plain", "fast"])
@pytest.mark.parametrize("starts_in", ["bf16", "full"])
def test_autocast_may_come_and_go_between_two_steps(decoding_case, quick, starts_in):
    model, inputs = build(decoding_case), inputs_of(decoding_case)
    state, tokens = begin(model, inputs)
    want, _ = run(model, state, tokens)
    chosen = fast(model) if quick else model
    for is_half in (starts_in == "bf16", starts_in != "bf16"):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_half):
            if is_half == (starts_in == "bf16"):
                state, _ = begin(chosen, inputs)
                first, state = run(chosen, state, tokens[:, :2])
            else:
                rest, _ = run(chosen, state, tokens[:, 2:])
    torch.testing.assert_close(torch.cat((first.float(), rest.float()), dim=1), want, atol=0.1, rtol=0.1)


def double(part, args, out):
    return 2 * out


def adapt(model):
    names = {path.rsplit(".")[-1] for path, part in model.named_modules() if isinstance(part, nn.Linear)}
    add_lora(model, rank=1, targets=tuple(names))
    with torch.no_grad():
        for _, parameter in lora_parameters(model):
            parameter.add_(0.5)


def hook(model):
    part = [part for part in model.modules() if isinstance(part, nn.Linear)][-1]
    part.register_forward_hook(double)


@torch.no_grad()
def change(model):
    [part for part in model.modules() if isinstance(part, nn.Linear)][-1].weight.mul_(-2)


@pytest.mark.parametrize("alter", [hook, adapt, change])
def test_a_change_between_start_and_step_counts(decoding_case, alter):
    model, inputs = build(decoding_case), inputs_of(decoding_case)
    state, tokens = begin(model, inputs)
    before, _ = model.step(tokens[:, 0], state)
    alter(model)
    assert not torch.allclose(model.eval().step(tokens[:, 0], state)[0], before, atol=1e-4)


@pytest.mark.parametrize("alter", [hook, adapt, change])
def test_decoders_see_a_change_between_two_calls(decoding_case, alter):
    model, inputs = build(decoding_case), inputs_of(decoding_case)
    *source, tokens = inputs

    def search():
        start = read_source(model, *source, bos_id=1) if source else read_prompt(model, tokens[:, :2])
        seen = []
        decode(model, start, max_len=3, choose=lambda logits: seen.append(logits) or logits.argmax(-1))
        return torch.stack(seen), beam_search(model, start, max_len=3, beam_size=2)

    before, _ = search()
    alter(model)
    model.eval()
    after, beams = search()
    assert not torch.allclose(after[1:], before[1:], atol=1e-4)
    start = read_source(model, *source, bos_id=1) if source else read_prompt(model, tokens[:, :2])
    logits, state, want = *start, []
    for _ in range(3):
        want.append(logits)
        logits, state = model.step(logits.argmax(-1), state)
    torch.testing.assert_close(after, torch.stack(want), **CLOSE[torch.float32])
    assert beams.scores.isfinite().all()


def test_weights_can_be_watched_while_decoding(decoding_case):
    model, inputs = build(decoding_case), inputs_of(decoding_case)
    *source, tokens = inputs
    start = read_source(model, *source, bos_id=1) if source else read_prompt(model, tokens[:, :2])
    want = decode(model, start, max_len=2).ids
    if not any(isinstance(part, Attention) for part in model.modules()):
        pytest.skip("no attention layer to watch")
    with attention_weights(model) as seen:
        assert torch.equal(decode(model, start, max_len=2).ids, want)
    assert seen
    assert all(weights.shape[-2] == 1 for weights in seen.values())
