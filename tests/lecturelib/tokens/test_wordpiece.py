"""WordPiece against the `tokenizers` library."""

import random

import pytest

from lecturelib.tokens.wordpiece import WordPieceTokenizer, split_signs

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "em", "##bed", "##ding", "##s", "cat", "##er", "a", "##a"]
VOCAB += ["!", ",", ".", "'", "$", "naive", "cafe", "日", "本", "1", "##2", "b", "##b", "e", "##e", "t", "##t"]
HARD = [
    "",
    "the cats",
    "Embeddings!",
    "naïve CAFÉ",
    "日本 a",
    "12,a",
    "don't",
    "a\x00b\tc",
    "$a",
    "x" * 101,
    "unknownword",
]


def test_wordpiece_equals_tokenizers():
    tokenizers = pytest.importorskip("tokenizers")
    ours = WordPieceTokenizer(VOCAB)
    ids = {token: index for index, token in enumerate(VOCAB)}
    theirs = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab=ids, unk_token="[UNK]"))
    theirs.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    draw = random.Random(0)
    letters = "aabbetAÉé the,.!'$12日本 \t\u0301\u200b\u3000"
    texts = [*HARD, *("".join(draw.choices(letters, k=draw.randrange(1, 25))) for _ in range(500))]
    for text in texts:
        assert ours.encode(text)[1:-1] == theirs.encode(text).ids, repr(text)


def test_wordpiece_takes_the_longest_piece_and_marks_both_ends():
    tokenizer = WordPieceTokenizer(VOCAB)
    assert tokenizer.tokens_of(tokenizer.encode("embeddings")) == ["[CLS]", "em", "##bed", "##ding", "##s", "[SEP]"]
    assert tokenizer.tokens_of(tokenizer.encode("catz")) == ["[CLS]", "[UNK]", "[SEP]"]
    assert split_signs("Don't, naïve") == ["don", "'", "t", ",", "naive"]


def test_wordpiece_reads_a_vocabulary_and_says_what_it_lacks(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    assert WordPieceTokenizer.load(tmp_path / "vocab.txt").tokens == VOCAB
    with pytest.raises(ValueError, match=r"no \[CLS\]"):
        WordPieceTokenizer(["[UNK]"])
