"""Beam search against exhaustive search, greedy search, and itself row by row."""

import itertools

import pytest
import torch

from lecturelib.evaluation import beam_search, decode, read_prompt, read_source
from lecturelib.models import load

SOURCE = torch.tensor([[1, 2, 3], [4, 2, 0], [3, 3, 1], [2, 0, 0]])
LENGTHS = torch.tensor([3, 2, 3, 1])
EOS, V = 3, 5


def score(model, state, tokens):
    """Add up the log-probabilities of tokens after bos."""
    total, previous = 0.0, 0
    for token in tokens:
        logits, state = model.step(torch.tensor([previous]), state)
        total, previous = total + float(logits[0].log_softmax(-1)[token]), token
    return total


def all_sequences(max_len):
    others = [token for token in range(V) if token != EOS]
    for length in range(1, max_len + 1):
        for body in itertools.product(others, repeat=length - 1):
            yield (*body, EOS)
            if length == max_len:
                yield from ((*body, token) for token in others)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_beam_search_with_room_for_all_is_exhaustive(tiny_model, length_penalty) -> None:
    model, max_len = tiny_model(seed=2), 3
    start = read_source(model, SOURCE, LENGTHS, bos_id=0)
    beams = beam_search(model, start, max_len=max_len, beam_size=125, eos_id=EOS, length_penalty=length_penalty)
    for row in range(4):
        state = model.start(SOURCE[row : row + 1], LENGTHS[row : row + 1])
        found = {
            tokens: score(model, state, tokens) / len(tokens) ** length_penalty for tokens in all_sequences(max_len)
        }
        ranked = sorted(found, key=found.__getitem__, reverse=True)
        number = int((beams.scores[row] > -torch.inf).sum())
        assert number == len(found) == 85
        torch.testing.assert_close(beams.scores[row, :number], torch.tensor([found[tokens] for tokens in ranked]))
        assert tuple(beams.best()[row]) == ranked[0]


def test_beam_search_of_one_beam_is_greedy(tiny_model) -> None:
    for seed in range(6):
        model = tiny_model(seed=seed)
        start = read_source(model, SOURCE, LENGTHS, bos_id=0)
        beams = beam_search(model, start, max_len=8, beam_size=1, eos_id=EOS)
        assert beams.best() == decode(model, start, max_len=8, eos_id=EOS).sequences()


@pytest.mark.parametrize("seed", range(5))
def test_beam_search_batched_equals_row_by_row(tiny_model, seed) -> None:
    model = tiny_model(seed=seed)
    together = beam_search(model, read_source(model, SOURCE, LENGTHS, bos_id=0), max_len=10, beam_size=3, eos_id=EOS)
    for row in range(4):
        alone = read_source(model, SOURCE[row : row + 1], LENGTHS[row : row + 1], bos_id=0)
        single = beam_search(model, alone, max_len=10, beam_size=3, eos_id=EOS)
        assert torch.equal(single.ids[0], together.ids[row])
        torch.testing.assert_close(single.scores[0], together.scores[row])


def test_beam_search_scores_are_those_of_its_sequences(tiny_model) -> None:
    model = tiny_model(seed=4)
    start = read_source(model, SOURCE, LENGTHS, bos_id=0)
    beams = beam_search(model, start, max_len=7, beam_size=3, eos_id=EOS, length_penalty=0.6)
    for row, beam in itertools.product(range(4), range(3)):
        length = int(beams.lengths[row, beam])
        tokens = beams.ids[row, beam, :length].tolist()
        expected = score(model, model.start(SOURCE[row : row + 1], LENGTHS[row : row + 1]), tokens) / length**0.6
        assert float(beams.scores[row, beam]) == pytest.approx(expected, abs=1e-5)
        assert EOS not in tokens[:-1]
    assert (beams.scores.diff(dim=1) <= 0).all()


def test_beam_search_leaves_finished_rows_alone(tiny_model) -> None:
    model = tiny_model(seed=1)
    start = read_source(model, SOURCE, LENGTHS, bos_id=0)
    model.steps = model.rows = 0
    beam_search(model, start, max_len=60, beam_size=2, eos_id=EOS)
    assert model.rows < model.steps * 4 * 2


def test_beam_search_without_an_end_symbol_runs_to_max_len(tiny_model) -> None:
    model = tiny_model()
    beams = beam_search(model, read_source(model, SOURCE, LENGTHS, bos_id=0), max_len=6, beam_size=3)
    assert (beams.lengths == 6).all()


def test_beam_search_rejects_no_beams(tiny_model) -> None:
    model = tiny_model()
    with pytest.raises(ValueError, match="beam_size=0"):
        beam_search(model, read_source(model, SOURCE, LENGTHS, bos_id=0), max_len=6, beam_size=0)


@pytest.fixture(scope="module")
def twins():
    """The same GPT-2 as theirs and as ours, with weights large enough to have opinions."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from lecturelib.models.gpt import GPT, GPTConfig

    torch.manual_seed(0)
    theirs = GPT2LMHeadModel(
        GPT2Config(vocab_size=23, n_positions=32, n_embd=12, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=18)
    ).eval()
    for parameter in theirs.parameters():
        parameter.data += 0.4 * torch.randn_like(parameter)
    sizes = GPTConfig(vocab_size=23, max_len=32, d_model=12, num_heads=3, num_layers=2, dropout=0.0)
    return theirs, load(GPT, theirs.state_dict(), sizes).eval()


@pytest.mark.parametrize(("beam_size", "length_penalty"), [(2, 1.0), (3, 0.0), (5, 0.7), (4, 2.0)])
def test_beam_search_matches_transformers(twins, beam_size, length_penalty) -> None:
    theirs, ours = twins
    prompt = torch.randint(23, (6, 5), generator=torch.Generator().manual_seed(1))
    expected = theirs.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        num_beams=beam_size,
        num_return_sequences=beam_size,
        length_penalty=length_penalty,
        max_new_tokens=14,
        do_sample=False,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
    )
    start = read_prompt(ours, prompt)
    ends = {"eos_id": 18, "pad_id": 18}  # they pad beams with the end symbol
    beams = beam_search(ours, start, max_len=14, beam_size=beam_size, length_penalty=length_penalty, **ends)
    new = expected.sequences[:, 5:].view(6, beam_size, -1)  # (B, K, T)
    assert torch.equal(beams.ids[:, :, : new.shape[2]], new)
    torch.testing.assert_close(beams.scores, expected.sequences_scores.view(6, beam_size), rtol=1e-4, atol=1e-4)
    assert len(set(beams.lengths.flatten().tolist())) > 1  # some ended, some did not
