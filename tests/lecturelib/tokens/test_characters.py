"""One token a character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lecturelib.tokens import CharTokenizer

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # surrogates too


@given(ANY_TEXT)
def test_characters_come_back_when_trained_on_the_text(text):
    tokenizer = CharTokenizer.train(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode(text)) == len(text)


@given(st.text("abc"), ANY_TEXT)
def test_characters_come_back_by_bytes_when_never_seen(seen, text):
    tokenizer = CharTokenizer.train(seen, byte_fallback=True, specials=("<pad>",))
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(0 < index < tokenizer.vocab_size for index in ids)


def test_characters_never_read_a_special_from_text():
    tokenizer = CharTokenizer.train("<pad>", specials=("<pad>",))
    assert tokenizer.vocabulary.pad_id not in tokenizer.encode("<pad>")
    assert tokenizer.decode([0, *tokenizer.encode("a<"), 0]) == "a<"


def test_characters_name_the_one_they_do_not_know():
    with pytest.raises(ValueError, match=r"'é' \(U\+00E9\) at position 2 is not in this alphabet of 3"):
        CharTokenizer.train("abc").encode("abé")


def test_characters_refuse_an_alphabet_of_words():
    with pytest.raises(ValueError, match="not 'ab'"):
        CharTokenizer(["ab"])


def test_characters_turn_bytes_that_are_no_text_into_replacement_characters():
    tokenizer = CharTokenizer("ab", byte_fallback=True)
    assert tokenizer.decode([0, 2 + 0xFF, 1]) == "a\ufffdb"


def test_characters_come_back_from_their_file(tmp_path):
    tokenizer = CharTokenizer.train("héllo\ud83d", specials=("<pad>",), byte_fallback=True)
    tokenizer.save(tmp_path / "characters.json")
    again = CharTokenizer.load(tmp_path / "characters.json")
    assert again.encode("hello → \ud83d") == tokenizer.encode("hello → \ud83d")
    assert again.vocab_size == tokenizer.vocab_size == 1 + 5 + 256
