"""Greedy decoding and sampling."""

import pytest
import torch

from lecturelib.evaluation import Sampler, decode, generate, greedy, read_prompt, read_source, stream
from lecturelib.models.gpt import GPT, GPTConfig

SOURCE = torch.tensor([[1, 2, 3], [4, 2, 0], [3, 3, 1], [2, 0, 0]])
LENGTHS = torch.tensor([3, 2, 3, 1])


def by_hand(model, memory, eos_id, max_len, bos_id=0):
    """One row, one token at a time, with nothing clever."""
    tokens, token = [], torch.tensor([bos_id])
    state = memory
    while len(tokens) < max_len:
        logits, state = model.step(token, state)
        token = logits.argmax(-1)
        tokens.append(int(token))
        if tokens[-1] == eos_id:
            break
    return tokens


@pytest.mark.parametrize("seed", range(6))
def test_decode_equals_row_by_row_search(tiny_model, seed) -> None:
    model = tiny_model(seed=seed)
    decoded = decode(model, read_source(model, SOURCE, LENGTHS, bos_id=0), max_len=9, eos_id=3, pad_id=4)
    rows = [by_hand(model, model.start(SOURCE[i : i + 1], LENGTHS[i : i + 1]), 3, 9) for i in range(4)]
    assert decoded.sequences() == rows
    for ids, length in zip(decoded.ids, decoded.lengths, strict=True):
        assert (ids[length:] == 4).all()
    assert decoded.sequences(eos_id=3) == [row[:-1] if row[-1] == 3 else row for row in rows]


def test_decode_stops_when_all_rows_have_ended(tiny_model) -> None:
    model = tiny_model()
    start = read_source(model, SOURCE, LENGTHS, bos_id=0)
    model.steps = 0
    decoded = decode(model, start, max_len=100, choose=lambda logits: torch.full((4,), 3), eos_id=3)
    assert (model.steps, decoded.ids.shape) == (0, (4, 1))


def test_decode_of_no_rows_and_no_tokens_is_empty(tiny_model) -> None:
    model = tiny_model()
    start = read_prompt(model, SOURCE)
    assert decode(model, start, max_len=0).ids.shape == (4, 0)
    empty = type(start)(start.logits[:0], start.state.select(torch.zeros(0, dtype=torch.int64)))
    assert decode(model, empty, max_len=5, eos_id=1).sequences() == []


def test_generate_goes_on_past_the_window(tiny_model) -> None:
    prompt = SOURCE[:, :2]
    whole = generate(tiny_model(), prompt, max_new_tokens=11)
    assert torch.equal(whole[:, :2], prompt)
    windowed = generate(tiny_model(max_len=6), prompt, max_new_tokens=11)
    assert windowed.shape == (4, 13)
    assert torch.equal(windowed[:, :6], whole[:, :6])  # the first window is the same
    again = generate(tiny_model(max_len=6), windowed[:, 3:6], max_new_tokens=3)
    assert torch.equal(windowed[:, 3:9], again)  # the second knows the last half of the first and no more


def test_stream_gives_what_generate_gives(tiny_model) -> None:
    tokens = stream(tiny_model(max_len=6), SOURCE[:, :2])
    streamed = torch.stack([next(tokens) for _ in range(11)], dim=1)
    assert torch.equal(streamed, generate(tiny_model(max_len=6), SOURCE[:, :2], max_new_tokens=11)[:, 2:])


def test_stream_and_generate_go_on_where_only_one_token_can_be_read() -> None:
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=7, max_len=1, d_model=4, num_heads=2, num_layers=1)).eval()
    prompt = torch.tensor([[3], [5]])
    tokens = stream(model, prompt)
    streamed = torch.stack([next(tokens) for _ in range(4)], dim=1)
    assert torch.equal(streamed, generate(model, prompt, max_new_tokens=4)[:, 1:])


LOGITS = torch.tensor([[1.0, 3.0, 2.0, -1.0, 0.0], [0.5, 0.1, 0.2, 0.3, 0.4]])


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(0.7, None, None), (1.3, 3, None), (1.0, None, 0.8), (2.0, 4, 0.6)]
)
def test_sampler_matches_transformers(temperature, top_k, top_p) -> None:
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    expected = TemperatureLogitsWarper(temperature)(None, LOGITS)
    if top_k is not None:
        expected = TopKLogitsWarper(top_k)(None, expected)
    if top_p is not None:
        expected = TopPLogitsWarper(top_p)(None, expected)
    sampler = Sampler(temperature=temperature, top_k=top_k, top_p=top_p)
    torch.testing.assert_close(sampler.probabilities(LOGITS), expected.softmax(-1))


def test_sampler_draws_from_its_probabilities() -> None:
    sampler = Sampler(temperature=1.5, top_k=4, top_p=0.9, generator=torch.Generator().manual_seed(0))
    expected = sampler.probabilities(LOGITS)
    draws = 40_000
    for row in range(2):
        counts = torch.bincount(sampler(LOGITS[row].expand(draws, 5)), minlength=5) / draws
        torch.testing.assert_close(counts, expected[row], atol=0.012, rtol=0)
        assert (counts[expected[row] == 0] == 0).all()


def test_sampler_of_one_token_is_greedy() -> None:
    assert torch.equal(Sampler(top_k=1)(LOGITS), greedy(LOGITS))
    assert torch.equal(Sampler(top_p=1e-9)(LOGITS), greedy(LOGITS))


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.1}])
def test_sampler_names_the_wrong_field(wrong) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Sampler(**wrong)
