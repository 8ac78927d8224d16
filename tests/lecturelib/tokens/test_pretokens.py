"""GPT-2's pattern without the regex package."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from lecturelib.tokens.pretokens import gpt2_pattern

reference = pre_tokenizers.ByteLevel(add_prefix_space=False)


def test_pretokens_cut_as_gpt2_does():
    assert gpt2_pattern().findall("I'll  pay 20€, ok?\n\n now") == [
        "I",
        "'ll",
        " ",
        " pay",
        " 20",
        "€,",
        " ok",
        "?",
        "\n\n",
        " now",
    ]


@given(st.text(st.characters(exclude_categories=())))
def test_pretokens_joined_are_the_text(text):
    assert "".join(gpt2_pattern().findall(text)) == text


def test_pretokens_class_every_assigned_character_as_hugging_face_does():
    characters = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")]
    for start in range(0, len(characters), 500):
        text = "".join(f"a{character}1{character}!{character}" for character in characters[start : start + 500])
        ours = [len(piece.encode()) for piece in gpt2_pattern().findall(text)]
        assert ours == [len(piece) for piece, _ in reference.pre_tokenize_str(text)]
