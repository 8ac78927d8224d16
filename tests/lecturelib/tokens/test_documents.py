"""Documents as sentences of words."""

from lecturelib.tokens import pad_documents, split_sentences


def test_sentences_end_where_a_space_follows_the_stop():
    text = 'It cost 3.50! "Really?" she said.\nNo.  Yes, at 9 p.m. sharp'
    assert split_sentences(text) == ["It cost 3.50!", '"Really?', "she said.", "No.", "Yes, at 9 p.m.", "sharp"]
    assert split_sentences(" \n ") == []


def test_documents_are_padded_twice():
    padded = pad_documents([[[1, 2, 3], [4]], [[5, 6]]], pad_id=9)
    assert padded.ids.tolist() == [[[1, 2, 3], [4, 9, 9]], [[5, 6, 9], [9, 9, 9]]]
    assert padded.lengths.tolist() == [[3, 1], [2, 0]]


def test_long_documents_are_cut_and_empty_sentences_dropped():
    padded = pad_documents([[[], [1, 2, 3], [4], [5]], []], pad_id=0, max_sentences=2, max_words=2)
    assert padded.ids.tolist() == [[[1, 2], [4, 0]], [[0, 0], [0, 0]]]
    assert padded.lengths.tolist() == [[2, 1], [0, 0]]
    assert pad_documents([], pad_id=0).ids.shape == (0, 0, 0)
