"""What every model promises. The models and their small inputs are the CASES in conftest.py beside this file."""

import copy
import shutil

import pytest
import torch
from safetensors.torch import load_model, save_model
from torch import Tensor
from torch._dynamo.backends.debugging import aot_eager
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lecturelib.evaluation.beam import beam_search
from lecturelib.evaluation.decoding import decode, read_prompt, read_source
from lecturelib.layers import RelativeBias, RMSNorm, RotaryPositions
from lecturelib.layers.state import Decodable, DecodingState


def build(case, seed=0):
    torch.manual_seed(seed)
    return case.build()


def batch(case, seed=1):
    generator = torch.Generator().manual_seed(seed)
    inputs = case.inputs(generator)
    return inputs, case.targets(inputs, generator)


def test_forward_depends_on_every_row_separately(case):
    model, (inputs, _) = build(case).eval(), batch(case)
    whole = model(*inputs)
    for row in range(len(inputs[0])):
        alone = model(*(tensor[row : row + 1] for tensor in inputs))
        torch.testing.assert_close(whole[row : row + 1], alone, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(whole[0], whole[1])


def test_empty_batch_gives_empty_logits(case):
    model, (inputs, _) = build(case), batch(case)
    want = model(*inputs).shape
    assert model(*(tensor[:0] for tensor in inputs)).shape == (0, *want[1:])


def test_every_parameter_gets_a_gradient(case):
    model, (inputs, targets) = build(case), batch(case)
    case.loss(model, inputs, targets).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{name} is not part of the graph"
        assert parameter.grad.isfinite().all(), f"{name} has a gradient that is not finite"
        assert parameter.grad.any() or name in case.idle, f"{name} has a gradient of zero"


def test_padding_changes_nothing(padded_case):
    model, (inputs, _) = build(padded_case).eval(), batch(padded_case)
    want = model(*inputs)
    got = model(*padded_case.pad(inputs))
    torch.testing.assert_close(got[:, : want.shape[1]], want, atol=1e-5, rtol=1e-4)


def test_a_row_of_padding_alone_is_finite_and_felt_by_no_other(blank_case):
    model, (inputs, targets) = build(blank_case).eval(), batch(blank_case)
    want = model(*inputs)
    for which in blank_case.real:
        blank = [tensor.clone() for tensor in inputs]
        blank[which][1] = 0
        got = model(*blank)
        torch.testing.assert_close(got[::2], want[::2], atol=1e-5, rtol=1e-4)
        assert got.isfinite().all()
        model.zero_grad()
        blank_case.loss(model, tuple(blank), targets).backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


class CountSingles(TorchDispatchMode):
    """Gathers the operations whose result is in float32."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if any(isinstance(leaf, Tensor) and leaf.dtype == torch.float32 for leaf in tree_leaves(out)):
            self.seen.add(function.__name__)
        return out


@pytest.mark.parametrize("how", ["converted", "by default"])
def test_float64_is_float64_throughout(case, how):
    """No number on the way is rounded to float32: a model that is right to 7 digits only would still look right."""
    before = torch.get_default_dtype()
    try:
        if how == "by default":
            torch.set_default_dtype(torch.float64)
        model, (inputs, targets) = build(case).double(), batch(case)
        inputs = tuple(tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs)
        with CountSingles() as singles:
            out = model(*inputs)
            case.loss(model, inputs, targets).backward()
        assert out.dtype == torch.float64
        parts = {type(part) for part in model.modules()}
        if RelativeBias in parts:  # its buckets: see its Differs
            singles.seen -= {"_to_copy.default", "div.Tensor", "log.default", "mul.Tensor"}
        if not parts & {RMSNorm, RotaryPositions}:  # in float32 as in LLaMA's code, which they equal to 12 digits
            assert singles.seen == set()
    finally:
        torch.set_default_dtype(before)


def test_causality_is_a_zero_jacobian(causal_case):
    model, (inputs, _) = build(causal_case), batch(causal_case)
    leaves = []

    def replace(module, args, output):
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    model.get_submodule(causal_case.causal).register_forward_hook(replace)
    logits = model(*inputs)
    for t in range(logits.shape[1]):
        (grad,) = torch.autograd.grad(logits[:, t].square().sum(), leaves[-1], retain_graph=True)
        felt = grad.abs().sum(dim=(0, 2)) > 0  # (T,)
        assert felt[: t + 1].all(), f"the logits at {t} ignore a position up to it: {felt.tolist()}"
        assert not felt[t + 1 :].any(), f"the logits at {t} see a later position: {felt.tolist()}"


def test_saved_and_loaded_is_the_same_model(case, tmp_path):
    model, (inputs, _) = build(case).eval(), batch(case)
    save_model(model, str(tmp_path / "model.safetensors"))
    other = build(case, seed=5).eval()
    assert not torch.equal(other(*inputs), model(*inputs))
    load_model(other, str(tmp_path / "model.safetensors"))
    assert torch.equal(other(*inputs), model(*inputs))
    assert torch.equal(copy.deepcopy(model)(*inputs), model(*inputs))


def test_same_seed_gives_the_same_model_and_gradient(case):
    inputs, targets = batch(case)
    losses, grads = [], []
    for _ in range(2):
        model = build(case)
        losses.append(case.loss(model, inputs, targets))
        losses[-1].backward()
        grads.append([parameter.grad for parameter in model.parameters()])
    assert torch.equal(*losses)
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
    assert not torch.equal(case.loss(build(case, seed=5), inputs, targets), losses[0])


def test_bf16_autocast_stays_close_to_full_precision(case):
    model, (inputs, targets) = build(case), batch(case)
    full = model(*inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model(*inputs)
        loss = case.loss(model, inputs, targets)
    torch.testing.assert_close(half.float(), full, atol=0.05, rtol=0.05)
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


# After a graph break (torch's own nn.LSTM has one too) dynamo looks at .grad of a non-leaf, and warns of itself.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
# To look at an autograd function it makes an instance, of which torch warns.
@pytest.mark.filterwarnings("ignore:.*Function'> should not be instantiated:DeprecationWarning")
def test_compiled_equals_eager(compiled_case):
    """Through dynamo and autograd's tracer, forward and backward; one model goes through inductor, below."""
    torch.compiler.reset()
    model, (inputs, targets) = build(compiled_case), batch(compiled_case)
    compiled_case.loss(model, inputs, targets).backward()
    want = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    captured = []

    def backend(graph, example_inputs):
        captured.append(graph)
        return aot_eager(graph, example_inputs)

    compiled = torch.compile(model, backend=backend)
    torch.testing.assert_close(compiled(*inputs), model(*inputs), atol=1e-5, rtol=1e-4)
    compiled_case.loss(compiled, inputs, targets).backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], want, atol=1e-5, rtol=1e-4)
    assert captured, "nothing was compiled"


