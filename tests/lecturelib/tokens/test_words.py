"""One token a word."""

from lecturelib.tokens import WordTokenizer, split_words


def test_words_split_off_punctuation_and_keep_apostrophes():
    assert split_words("Don't stop, Ann—λόγος!") == ["Don't", "stop", ",", "Ann", "—", "λόγος", "!"]


def test_words_come_back_with_usual_spacing():
    text = "In the beginning (so they say) was the word, and the word was short."
    tokenizer = WordTokenizer.train([text])
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_words_unseen_become_unknown():
    tokenizer = WordTokenizer.train(["The cat."], lower=True)
    assert tokenizer.encode("the dog") == [tokenizer.vocabulary.id_of("the"), tokenizer.vocabulary.unk_id]


def test_words_come_back_from_their_file(tmp_path):
    tokenizer = WordTokenizer.train(["The cat sat on the mat."], lower=True)
    tokenizer.save(tmp_path / "words.json")
    assert WordTokenizer.load(tmp_path / "words.json").encode("THE mat.") == tokenizer.encode("the mat.")
