"""Tokenizers come back from their files, and the file says which they are."""

import pytest

from lecturelib.tokens import BPETokenizer, CharTokenizer, Vocabulary, WordTokenizer, load_tokenizer

TEXT = 'The λόγος said: "Don\'t!"'


@pytest.mark.parametrize(
    "tokenizer",
    [
        CharTokenizer.train(TEXT, specials=("<pad>",), byte_fallback=True),
        WordTokenizer.train([TEXT], lower=True),
        WordTokenizer(Vocabulary(["λόγος", "\ud800", '"'], specials=("<pad>", "<unk>"))),
        BPETokenizer.train(TEXT, vocab_size=270, specials=("<pad>", "<eos>")),
    ],
    ids=["characters", "words", "a lone surrogate", "bpe"],
)
def test_tokenizer_comes_back_from_its_file(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokens.json")
    loaded = load_tokenizer(tmp_path / "tokens.json")
    assert type(loaded) is type(tokenizer)
    assert loaded.encode(TEXT) == tokenizer.encode(TEXT)
    assert loaded.decode(tokenizer.encode(TEXT)) == tokenizer.decode(tokenizer.encode(TEXT))
    assert (loaded.vocab_size, loaded.specials) == (tokenizer.vocab_size, tokenizer.specials)


@pytest.mark.parametrize("content", ["[]", "{", '{"type": "runes"}'])
def test_load_tokenizer_names_a_file_that_is_none(content, tmp_path):
    (tmp_path / "other.json").write_text(content)
    with pytest.raises(ValueError, match=r"other\.json .*saved tokenizer"):
        load_tokenizer(tmp_path / "other.json")
    with pytest.raises(ValueError, match=r"gone\.json can't be read"):
        load_tokenizer(tmp_path / "gone.json")
