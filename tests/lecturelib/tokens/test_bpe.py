"""Byte-pair encoding: every string comes back, and every number is Hugging Face's."""

import json
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from lecturelib.tokens import BPETokenizer, CharTokenizer
from lecturelib.tokens.bpe import byte_characters, printable, unprintable

TEXT = "the cat sat on the mat; the café's cat didn't. 漢字 the 1234 cats\n\n  sat  "
ANY_TEXT = st.text(st.characters(exclude_categories=()))  # surrogates too
ASSIGNED_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cn")))  # what every Unicode version knows alike


@pytest.fixture(scope="module")
def tokenizer():
    return BPETokenizer.train(TEXT, vocab_size=300)


def hugging_face(texts, vocab_size, specials=()):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=list(specials), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def assert_same_model(ours, theirs):
    model = json.loads(theirs.to_str())["model"]
    assert [[printable(left), printable(right)] for left, right in ours.merges] == model["merges"]
    assert {printable(token): index for token, index in ours.vocab.items()} | ours.specials == model["vocab"]


@given(ANY_TEXT)
@settings(max_examples=300)
def test_bpe_gives_every_string_back(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(torch.tensor(ids, dtype=torch.int64)) == text


@given(ANY_TEXT)
def test_bpe_trained_on_any_string_gives_it_back(text):
    tokenizer = BPETokenizer.train(text, vocab_size=280)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_bpe_keeps_lone_surrogates_and_halves_of_a_pair(tokenizer):
    for text in ("\ud800", "a\udfffb", "\ud83d\ude00", "😀", "\ude00\ud83d"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@given(ASSIGNED_TEXT)
@settings(max_examples=300)
def test_bpe_ids_match_hugging_face_on_any_text(text):
    ours, theirs = encoders()
    assert ours.encode(text) == theirs.encode(text).ids


def encoders(made=[]):  # noqa: B006  trained once for all examples
    if not made:
        made.extend((BPETokenizer.train(TEXT, vocab_size=300), hugging_face([TEXT], 300)))
    return made


@given(st.data())
@settings(max_examples=150)
def test_bpe_merges_match_hugging_face_where_pairs_overlap_and_tie(data):
    alphabet = data.draw(st.sampled_from(["a", "ab", "abc", "ab ", "abc '1\n", "aé漢 "]))
    texts = data.draw(st.lists(st.text(alphabet, min_size=1, max_size=80), min_size=1, max_size=3))
    vocab_size = data.draw(st.integers(258, 310))
    ours = BPETokenizer.train(texts, vocab_size=vocab_size, specials=("<s>", "</s>"))
    theirs = hugging_face(texts, vocab_size, ("<s>", "</s>"))
    assert_same_model(ours, theirs)
    text = data.draw(st.text(alphabet, max_size=80))
    assert ours.encode(text) == theirs.encode(text).ids


def test_bpe_matches_hugging_face_on_shakespeare(plays):
    ours = BPETokenizer.train(plays[:400_000], vocab_size=1000, specials=("<|endoftext|>",))
    theirs = hugging_face([plays[:400_000]], 1000, ("<|endoftext|>",))
    assert_same_model(ours, theirs)
    unseen = plays[2_000_000:2_200_000]
    assert ours.encode(unseen) == theirs.encode(unseen).ids


def test_bpe_min_count_stops_early():
    tokenizer = BPETokenizer.train("ab ab ab cd", vocab_size=400, min_count=2)
    assert tokenizer.merges == [(b"a", b"b"), (b" ", b"ab")]
    assert tokenizer.vocab_size == 258


def test_bpe_learns_the_textbook_merges():
    merges = BPETokenizer.train("low low low lower lowest", vocab_size=260).merges
    assert merges[:2] == [(b"l", b"o"), (b"lo", b"w")]


def test_bpe_encodes_a_megabyte_in_seconds_with_or_without_spaces(plays):
    tokenizer = BPETokenizer.train(plays[:300_000], vocab_size=1000)
    megabyte = plays[:1_000_000]
    for text in (megabyte, "".join(filter(str.isalpha, megabyte)), "ha" * 500_000):
        start = time.process_time()
        ids = tokenizer.encode(text)
        assert time.process_time() - start < 15
        assert tokenizer.decode(ids) == text


def test_bpe_reads_specials_only_when_asked():
    tokenizer = BPETokenizer.train("a<s>b", vocab_size=258, specials=("<s>", "<s>!"))
    assert tokenizer.specials["<s>"] not in tokenizer.encode("a<s>b")
    ids = tokenizer.encode("a<s>!b<s>", allow_specials=True)
    assert ids == [tokenizer.vocab[b"a"], 1, tokenizer.vocab[b"b"], 0]
    assert tokenizer.decode(ids) == "ab"
    assert tokenizer.decode(ids, skip_specials=False) == "a<s>!b<s>"


def test_bpe_turns_bytes_that_are_no_text_into_replacement_characters(tokenizer):
    assert tokenizer.decode([tokenizer.vocab[b"\xe6"], tokenizer.vocab[b"a"]]) == "\ufffda"


def test_bpe_comes_back_from_its_file(tmp_path):
    tokenizer = BPETokenizer.train(TEXT, vocab_size=300, specials=("<pad>",))
    tokenizer.save(tmp_path / "bpe.json")
    again = BPETokenizer.load(tmp_path / "bpe.json")
    assert (again.vocab, again.merges, again.specials) == (tokenizer.vocab, tokenizer.merges, tokenizer.specials)
    CharTokenizer("ab").save(tmp_path / "characters.json")
    with pytest.raises(ValueError, match=r"characters\.json is not a saved BPETokenizer"):
        BPETokenizer.load(tmp_path / "characters.json")


def test_bpe_loads_gpt2s_layout(tmp_path, tokenizer):
    vocab = {printable(token): index for token, index in tokenizer.vocab.items()}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab | {"<|endoftext|>": 300}), encoding="utf-8")
    lines = [f"{printable(left)} {printable(right)}" for left, right in tokenizer.merges]
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *lines, ""]), encoding="utf-8")
    again = BPETokenizer.load_gpt2(tmp_path / "vocab.json", tmp_path / "merges.txt")
    assert again.encode(TEXT) == tokenizer.encode(TEXT)
    assert again.encode("<|endoftext|>", allow_specials=True) == [300]
    assert again.vocab_size == 301
    with pytest.raises(ValueError, match="has no token '<pad>'"):
        BPETokenizer.load_gpt2(tmp_path / "vocab.json", tmp_path / "merges.txt", specials=("<pad>",))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h e\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"merges\.txt, line 2: 't h e'"):
        BPETokenizer.load_gpt2(tmp_path / "vocab.json", tmp_path / "merges.txt")


def test_bpe_spells_bytes_as_gpt2_does():
    assert set(byte_characters()) == set(pre_tokenizers.ByteLevel.alphabet())
    assert printable(" café\n".encode()) == "ĠcafÃ©Ċ"
    assert unprintable("ĠcafÃ©Ċ") == " café\n".encode()
    with pytest.raises(ValueError, match="'漢' stands for no byte"):
        unprintable("a漢")


def test_bpe_says_what_is_wrong_with_a_vocabulary(tokenizer):
    with pytest.raises(ValueError, match="vocab_size=200 must be at least 257"):
        BPETokenizer.train("a", vocab_size=200, specials=("<s>",))
    with pytest.raises(ValueError, match="255 are missing, first 0"):
        BPETokenizer({b"a": 0}, [])
    with pytest.raises(ValueError, match="id 3 is given twice"):
        BPETokenizer(tokenizer.vocab, [], specials={"<s>": 3})
    with pytest.raises(ValueError, match="which is not in the vocabulary"):
        BPETokenizer({bytes([byte]): byte for byte in range(256)}, [(b"a", b"b")])
    with pytest.raises(ValueError, match="id 300 is outside this vocabulary of 292 tokens"):
        tokenizer.decode([300])