# Importing inductor makes torch 2.13 warn about its own use of torch.jit.
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_compiled_by_inductor_equals_eager(inductor_case):
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("inductor needs a C++ compiler, and there is none")
    torch.compiler.reset()
    model, (inputs, _) = build(inductor_case).eval(), batch(inductor_case)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model)(*inputs), model(*inputs), atol=1e-5, rtol=1e-4)


def test_one_batch_is_overfitted(case):
    model, (inputs, targets) = build(case), batch(case)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(250):
        loss = case.loss(model, inputs, targets)
        if loss < 0.1:
            return
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    pytest.fail(f"the loss on one batch is still {loss.item():.3f} after 250 steps")


def test_wrong_shape_is_explained(case):
    model, (inputs, _) = build(case), batch(case)
    with pytest.raises(ValueError, match=case.wrong_match):
        model(*case.wrong(inputs))


def begin(model, inputs):
    """The decoding state, the tokens to feed it, and the logits of the parallel pass over the same tokens."""
    *source, tokens = inputs
    if source:
        return model.start(*source), tokens, model(*inputs)
    want = model(tokens)
    logits, state = model.start(tokens[:, :2])
    torch.testing.assert_close(logits, want[:, 1], atol=1e-5, rtol=1e-4)
    return state, tokens[:, 2:], want[:, 2:]


def test_decoding_step_by_step_equals_the_parallel_pass(decoding_case):
    model, (inputs, _) = build(decoding_case).eval(), batch(decoding_case)
    state, tokens, want = begin(model, inputs)
    assert isinstance(model, Decodable)
    for t in range(tokens.shape[1]):
        assert isinstance(state, DecodingState)
        logits, state = model.step(tokens[:, t], state)
        torch.testing.assert_close(logits, want[:, t], atol=1e-5, rtol=1e-4)


def test_decoding_from_prompts_of_unequal_length_equals_each_alone(prompted_case):
    model, ((tokens,), _) = build(prompted_case).eval(), batch(prompted_case)
    lengths = torch.tensor([1, 3, 2])
    logits, state = model.start(tokens[:, :3], lengths)
    after, _ = model.step(tokens[:, 4], state)
    for row, length in enumerate(lengths.tolist()):
        fed = torch.cat([tokens[row : row + 1, :length], tokens[row : row + 1, 4:5]], dim=1)
        want = model(fed)[0]
        torch.testing.assert_close(logits[row], want[-2], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(after[row], want[-1], atol=1e-5, rtol=1e-4)


def test_decoding_state_can_be_reordered_and_repeated(decoding_case):
    model, (inputs, _) = build(decoding_case).eval(), batch(decoding_case)
    state, tokens, want = begin(model, inputs)
    _, state = model.step(tokens[:, 0], state)
    index = torch.tensor([2, 0, 0, 1, 2])
    logits, _ = model.step(tokens[index, 1], state.select(index))
    torch.testing.assert_close(logits, want[index, 1], atol=1e-5, rtol=1e-4)
    again, _ = model.step(tokens[:, 1], state)
    torch.testing.assert_close(again, want[:, 1], atol=1e-5, rtol=1e-4)


def test_searches_drive_the_model_and_a_beam_of_one_is_greedy(decoding_case):
    model, (inputs, _) = build(decoding_case).eval(), batch(decoding_case)
    *source, tokens = inputs
    first = read_source(model, *source, bos_id=1) if source else read_prompt(model, tokens[:, :2])
    greedy = decode(model, first, max_len=3)
    beams = beam_search(model, first, max_len=3, beam_size=1)
    assert torch.equal(beams.ids[:, 0], greedy.ids)
    with torch.no_grad():
        for t in range(3):  # what greedy chose is the argmax of the parallel pass over it
            written = greedy.ids[:, :t]
            known = torch.full_like(tokens[:, :1], 1) if source else tokens[:, :2]
            logits = model(*source, torch.cat([known, written], dim=1))
            assert torch.equal(logits[:, -1].argmax(dim=-1), greedy.ids[:, t])
