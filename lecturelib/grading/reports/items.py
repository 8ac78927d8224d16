"""The exercises under the magnifying glass: which tests were hard, which tell students apart, which mistakes recur."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lecturelib.grading.reports.page import number, page, table, text
from lecturelib.grading.rubric.results import Graded, TestResult
from lecturelib.grading.rubric.rubric import Rubric

BINS = 10


@dataclass(frozen=True, kw_only=True)
class Item:
    """One test over all submissions.

    Args:
        solved: fraction of submissions that pass it; a low one is a hard test
        discrimination: correlation of passing it with the points on all *other* tests; near zero or negative, the
            test does not measure what the rest does. None where everybody or nobody passes.
        outcomes: how often each outcome came
    """

    exercise: str
    name: str
    visible: bool
    points: float
    solved: float
    discrimination: float | None
    outcomes: Counter[str]


def analyse(rubric: Rubric, graded: Sequence[Graded]) -> list[Item]:
    """One `Item` for each test, in the rubric's order; submissions that could not be read are left out."""
    tested = [row.result for row in graded if row.result.tests]
    results: dict[tuple[str, str], list[tuple[TestResult, float]]] = {}
    for result in tested:
        for answer in result.tests:
            results.setdefault((answer.exercise, answer.name), []).append((answer, result.earned - answer.earned))
    items = []
    for test in rubric.tests:
        answers = results.get((test.exercise, test.name), [])
        passed = [float(answer.passed) for answer, _ in answers]
        items.append(
            Item(
                exercise=test.exercise,
                name=test.name,
                visible=test.visible,
                points=test.points,
                solved=sum(passed) / len(passed) if passed else math.nan,
                discrimination=correlation(passed, [rest for _, rest in answers]),
                outcomes=Counter(answer.outcome for answer, _ in answers),
            )
        )
    return items


def correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Pearson's r, or None where one side does not vary."""
    n = len(xs)
    if n < 2:
        return None
    mean_x, mean_y = sum(xs) / n, sum(ys) / n
    spread_x = sum((x - mean_x) ** 2 for x in xs)
    spread_y = sum((y - mean_y) ** 2 for y in ys)
    if spread_x * spread_y < 1e-12:
        return None
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / math.sqrt(spread_x * spread_y)


def common_wrong_answers(graded: Sequence[Graded], most: int = 12) -> list[tuple[str, str, int, str]]:
    """(exercise, what went wrong, how many students, the hint they got), the most frequent first.

    A known mistake is counted under its name, anything else under its message. A student counts once for each. What was
    not written at all is no wrong answer; the table of tests counts it.
    """
    counts: Counter[tuple[str, str]] = Counter()
    hints: dict[tuple[str, str], str] = {}
    for row in graded:
        wrong = [test for test in row.result.tests if test.outcome not in ("pass", "missing")]
        keys = {(test.exercise, test.mistake.replace("_", " ") or test.message or test.outcome): test for test in wrong}
        counts.update(keys.keys())
        hints.update({key: test.hint for key, test in keys.items()})
    return [(exercise, what, count, hints[exercise, what]) for (exercise, what), count in counts.most_common(most)]


def items_page(rubric: Rubric, graded: Sequence[Graded]) -> str:
    """The instructor's page: histogram, items, common wrong answers, slowest submissions."""
    unread = [row for row in graded if not row.result.tests]
    parts = [
        f"<h1>{text(rubric.title)}: the exercises in numbers</h1>",
        f"<p>{len(graded)} submissions, {len(unread)} of them not graded. {_summary(rubric, graded)}</p>",
        "<h2>Points</h2>",
        _histogram(rubric, graded),
        "<h2>Tests</h2>",
        _items_table(analyse(rubric, graded)),
        "<p>Solved is the fraction of graded submissions that pass the test. Discrimination is the correlation of "
        "passing it with the points on all other tests: near zero or below, look at the test.</p>",
        "<h2>Common wrong answers</h2>",
        table(
            "Most frequent first; a student counts once for each",
            ["exercise", "what went wrong", "students", "hint given"],
            [[text(e), text(w, 300), str(n), text(h, 300)] for e, w, n, h in common_wrong_answers(graded)],
            frozenset({2}),
        ),
        "<h2>Slowest submissions</h2>",
        table(
            "Seconds to grade",
            ["student", "seconds"],
            [
                [text(row.student), f"{row.result.seconds:.1f}"]
                for row in sorted(graded, key=lambda row: -row.result.seconds)[:10]
            ],
            frozenset({1}),
        ),
    ]
    if unread:
        rows = [[text(row.student), text(row.path), text(row.result.reason)] for row in unread]
        parts += ["<h2>Not graded</h2>", table("Submissions with no tests run", ["student", "path", "reason"], rows)]
    return page(f"{rubric.title}: items", "\n".join(parts))


def _summary(rubric: Rubric, graded: Sequence[Graded]) -> str:
    if not graded:
        return ""
    scores = sorted(row.result.earned for row in graded)
    middle = len(scores) // 2
    median = scores[middle] if len(scores) % 2 else (scores[middle - 1] + scores[middle]) / 2
    mean = sum(scores) / len(scores)
    return f"Mean {number(mean)}, median {number(median)} of {number(rubric.points)} points."


def _items_table(items: list[Item]) -> str:
    rows = []
    for item in items:
        outcomes = ", ".join(f"{count} {name}" for name, count in item.outcomes.most_common())
        solved = "–" if math.isnan(item.solved) else f"{item.solved:.0%}"
        told = "–" if item.discrimination is None else f"{item.discrimination:+.2f}"
        name = f"{text(item.name.replace('_', ' '))}{'' if item.visible else ' (hidden)'}"
        rows.append([text(item.exercise), name, number(item.points), solved, told, text(outcomes)])
    columns = ["exercise", "test", "points", "solved", "discrimination", "outcomes"]
    return table("One row for each test", columns, rows, frozenset({2, 3, 4}))


def _histogram(rubric: Rubric, graded: Sequence[Graded]) -> str:
    """Ten bars as SVG, with the counts as text, so that neither colour nor sight is needed."""
    counts = [0] * BINS
    for row in graded:
        share = row.result.earned / rubric.points if rubric.points else 0.0
        counts[min(int(share * BINS), BINS - 1)] += 1
    tallest = max([*counts, 1])
    bars = []
    for index, count in enumerate(counts):
        x, height = 10 + index * 56, 120 * count / tallest
        bars.append(
            f'<rect x="{x}" y="{140 - height:.1f}" width="48" height="{height:.1f}" fill="var(--bar)"/>'
            f'<text x="{x + 24}" y="{134 - height:.1f}" text-anchor="middle">{count}</text>'
            f'<text x="{x + 24}" y="158" text-anchor="middle">{index * 10}–{index * 10 + 10}%</text>'
        )
    said = ", ".join(f"{count} between {i * 10} and {i * 10 + 10} percent" for i, count in enumerate(counts) if count)
    return (
        f'<svg role="img" aria-label="Histogram of points: {text(said)}" viewBox="0 0 580 165" width="580" '
        f'font-size="12" fill="currentColor">{"".join(bars)}</svg>'
    )
