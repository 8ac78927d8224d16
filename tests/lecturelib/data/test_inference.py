"""Generated inference pairs, and SNLI's files."""

import io
import json
import zipfile

import pytest

from lecturelib.data import inference_pairs, read_snli, snli
from lecturelib.data.sets.inference import LABELS, QUANTIFIERS, quantified_label

PAIRS = inference_pairs(600)


def test_twins_have_the_same_words_and_different_labels():
    for one, other in zip(PAIRS[::2], PAIRS[1::2], strict=True):
        assert sorted(one.premise) == sorted(other.premise)
        assert one.premise != other.premise
        assert one.hypothesis == other.hypothesis
        assert one.label != other.label


def test_every_topic_and_label_occurs_and_no_label_rules():
    assert {pair.topic for pair in PAIRS} == {"binding", "attribute", "roles", "quantifiers"}
    for label in range(3):
        assert 0.2 < sum(pair.label == label for pair in PAIRS) / len(PAIRS) < 0.5


def test_links_join_what_is_the_same_thing():
    for pair in PAIRS:
        for hypothesis, premise in pair.links:
            said, asked = pair.premise[premise], pair.hypothesis[hypothesis]
            assert "the" not in (said, asked)
            if asked in pair.premise and pair.topic == "roles":
                assert said == asked


def test_splits_share_no_pair():
    keys = [
        {(tuple(sorted(pair.premise)), pair.hypothesis) for pair in inference_pairs(200, split=split)}
        for split in ("train", "validation", "test")
    ]
    assert not keys[0] & keys[1]
    assert not keys[0] & keys[2]
    assert not keys[1] & keys[2]
    assert inference_pairs(40, seed=3) == inference_pairs(40, seed=3) != inference_pairs(40, seed=4)


@pytest.mark.parametrize("asked", QUANTIFIERS)
@pytest.mark.parametrize("said", QUANTIFIERS)
@pytest.mark.parametrize("relation", ["same", "below", "above"])
def test_quantifiers_agree_with_every_small_world(said, asked, relation):
    """Two poodles, a third dog, and another animal; each rests or not: what does one sentence leave of the other?"""
    worlds = [[bool(number >> place & 1) for place in range(4)] for number in range(16)]
    members = {"same": 3, "below": 2, "above": 4}
    hold = {"every": all, "some": any, "no": lambda resting: not any(resting)}
    left = {hold[asked](world[: members[relation]]) for world in worlds if hold[said](world[:3])}
    want = {frozenset({True}): "entailment", frozenset({False}): "contradiction"}.get(frozenset(left), "neutral")
    assert quantified_label(said, asked, relation) == want


def line(label, premise="A man sleeps.", hypothesis="Nobody's awake."):
    return json.dumps({"gold_label": label, "sentence1": premise, "sentence2": hypothesis})


def test_snli_lines_without_agreement_are_left_out():
    pairs = read_snli([line("neutral"), line("-"), "\n", line("contradiction")])
    assert [LABELS[pair.label] for pair in pairs] == ["neutral", "contradiction"]
    assert pairs[0].premise == ("a", "man", "sleeps", ".")
    assert pairs[0].hypothesis == ("nobody's", "awake", ".")


def test_snli_archive_gives_its_three_splits(pretend):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, label in (("train", "entailment"), ("dev", "neutral"), ("test", "contradiction")):
            archive.writestr(f"snli_1.0/snli_1.0_{name}.jsonl", line(label) + "\n")
    pretend("snli", {"snli_1.0.zip": buffer.getvalue()})
    splits = snli()
    assert [part[0].label for part in (splits.train, splits.validation, splits.test)] == [0, 1, 2]


def test_what_is_not_snli_is_explained():
    with pytest.raises(ValueError, match="line 1 is not one of SNLI: it needs gold_label"):
        read_snli(['{"label": 0}'])
    with pytest.raises(ValueError, match="line 1 has the gold label 'maybe'"):
        read_snli([line("maybe")])
    with pytest.raises(ValueError, match="count=3 must be even"):
        inference_pairs(3)
    with pytest.raises(ValueError, match="split='tests' must be one of"):
        inference_pairs(2, split="tests")
