"""The toy problems: drawn as described, the same for the same seed, and really needing what the chapter says."""

import pytest
import torch

from lecturelib.data.sets.toy import (
    MEANINGS,
    NAMES,
    SENSES,
    WORDS,
    encode_words,
    reference_sentences,
    shape_pairs,
)


@pytest.mark.parametrize("pair_by", ["shape", "position"])
def test_shape_pairs_is_the_same_for_the_same_seed(pair_by):
    one, again, other = (shape_pairs(6, pair_by=pair_by, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one.inputs, again.inputs)
    assert torch.equal(one.targets, again.targets)
    assert not torch.equal(one.inputs, other.inputs)


def test_shape_pairs_has_two_of_each_kind_that_never_touch():
    batch = shape_pairs(400, length=64, seed=1)
    assert (batch.is_rectangle.sum(dim=1) == 2).all()
    starts = batch.centres - (batch.widths - 1) / 2
    ends = batch.centres + (batch.widths - 1) / 2
    assert (starts >= 0).all()
    assert (ends <= 63).all()
    assert (starts[:, 1:] - ends[:, :-1] >= 2).all(), "at least one empty position between neighbours"
    filled = (batch.inputs > 0).sum(dim=1)
    assert torch.equal(filled, batch.widths.sum(dim=1))


def test_shape_pairs_draws_each_shape_as_high_as_it_says():
    batch = shape_pairs(50, seed=2)
    for row in range(50):
        for shape in range(4):
            half = (int(batch.widths[row, shape]) - 1) / 2
            centre = float(batch.centres[row, shape])
            piece = batch.inputs[row, round(centre - half) : round(centre + half) + 1]
            assert piece.max() == pytest.approx(float(batch.heights[row, shape]))
            is_flat = bool((piece == piece.max()).all())
            assert is_flat == bool(batch.is_rectangle[row, shape])
            torch.testing.assert_close(piece, piece.flip(0))


@pytest.mark.parametrize("pair_by", ["shape", "position"])
def test_shape_pairs_targets_have_the_mean_height_of_the_pair(pair_by):
    batch = shape_pairs(60, pair_by=pair_by, seed=5)
    for row in range(60):
        rectangles = batch.is_rectangle[row].tolist()
        for shape in range(4):
            if pair_by == "shape":
                pair = [other for other in range(4) if rectangles[other] == rectangles[shape]]
            else:
                pair = [0, 1] if shape < 2 else [2, 3]
            expected = float(batch.heights[row, pair].mean())
            half = (int(batch.widths[row, shape]) - 1) / 2
            centre = float(batch.centres[row, shape])
            piece = batch.targets[row, round(centre - half) : round(centre + half) + 1]
            assert piece.max() == pytest.approx(expected)
    assert torch.equal(batch.targets > 0, batch.inputs > 0)


@pytest.mark.parametrize("pair_by", ["shape", "position"])
def test_shape_pairs_blind_guess_beats_other_guesses_that_ignore_the_pairing(pair_by):
    """Half the own height plus half the mean of the others is the conditional expectation; anything else is worse."""
    batch = shape_pairs(4000, pair_by=pair_by, seed=7)

    def error(guess):
        return float((guess - batch.targets).square().mean())

    profile = batch.inputs / batch.inputs.new_tensor(1.0)
    floor = error(batch.blind)
    assert floor > 1e-4
    for mix in (0.8, 0.9, 1.1, 1.2):
        assert error(profile + mix * (batch.blind - profile)) > floor


def test_shape_pairs_makes_an_empty_batch():
    batch = shape_pairs(0, length=50)
    assert batch.inputs.shape == batch.targets.shape == (0, 50)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pair_by": "colour"}, r'"shape" or "position", got \'colour\''),
        ({"length": 30}, "at least 40 .* got 30"),
        ({"batch_size": -1}, "got -1"),
    ],
)
def test_shape_pairs_refuses_what_it_cannot_draw(arguments, words):
    with pytest.raises(ValueError, match=words):
        shape_pairs(**{"batch_size": 2, **arguments})


def test_reference_sentences_is_the_same_for_the_same_seed():
    one, again, other = (reference_sentences(8, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.words, again.words)
    assert not torch.equal(one.words, other.words)


def test_reference_sentences_give_pronouns_the_name_of_their_own_gender_and_bank_its_sense():
    batch = reference_sentences(300, seed=0)
    seen = set()
    for words, meanings, length in zip(batch.words, batch.meanings, batch.lengths, strict=True):
        said = [WORDS[index] for index in words[:length]]
        meant = [MEANINGS[index] for index in meanings[:length]]
        assert (words[length:] == 0).all()
        assert (meanings[length:] == 0).all()
        for word, meaning in zip(said, meant, strict=True):
            if word in NAMES:
                assert meaning in NAMES[word]
                assert meaning in said
            elif word == "bank":
                assert meaning == (SENSES["river"] if "river" in said else SENSES["money"])
            elif word == "but":
                assert said[said.index("was") + 1] == meaning
            else:
                assert meaning == word
            seen.add(word)
    assert {"he", "she", "but", "bank", "Ernie"} <= seen


def test_reference_sentences_makes_an_empty_batch():
    assert reference_sentences(0).words.shape[0] == 0


def test_encode_words_names_the_words_it_does_not_know():
    assert encode_words(["Ernie", "was"]).tolist() == [WORDS.index("Ernie"), WORDS.index("was")]
    with pytest.raises(ValueError, match=r"\['Bert'\]"):
        encode_words(["Ernie", "Bert"])
