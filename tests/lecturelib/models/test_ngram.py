import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lecturelib.models.ngram import AddK, Interpolation, KneserNey, MarkovChain, NGramModel

V = 4
TEXT = [[0, 1, 2, 0, 1, 0, 1, 2, 2], [2, 0, 1]]
SMOOTHINGS = [AddK(1.0), AddK(0.1), KneserNey(0.75), KneserNey(1.0)]


def interpolation(n):
    weights = [1.0 + k for k in range(n + 1)]
    return Interpolation(tuple(weight / sum(weights) for weight in weights))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("smoothing", [*SMOOTHINGS, interpolation])
def test_ngram_probabilities_add_up_to_one_in_every_context(n, smoothing):
    model = NGramModel(n, V, smoothing(n) if smoothing is interpolation else smoothing).fit(TEXT)
    for length in range(n):
        for context in product(range(V), repeat=length):
            distribution = model.distribution(context)
            assert (distribution > 0).all()
            assert math.isclose(distribution.sum(), 1.0)


@given(
    st.lists(st.lists(st.integers(0, V - 1), max_size=12), max_size=4),
    st.lists(st.integers(0, V - 1), max_size=4),
    st.integers(1, 4),
)
def test_ngram_probabilities_add_up_to_one_for_any_text(text, context, n):
    for smoothing in (*SMOOTHINGS, interpolation(n)):
        assert math.isclose(NGramModel(n, V, smoothing).fit(text).distribution(context).sum(), 1.0)


def test_ngram_without_smoothing_is_the_ratio_of_counts():
    model = NGramModel(3, V, AddK(0.0)).fit(TEXT)
    assert model.probability([0, 1], 2) == 2 / 3  # 0 1 is followed by 2, 0, 2
    assert model.probability([3, 3, 0, 1], 0) == 1 / 3  # only the last two tokens matter
    assert model.probability([], 1) == 4 / 12  # no context: the share of all tokens
    assert model.probability([0], 1) == 1.0  # a short context counts as it is
    assert model.probability([3], 1) == 0.0


def test_ngram_add_k_follows_the_formula():
    model = NGramModel(2, V, AddK(0.5)).fit(TEXT)
    assert model.probability([1], 2) == (2 + 0.5) / (3 + 0.5 * V)  # 1 is followed by 2, 0, 2
    assert model.probability([3], 2) == 1 / V


def test_ngram_interpolation_mixes_the_orders():
    model = NGramModel(2, V, Interpolation((0.1, 0.3, 0.6))).fit(TEXT)
    assert math.isclose(model.probability([1], 2), 0.1 / V + 0.3 * 4 / 12 + 0.6 * 2 / 3)
    assert math.isclose(model.probability([3], 2), (0.1 / V + 0.3 * 4 / 12) / 0.4)


def test_ngram_kneser_ney_follows_the_formula():
    model = NGramModel(2, V, KneserNey(0.75)).fit(TEXT)
    # Different bigrams: 01 12 20 10 22, so 0 and 2 were each seen after two tokens and 1 after one.
    lower = (2 - 0.75) / 5 + 0.75 * 3 / 5 / V
    assert math.isclose(model.probability([1], 2), (2 - 0.75) / 3 + 0.75 * 2 / 3 * lower)
    assert math.isclose(model.probability([3], 2), lower)


def test_kneser_ney_doubts_a_token_that_is_known_from_one_context_only():
    text = [[0, 1] * 10 + [2, 3, 0, 3, 2]]  # 1 is frequent, but only after 0; 3 is rare, after 2 and 0
    model = NGramModel(2, 5, KneserNey()).fit(text)
    assert model.probability([4], 3) > model.probability([4], 1)
    assert model.probability([], 1) < AddK(0.0).probability(model.counts, (), 1)


def test_perplexity_of_a_uniform_model_is_the_vocabulary_size():
    assert math.isclose(NGramModel(2, 7).perplexity([[0, 3, 6], [1]]), 7.0)


def test_perplexity_follows_the_chain_rule():
    model = NGramModel(3, V).fit(TEXT)
    p = model.probability
    product = p([], 0) * p([0], 1) * p([0, 1], 2) * p([1, 2], 1)
    assert math.isclose(model.log_probability([0, 1, 2, 1]), math.log(product))
    assert math.isclose(model.perplexity([[0, 1, 2, 1]]), product ** (-1 / 4))


def test_perplexity_of_the_impossible_is_infinite():
    assert NGramModel(2, V, AddK(0.0)).fit(TEXT).perplexity([[3, 3]]) == math.inf


def test_cells_count_what_could_be_and_what_was():
    model = NGramModel(2, V).fit(TEXT)
    assert (model.num_cells, model.seen_cells) == (16, 5)
    assert NGramModel(3, V).fit([[0, 1]]).seen_cells == 0


def test_sample_is_deterministic_under_a_seed_and_follows_the_counts():
    model = NGramModel(3, 3, AddK(0.0)).fit([[0, 1, 2] * 5])
    assert model.sample(7, [0, 1], generator=torch.Generator().manual_seed(0)) == [2, 0, 1, 2, 0, 1, 2]
    noisy = NGramModel(2, V).fit(TEXT)
    first, second = (noisy.sample(20, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert first == second
    assert first != noisy.sample(20, generator=torch.Generator().manual_seed(4))


def test_sample_frequencies_approach_the_distribution():
    model = NGramModel(1, V).fit(TEXT)
    tokens = torch.tensor(model.sample(4000, generator=torch.Generator().manual_seed(0)))
    shares = torch.bincount(tokens, minlength=V) / 4000
    torch.testing.assert_close(shares.double(), model.distribution(), atol=0.03, rtol=0)


def test_markov_chain_is_the_bigram_model():
    chain, model = MarkovChain(V).fit(TEXT), NGramModel(2, V).fit(TEXT)
    assert chain.perplexity(TEXT) == model.perplexity(TEXT)
    matrix = chain.transition_matrix()
    for row in range(V):
        assert torch.equal(matrix[row], model.distribution([row]))


def test_fit_forgets_what_was_counted_before():
    model = NGramModel(2, V).fit([[3, 3, 3]])
    assert model.fit(TEXT).perplexity(TEXT) == NGramModel(2, V).fit(TEXT).perplexity(TEXT)


def test_ngram_errors_name_what_was_given():
    with pytest.raises(ValueError, match="n=0 and vocab_size=4"):
        NGramModel(0, V)
    with pytest.raises(ValueError, match="from 0 to 3, got 4"):
        NGramModel(2, V).fit([[0, 4]])
    with pytest.raises(ValueError, match="needs 3 weights, got 2"):
        NGramModel(2, V, Interpolation((0.5, 0.5))).probability([], 0)
    with pytest.raises(ValueError, match="add up to 1"):
        Interpolation((0.5, 0.6))
    with pytest.raises(ValueError, match="k must be 0 or more, got -1"):
        AddK(-1)
    with pytest.raises(ValueError, match=r"discount must be in \(0, 1\], got 0"):
        KneserNey(0)
    with pytest.raises(ValueError, match="at least one token"):
        NGramModel(2, V).perplexity([[]])
    with pytest.raises(ValueError, match=r"nothing ever followed \(3,\)"):
        NGramModel(2, V, AddK(0.0)).fit(TEXT).sample(1, [3])
