"""The n-gram explorer: the numbers of `NGramModel`, and words for what it cannot show."""

import re

import pytest

from lecturelib.figures import NGramExplorer
from lecturelib.models import AddK, NGramModel

ALPHABET = list(" abcd")
TEXT = "abra cadabra abc dab"


def model(n=3, k=0.0):
    ids = [ALPHABET.index(symbol) for symbol in TEXT.replace("r", "d")]
    return NGramModel(n, len(ALPHABET), AddK(k)).fit([ids])


@pytest.mark.parametrize("k", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("text", ["", "a", "ab", "da", "dcd", "abcdab"])
def test_ngram_explorer_probabilities_are_the_models(text, k):
    explorer = NGramExplorer(model(), ALPHABET)
    ids = [ALPHABET.index(symbol) for symbol in text]
    for n in (1, 2, 3):
        expected = model(n, k).distribution(ids).tolist()
        assert explorer.probabilities(text, n, k) == pytest.approx(expected, abs=1e-12)


def test_ngram_explorer_packs_every_count():
    tables = NGramExplorer(model(), ALPHABET).data()["tables"]
    assert [len(table) for table in tables] == [1, 5, len(model().counts.tables[2])]
    unpacked = {
        (context + symbol): int(count)
        for context, packed in tables[2].items()
        for symbol, count in re.findall(r"(\D)(\d+)", packed)
    }
    text = TEXT.replace("r", "d")
    assert unpacked == {gram: sum(text.startswith(gram, t) for t in range(len(text))) for gram in unpacked}
    assert sum(unpacked.values()) == len(text) - 2


def test_ngram_explorer_text_names_the_likeliest_for_every_n():
    explorer = NGramExplorer(model(), ALPHABET, "ab", start=(2, 0.01))
    for n in (1, 2, 3):
        best = max(explorer.probabilities("ab", n, 0.01))
        assert re.search(rf"n = {n}: “.” \({best:.3f}\)", explorer.text())


def test_ngram_explorer_is_deterministic_and_self_contained():
    html = NGramExplorer(model(), ALPHABET, "ab")._repr_html_()
    assert html == NGramExplorer(model(), ALPHABET, "ab")._repr_html_()
    assert not re.search(r'(?:src|href)="', html)
    assert html.count("</script>") == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NGramExplorer(model(), "abc"), "each of the model's 5 tokens once, got 3"),
        (lambda: NGramExplorer(model(), "aabcd"), "4 of them different"),
        (lambda: NGramExplorer(model(), "7abcd"), "not digits, not '7'"),
        (lambda: NGramExplorer(model(), ALPHABET, "abz"), "text has 'z'"),
        (lambda: NGramExplorer(model(), ALPHABET, start=(4, 0.0)), r"an n from 1 to 3 .* got \(4, 0.0\)"),
        (lambda: NGramExplorer(model(), ALPHABET, start=(1, 0.5)), r"got \(1, 0.5\)"),
    ],
)
def test_ngram_explorer_says_what_it_needs(make, words):
    with pytest.raises(ValueError, match=words):
        make()
