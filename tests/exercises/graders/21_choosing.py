"""The project of chapter 21: a rule that nobody is told, limits, sequences that nobody has seen, and a choice."""

import torch
from torch.nn import functional as F

from lecturelib.grading import Contest, Rubric, assert_scores
from lecturelib.grading.rubric.network import build, describe

rubric = Rubric("21_choosing", title="Project: label by an unknown rule")
rubric.exercise("train", title="A network within limits", minutes=90, difficulty=4)
rubric.written(
    "choose",
    title="Which one would you build?",
    minutes=15,
    difficulty=3,
    items={
        "says where in the sequence the answer is, and what finds it there": 2,
        "uses a limit of the task: memory, time or length": 1,
        "says why one other choice is worse here": 1,
        "names a measurement that could change your mind": 1,
    },
)

SYMBOLS, FIELDS, LENGTH, TRAINING, TEST = 8, 4, 16, 300, 500
LIMITS = {"num_symbols": SYMBOLS, "num_classes": FIELDS, "most_parameters": 1_500, "most_flops": 48_000}
MARKS = (0.83, 0.88, 0.94)
# Somebody walks on a row of fields between two walls. What a symbol means is drawn anew for every submission: to stay,
# to go on, to go back, or to do again what was done last.
STEPS, AGAIN = torch.tensor([0, 0, 0, 1, 1, -1, -1, 0]), 7


def rule(rng):
    """Sequences of one rule, as many as are asked for: ids (n, T) and fields (n, T)."""
    meaning = torch.randperm(SYMBOLS, generator=rng)

    def sequences(count):
        inputs = torch.randint(SYMBOLS, (count, LENGTH), generator=rng)
        field, step, fields = torch.zeros(count, dtype=torch.long), torch.zeros(count, dtype=torch.long), []
        for meant in meaning[inputs].unbind(1):
            step = torch.where(meant == AGAIN, step, STEPS[meant])
            field = (field + step).clamp(0, FIELDS - 1)
            fields.append(field)
        return inputs, torch.stack(fields, dim=1)

    return sequences


@rubric.reference
def train(inputs, targets):
    layers = [("embedding", 8), ("recurrence", 16), ("linear", 4)]
    network, steps = build(layers, num_symbols=8), 150
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03, betas=(0.9, 0.98))
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.03 * min(1, (step + 1) / 20) * (1 - step / steps)
        chosen = torch.randint(len(inputs), (32,))
        loss = F.cross_entropy(network(inputs[chosen]).flatten(0, 1), targets[chosen].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return describe(layers, network)


def held_to(submission, rng):
    sequences = rule(rng)
    inputs, targets = sequences(TRAINING)
    unseen, labels = sequences(TEST)
    contest = Contest(inputs=unseen, targets=labels, **LIMITS, marks=MARKS)
    return assert_scores(submission.train(inputs, targets), contest)


@rubric.test(
    "train",
    points=3,
    visible=True,
    hint="Which of the three ways to mix tokens can keep a state? Does the loss on the training set fall at all?",
)
def labels_the_sequences_of_the_notebook(submission, rng):
    return held_to(submission, rng)


@rubric.test("train", points=12, visible=False, topic="hidden sequences")
def labels_hidden_sequences(submission, rng):
    return held_to(submission, rng)
