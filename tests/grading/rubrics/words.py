"""A function and a written question, for the tests of everything around grading."""

from lecturelib.grading import Rubric, assert_close

rubric = Rubric("words", title="Code and words")
rubric.exercise("double", title="Twice", minutes=1, difficulty=1)
rubric.written("why", title="Why?", minutes=1, difficulty=1, items={"names the reason": 2})


@rubric.test("double", points=3, visible=True)
def doubles(submission, rng):
    assert_close(submission.double(21), 42)
