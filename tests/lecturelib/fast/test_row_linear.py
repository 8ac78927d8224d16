"""A product of one row by all threads at once: the same numbers, whatever the number of threads."""

import pytest
import torch
import torch.nn.functional as F

from lecturelib.fast import fast
from lecturelib.fast.modules import RowLinear
from lecturelib.models import GPT, GPTConfig, Llama, LlamaConfig


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("size", [6, 7])
@pytest.mark.parametrize("has_bias", [True, False])
def test_equals_linear(threads, dtype, rows, size, has_bias):
    torch.manual_seed(0)
    weight, bias = torch.randn(size, 5, dtype=dtype), torch.randn(size, dtype=dtype) if has_bias else None
    x = torch.randn(rows, 5, dtype=dtype)
    product = RowLinear(weight, bias)
    assert product.count == (threads if size % threads == 0 and dtype != torch.bfloat16 else 1)
    torch.testing.assert_close(product(x), F.linear(x, weight, bias))


def test_what_is_written_into_the_matrix_counts(threads):
    linear = torch.nn.Linear(5, 6)
    product = RowLinear.of(linear)
    torch.nn.init.ones_(linear.weight)
    torch.nn.init.ones_(linear.bias)
    torch.testing.assert_close(product(torch.ones(1, 5)), torch.full((1, 6), 6.0))


@pytest.mark.parametrize("kind", ["gpt", "llama", "llama with a head of its own"])
@pytest.mark.parametrize("rows", [1, 2])
def test_models_write_what_the_plain_ones_write(threads, kind, rows):
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "max_len": 32, "d_model": 24, "num_heads": 4, "num_layers": 2}
    model = GPT(GPTConfig(**sizes)) if kind == "gpt" else Llama(LlamaConfig(**sizes, tied="own" not in kind))
    model = model.double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    prompt = torch.randint(30, (rows, 4))
    (_, state), (_, other) = model.start(prompt), (prepared := fast(model)).start(prompt)
    for token in torch.randint(30, (5, rows)):
        (logits, state), (others, other) = model.step(token, state), prepared.step(token, other)
        torch.testing.assert_close(others, logits, rtol=1e-10, atol=1e-10)
