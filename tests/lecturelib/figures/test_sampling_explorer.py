"""The sampling explorer: the numbers of `Sampler`, and words for what it cannot show."""

import pytest
import torch

from lecturelib.evaluation import Sampler
from lecturelib.figures import SamplingExplorer

TOKENS = list(" abcdef")


def logits(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {prompt: 2 * torch.randn(len(TOKENS), generator=generator) for prompt in ("one", "two")}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize(("top_k", "top_p"), [(None, 1.0), (3, 1.0), (None, 0.6), (4, 0.5)])
def test_sampling_explorer_numbers_are_the_samplers(temperature, top_k, top_p):
    rows = logits()
    explorer = SamplingExplorer(rows, TOKENS)
    for prompt, row in rows.items():
        expected = Sampler(temperature=temperature, top_k=top_k, top_p=top_p).probabilities(row[None])[0]
        after = explorer.after(prompt, temperature, top_k, top_p)
        torch.testing.assert_close(after, expected)
        before = explorer.before(prompt, temperature)
        torch.testing.assert_close(before, (row / temperature).softmax(-1))
        kept = explorer.kept(prompt, temperature, top_k, top_p)
        assert kept == pytest.approx(float(before[expected > 0].sum()))
        torch.testing.assert_close(after * kept, before * (after > 0))


def test_sampling_explorer_is_deterministic_and_says_its_finding():
    explorer = SamplingExplorer(logits(), TOKENS)
    assert explorer._repr_html_() == SamplingExplorer(logits(), TOKENS)._repr_html_()
    for prompt in ("one", "two"):
        left = int((explorer.after(prompt, top_p=0.9) > 0).sum())
        best = TOKENS[int(explorer.before(prompt).argmax())].replace(" ", "␣")
        assert f"after “{prompt}” the likeliest is “{best}” ({explorer.before(prompt).max():.2f})" in explorer.text()
        assert f"top-p 0.9 keeps {left}" in explorer.text()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SamplingExplorer({}, TOKENS), "at least one prompt"),
        (lambda: SamplingExplorer({"x": torch.zeros(3)}, TOKENS), r"7 finite numbers, .* got shape \(3,\)"),
        (lambda: SamplingExplorer({"x": torch.full((7,), torch.inf)}, TOKENS), "finite"),
        (lambda: SamplingExplorer(logits(), TOKENS, start=(0.55, None, 1.0)), r"got \(0.55, None, 1.0\)"),
        (lambda: SamplingExplorer(logits(), TOKENS, start=(1.0, 8, 1.0)), "a k from 1 to 7"),
        (lambda: SamplingExplorer(logits(), TOKENS, start=(1.0, 2, 0.33)), "a p of"),
    ],
)
def test_sampling_explorer_says_what_it_needs(make, words):
    with pytest.raises(ValueError, match=words):
        make()
