"""Greek and English as the translation chapter reads them: small letters, no accents."""

from lecturelib.data import plain_text


def test_plain_text_drops_accents_breathings_and_capitals():
    assert plain_text(("Καὶ", "ὁ", "λόγος", "ἦν")) == plain_text(("καί", "ο", "Λογος", "ην")) == "και ο λογος ην"
    assert plain_text(("ᾧ", "ΐ")) == "ω ι"
    assert plain_text(("“", "I", "Am", ",", "He", "Said", ".")) == "“ i am , he said ."
    assert plain_text(()) == ""
