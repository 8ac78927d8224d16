"""A contest that needs no training: four symbols, each with a class that is drawn anew, and networks made by hand."""

import torch

from lecturelib.grading import Contest, Rubric, assert_scores

rubric = Rubric("contest", title="A contest")
rubric.exercise("train", title="Name the class", minutes=1, difficulty=1)


@rubric.reference
def train(inputs, targets):
    classes = torch.stack([targets[inputs == symbol].mode().values for symbol in range(4)])
    return {"layers": [("embedding", 4)], "weights": {"0.weight": torch.eye(4)[classes]}}


def judged(submission, rng):
    classes, inputs = torch.randperm(4, generator=rng), torch.randint(4, (60, 5), generator=rng)
    limits = {"num_symbols": 4, "num_classes": 4, "most_parameters": 60, "most_flops": 500}
    contest = Contest(inputs=inputs[20:], targets=classes[inputs[20:]], **limits, marks=(0.4, 0.7, 0.9))
    return assert_scores(submission.train(inputs[:20], classes[inputs[:20]]), contest)


@rubric.test("train", points=3, visible=True, hint="Count which class a symbol has.")
def names_the_classes(submission, rng):
    return judged(submission, rng)


@rubric.test("train", points=6, visible=False, topic="hidden data")
def names_hidden_classes(submission, rng):
    return judged(submission, rng)
