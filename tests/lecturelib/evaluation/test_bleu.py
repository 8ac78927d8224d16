"""BLEU equals sacrebleu's, on words and on raw text."""

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from lecturelib.evaluation import bleu, tokenize_13a

words = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=9)
triples = st.lists(st.tuples(words, words, words), min_size=1, max_size=6)
text = st.text(alphabet=st.sampled_from("ab19.,-'\"&;<>()[]!?/\\_`~ \n\té—") | st.characters(exclude_categories=["Cs"]))


@given(triples, st.sampled_from(["exp", "none"]), st.booleans())
def test_bleu_matches_sacrebleu_on_words(corpus, smoothing, effective_order) -> None:
    predicted, first, second = zip(*corpus, strict=True)
    ours = bleu(predicted, first, second, smoothing=smoothing, effective_order=effective_order)
    joined = [[" ".join(sentence) for sentence in part] for part in (predicted, first, second)]
    peer = sacrebleu.BLEU(tokenize="none", smooth_method=smoothing, effective_order=effective_order, force=True)
    theirs = peer.corpus_score(joined[0], joined[1:])
    assert ours.score == pytest.approx(theirs.score, rel=1e-12)
    assert ours.precisions == pytest.approx(theirs.precisions)
    assert (ours.brevity_penalty, ours.length, ours.reference_length) == (theirs.bp, theirs.sys_len, theirs.ref_len)


@given(st.lists(st.tuples(text, text), min_size=1, max_size=4))
def test_bleu_matches_sacrebleu_on_text(corpus) -> None:
    predicted, reference = zip(*corpus, strict=True)
    theirs = sacrebleu.corpus_bleu(list(predicted), [list(reference)], force=True)
    assert bleu(predicted, reference).score == pytest.approx(theirs.score, rel=1e-12)


@given(text)
def test_tokenize_13a_matches_sacrebleu(sentence) -> None:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    assert tokenize_13a(sentence) == Tokenizer13a()(sentence.rstrip()).split()


def test_bleu_rejects_lists_of_unequal_length() -> None:
    with pytest.raises(ValueError, match=r"2 sentences, but 1"):
        bleu(["a", "b"], ["a"])
