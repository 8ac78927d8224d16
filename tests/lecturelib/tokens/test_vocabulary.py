"""Symbols and ids."""

import pytest
import torch

from lecturelib.tokens import Vocabulary


def test_vocabulary_numbers_specials_first_then_by_frequency():
    vocabulary = Vocabulary.build([["b", "a", "b"], ["c", "a", "b"]])
    assert vocabulary.symbols == ("<pad>", "<bos>", "<eos>", "<unk>", "b", "a", "c")
    assert (vocabulary.pad_id, vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id) == (0, 1, 2, 3)
    assert vocabulary.encode("cab") == [6, 5, 4]
    assert vocabulary.decode(torch.tensor([1, 6, 5, 4, 2, 0])) == ["c", "a", "b"]
    assert vocabulary.decode([1, 6], skip_specials=False) == ["<bos>", "c"]


def test_vocabulary_build_respects_its_bounds():
    sequences = [["a"] * 3 + ["b"] * 2 + ["c"]]
    assert len(Vocabulary.build(sequences, min_count=2)) == 4 + 2
    assert Vocabulary.build(sequences, max_size=5).symbols[4:] == ("a",)
    with pytest.raises(ValueError, match="max_size=3 has no room for the 4"):
        Vocabulary.build(sequences, max_size=3)


def test_vocabulary_does_not_depend_on_the_order_of_ties():
    assert Vocabulary.build([["x", "y"]]) == Vocabulary.build([["y", "x"]])


def test_vocabulary_maps_the_unknown_to_unk_or_says_so():
    assert Vocabulary(["a"]).encode(["a", "zebra"]) == [4, 3]
    with pytest.raises(ValueError, match="'zebra' is not among the 1 symbols"):
        Vocabulary(["a"], specials=()).encode(["zebra"])


@pytest.mark.parametrize("index", [-1, 5])
def test_vocabulary_refuses_an_id_outside(index):
    with pytest.raises(ValueError, match=f"id {index} is outside this vocabulary of 5 symbols"):
        Vocabulary(["a"]).decode([index])


def test_vocabulary_refuses_a_symbol_twice():
    with pytest.raises(ValueError, match=r"come twice: \['a'\]"):
        Vocabulary(["a", "b", "a"])


def test_vocabulary_without_a_special_names_it():
    with pytest.raises(ValueError, match="no special symbol <bos>"):
        _ = Vocabulary(["a"], specials=("<pad>",)).bos_id
