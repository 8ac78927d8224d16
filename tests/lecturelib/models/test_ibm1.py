"""IBM Model 1 against its definition, written out slowly."""

import itertools
import math
import random

import pytest
import torch

from lecturelib.models import IBM1, IBM1Config


def slow_em(sentences, target_vocab_size, iterations, empty_word):
    """EM with dictionaries, one word at a time; the empty word is -1."""
    table = {}
    for source, target in sentences:
        for f, e in itertools.product([*([-1] if empty_word else []), *source], target):
            table[f, e] = 1 / target_vocab_size
    for _ in range(iterations):
        counts = dict.fromkeys(table, 0.0)
        for source, target in sentences:
            choices = [*([-1] if empty_word else []), *source]
            for e in target:
                total = sum(table[f, e] for f in choices)
                for f in choices:
                    counts[f, e] += table[f, e] / total
        of_source = {f: sum(value for (g, _), value in counts.items() if g == f) for f, _ in counts}
        table = {(f, e): value / of_source[f] for (f, e), value in counts.items()}
    return table


@pytest.fixture
def sentences():
    rng = random.Random(6)
    return [
        ([rng.randrange(7) for _ in range(rng.randint(1, 5))], rng.choices(range(9), k=rng.randint(1, 6)))
        for _ in range(12)
    ]


@pytest.mark.parametrize("empty_word", [True, False])
def test_ibm1_matches_em_by_hand(sentences, empty_word):
    config = IBM1Config(source_vocab_size=7, target_vocab_size=9, iterations=4, empty_word=empty_word)
    model = IBM1(config).fit(sentences)
    table = slow_em(sentences, 9, 4, empty_word)
    for f, e in itertools.product(range(7), range(9)):
        assert model.probability(f, e) == pytest.approx(table.get((f, e), 0.0), abs=1e-12)
    for source, target in sentences:
        choices = [*([-1] if empty_word else []), *source]
        for row, e in zip(model.posterior(source, target), target, strict=True):
            total = sum(table[f, e] for f in choices)
            expected = [table[f, e] / total for f in source]
            torch.testing.assert_close(row, torch.tensor(expected))


def test_ibm1_likelihood_never_falls(sentences):
    model = IBM1(IBM1Config(source_vocab_size=7, target_vocab_size=9, iterations=15)).fit(sentences)
    rises = [later - earlier for earlier, later in itertools.pairwise(model.log_likelihoods)]
    assert len(rises) == 14
    assert min(rises) >= -1e-12
    assert sum(rises) > 0.1
    assert model.log_likelihoods[0] == pytest.approx(math.log(1 / 9))  # the uniform table


def test_ibm1_finds_the_words_that_always_go_together():
    """das Haus, das Buch, ein Buch: nobody says which is which, and yet only one table explains all three."""
    das, haus, buch, ein = range(4)
    the, house, book, a = range(4)
    pairs = [([das, haus], [the, house]), ([das, buch], [the, book]), ([ein, buch], [a, book])]
    config = IBM1Config(source_vocab_size=4, target_vocab_size=4, iterations=30, empty_word=False)
    model = IBM1(config).fit(pairs)
    assert min(model.probability(f, e) for f, e in ((das, the), (haus, house), (buch, book), (ein, a))) > 0.95
    assert model.posterior([haus, das], [the, house]).argmax(dim=1).tolist() == [1, 0]


def test_ibm1_posterior_ignores_order_and_repeats_share(sentences):
    model = IBM1(IBM1Config(source_vocab_size=7, target_vocab_size=9)).fit(sentences)
    source, target = [3, 1, 5], [2, 8]
    turned = model.posterior(source[::-1], target)
    torch.testing.assert_close(turned.flip(1), model.posterior(source, target))
    twice = model.posterior([3, 3], [2])
    torch.testing.assert_close(twice[0, 0], twice[0, 1])


def test_ibm1_knows_nothing_of_unseen_words():
    model = IBM1(IBM1Config(source_vocab_size=5, target_vocab_size=6)).fit([([0, 1], [2, 3])])
    assert model.posterior([4], [5]).tolist() == [[0.0]]
    assert model.posterior([], [2]).shape == (1, 0)
    assert model.posterior([1], []).shape == (0, 1)
    assert model.num_entries == 6  # the empty word and two source words, with two target words each


def test_ibm1_skips_empty_sentences():
    config = IBM1Config(source_vocab_size=5, target_vocab_size=6)
    pairs = [([0, 1], [2, 3]), ([], []), ([4], [2])]
    model, without = IBM1(config).fit(pairs), IBM1(config).fit([pairs[0], pairs[2]])
    assert model.probability(0, 3) == pytest.approx(without.probability(0, 3))
    assert model.log_likelihoods == pytest.approx(without.log_likelihoods)


def test_ibm1_says_what_is_wrong():
    config = IBM1Config(source_vocab_size=5, target_vocab_size=6)
    with pytest.raises(ValueError, match="source ids must be in 0 to 4, got 1 to 5"):
        IBM1(config).fit([([1, 5], [2])])
    with pytest.raises(ValueError, match="no words to learn from"):
        IBM1(config).fit([])
    with pytest.raises(ValueError, match="call fit"):
        IBM1(config).posterior([1], [2])
    with pytest.raises(ValueError, match="iterations must be at least 1, got 0"):
        IBM1Config(source_vocab_size=5, target_vocab_size=6, iterations=0)
