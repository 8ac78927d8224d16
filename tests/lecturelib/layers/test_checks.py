from dataclasses import dataclass

import pytest
import torch

from lecturelib.layers.checks import check_config, check_ids, check_lengths, check_tokens


def test_check_tokens_takes_ids_of_the_vocabulary_and_empty_batches():
    check_tokens(torch.tensor([[0, 4], [3, 1]]), 5, batch=2)
    check_tokens(torch.zeros(0, 3, dtype=torch.int32), 5)
    check_ids(torch.tensor([4]), 5)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.tensor([1, 2]), r"words must be \(2, length\) token ids, got \(2,\)"),
        (torch.zeros(3, 2, dtype=torch.long), r"words must be \(2, length\) token ids, got \(3, 2\)"),
        (torch.zeros(2, 2), r"words must be integer token ids, got torch\.float32"),
        (torch.tensor([[0], [5]]), "words must be ids from 0 to 4, got 5"),
        (torch.tensor([[0], [-1]]), "words must be ids from 0 to 4, got -1"),
    ],
)
def test_check_tokens_says_what_was_given(tokens, message):
    with pytest.raises(ValueError, match=message):
        check_tokens(tokens, 5, "words", batch=2)


def test_check_lengths_allows_zero_and_the_whole_length():
    check_lengths(torch.tensor([0, 4]), 2, 4)
    check_lengths(torch.zeros(0, dtype=torch.long), 0, 4)
    with pytest.raises(ValueError, match=r"between 0 and the padded length 4, got \[-1, 4\]"):
        check_lengths(torch.tensor([-1, 4]), 2, 4)
    with pytest.raises(ValueError, match=r"\(2,\) integers, got torch\.float32 \(2,\)"):
        check_lengths(torch.tensor([1.0, 2.0]), 2, 4)


def test_check_config_names_the_class_the_field_and_the_value():
    @dataclass
    class Sizes:
        width: int
        dropout: float = 0.0

    check_config(Sizes(1), sizes=("width",))
    with pytest.raises(ValueError, match="Sizes: width must be at least 1, got 0"):
        check_config(Sizes(0), sizes=("width",))
    with pytest.raises(ValueError, match=r"Sizes: dropout must be in \[0, 1\), got 1"):
        check_config(Sizes(1, 1), sizes=("width",))
