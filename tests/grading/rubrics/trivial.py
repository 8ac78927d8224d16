"""One cheap test, for grading very many submissions."""

from lecturelib.grading import Rubric, assert_close

rubric = Rubric("trivial", title="A trivial set")
rubric.exercise("double", title="Twice", minutes=1, difficulty=1)


@rubric.test("double", points=1, visible=True)
def doubles(submission, rng):
    assert_close(submission.double(21), 42)
