"""Generated questions, and SQuAD's files."""

import json

import pytest

from lecturelib.data import dialogues, questions, read_squad, squad


@pytest.mark.parametrize("hops", [1, 2])
def test_answers_stand_where_they_are_said_to_stand(hops):
    for q in questions(200, hops=hops):
        assert q.hops == hops
        assert 0 <= q.start <= q.end < len(q.passage)
        assert q.answer not in " ".join(q.question)
        assert "." not in q.answer


def test_a_question_of_two_hops_needs_both_sentences():
    for q in questions(100, hops=2):
        guest = q.question[2]
        host = q.passage[q.passage.index(guest) + 5]
        assert q.passage[q.passage.index(guest) + 1 : q.passage.index(guest) + 5] == ("is", "the", "guest", "of")
        assert q.passage[q.start - 3 : q.start] == (host, "lives", "in")
        assert guest not in q.passage[q.start - 3 : q.end + 1]


def test_a_second_turn_goes_on_from_the_first():
    for q in dialogues(200):
        assert q.question[0] == "and"
        assert q.before[-1] == "?"
        assert q.answer not in " ".join(q.before)
        sentence = " ".join(q.passage).split(" . ")[" ".join(q.passage[: q.start]).count(" .")]
        known = [word for word in q.before if word in sentence.split() and word not in ("the", "to", "went")]
        assert known, "the first turn names somebody or some place of the sentence that holds the answer"
    assert {" ".join(q.question) for q in dialogues(60)} == {"and where to ?", "and when ?"}


def test_splits_share_no_passage_and_a_seed_is_enough():
    train, test = questions(300), questions(300, split="test")
    assert not {q.passage for q in train} & {q.passage for q in test}
    assert questions(20, seed=1) == questions(20, seed=1) != questions(20, seed=2)
    assert {q.hops for q in train} == {1, 2}


def squad_file(*asked):
    return json.dumps(
        {"data": [{"paragraphs": [{"context": "The Normans came from Denmark, long ago.", "qas": asked}]}]}
    )


def asked(question, *answers):
    return {"question": question, "answers": [{"answer_start": at, "text": text} for at, text in answers]}


def test_squad_answers_become_whole_words(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(
        squad_file(asked("Where from?", (22, "Denmark")), asked("When?", (32, "ong ag"), (0, "The")), asked("Who?")),
        encoding="utf-8",
    )
    where, when = read_squad(path)
    assert where.answer == "denmark"
    assert where.question == ("where", "from", "?")
    assert when.answer == "long ago"


def test_squad_has_its_development_file_for_a_test(pretend):
    content = squad_file(asked("Where from?", (22, "Denmark"))).encode()
    pretend("squad", {"squad-train-v1.1.json": content, "squad-dev-v1.1.json": content})
    splits = squad()
    assert len(splits.test) == len(splits.train) + len(splits.validation) == 1


def test_what_cannot_be_is_explained(tmp_path):
    path = tmp_path / "other.json"
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match="no list called data"):
        read_squad(path)
    with pytest.raises(ValueError, match="hops=3 must be 1, 2 or None"):
        questions(1, hops=3)
    with pytest.raises(ValueError, match="count=-1 must not be negative"):
        questions(-1)
    with pytest.raises(ValueError, match="split='tests' must be one of"):
        dialogues(1, split="tests")
