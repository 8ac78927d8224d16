"""Accuracy, losses, edit distance and alignment error rate, against hand counts and properties."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lecturelib.evaluation import (
    accuracy,
    alignment_error_rate,
    best_links,
    diagonal_links,
    edit_distance,
    error_rate,
    exact_match,
    mean_loss,
    perplexity,
)

words = st.text(alphabet="abc", max_size=7)


def recursive_distance(a: str, b: str) -> int:
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return recursive_distance(a[1:], b[1:])
    return 1 + min(recursive_distance(a[1:], b), recursive_distance(a, b[1:]), recursive_distance(a[1:], b[1:]))


@given(st.text(alphabet="abc", max_size=5), st.text(alphabet="abc", max_size=5))
def test_edit_distance_equals_its_definition(a: str, b: str) -> None:
    assert edit_distance(a, b) == recursive_distance(a, b)


@given(words, words, words)
def test_edit_distance_is_a_metric(a: str, b: str, c: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)


def test_error_rate_divides_by_all_target_symbols() -> None:
    phonemes = [["K", "AE1", "T"], ["D", "AO1", "G", "Z"]]
    assert error_rate([["K", "AE1"], ["D", "AO1", "G", "S"]], phonemes) == pytest.approx(2 / 7)
    with pytest.raises(ValueError, match="1 predictions do not go with 2"):
        error_rate([[]], phonemes)


def test_exact_match_compares_whole_sequences() -> None:
    assert exact_match([[1, 2], [3], (4, 5)], [[1, 2], [3, 3], [4, 5]]) == pytest.approx(2 / 3)


def test_accuracy_counts_where_the_mask_is_true() -> None:
    target = torch.tensor([[0, 1, 2], [1, 1, 0]])
    logits = torch.nn.functional.one_hot(torch.tensor([[0, 1, 1], [0, 1, 2]]), 4).float()
    mask = torch.tensor([[True, True, False], [True, True, False]])
    assert accuracy(logits, target) == pytest.approx(3 / 6)
    assert accuracy(logits.argmax(-1), target, mask) == pytest.approx(3 / 4)
    with pytest.raises(ValueError, match=r"\(2, 2\).*\(2, 3\)"):
        accuracy(target[:, :2], target)
    with pytest.raises(ValueError, match="nothing to compare"):
        accuracy(target, target, torch.zeros_like(target, dtype=torch.bool))


def test_mean_loss_weighs_tokens_not_batches() -> None:
    batches = [torch.tensor([1.0]), torch.tensor([4.0, 4.0, 4.0]), torch.tensor([])]
    model = torch.nn.Identity()
    assert mean_loss(model, batches, lambda model, x: (model(x).mean(), len(x))) == pytest.approx(13 / 4)
    assert mean_loss(model, batches[:2], lambda model, x: model(x).mean()) == pytest.approx(2.5)


def test_perplexity_of_a_uniform_guess_is_the_number_of_choices() -> None:
    assert perplexity(math.log(84)) == pytest.approx(84)
    assert perplexity(1e6) == math.inf


def test_alignment_error_rate_equals_och_and_ney() -> None:
    predicted = [{(0, 0), (1, 2), (2, 1)}, {(0, 1)}]
    sure = [{(0, 0), (1, 1)}, {(0, 1)}]
    possible = [{(0, 0), (1, 1), (1, 2)}, {(0, 1), (0, 2)}]
    # A∩S: 1 + 1; A∩P: 2 + 1; |A| = 4; |S| = 3
    assert alignment_error_rate(predicted, sure, possible) == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert alignment_error_rate(sure, sure) == 0
    assert alignment_error_rate([set(), set()], sure) == 1


def test_best_links_take_the_heaviest_source_word_of_each_target_word() -> None:
    weights = torch.tensor([[0.1, 0.7, 0.2], [0.0, 0.0, 0.0], [0.2, 0.3, 0.5], [0.9, 0.0, 0.0]])
    assert best_links(weights) == {(0, 1), (2, 2), (3, 0)}
    assert best_links(torch.zeros(0, 3)) == best_links(torch.zeros(2, 0)) == set()
    with pytest.raises(ValueError, match=r"must be \(target, source\), got \(4,\)"):
        best_links(torch.zeros(4))


def test_diagonal_links_go_from_corner_to_corner() -> None:
    assert diagonal_links(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert diagonal_links(2, 6) == {(0, 1), (1, 4)}
    assert diagonal_links(6, 2) == {(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1)}
    assert diagonal_links(0, 4) == diagonal_links(4, 0) == set()
    for target_len, source_len in ((5, 7), (9, 4), (1, 3)):  # symmetric: read from the other end it is the same
        links = diagonal_links(target_len, source_len)
        if target_len % 2 and source_len % 2:
            assert {(target_len - 1 - i, source_len - 1 - j) for i, j in links} == links
        assert {i for i, _ in links} == set(range(target_len))
        assert {j for _, j in links} <= set(range(source_len))
