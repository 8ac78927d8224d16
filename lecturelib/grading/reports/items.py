"""The exercises under the magnifying glass: which tests were hard, which tell students apart, which mistakes recur."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import StatisticsError, correlation, mean, median

from lecturelib.grading.reports.page import number, page, table, text
from lecturelib.grading.rubric.outline import Outline
from lecturelib.grading.rubric.results import Graded, TestResult

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


def analyse(outline: Outline, graded: Sequence[Graded]) -> list[Item]:
    """One `Item` for each test, in the rubric's order; submissions that could not be read are left out."""
    tested = [row.result for row in graded if row.result.tests]
    results: dict[tuple[str, str], list[tuple[TestResult, float]]] = {}
    for result in tested:
        for answer in result.tests:
            results.setdefault((answer.exercise, answer.name), []).append((answer, result.earned - answer.earned))
    items = []
    for test in outline.tests:
        answers = results.get((test.exercise, test.name), [])
        passed = [float(answer.passed) for answer, _ in answers]
        items.append(
            Item(
                exercise=test.exercise,
                name=test.name,
                visible=test.visible,
                points=test.points,
                solved=sum(passed) / len(passed) if passed else math.nan,
                discrimination=_correlation(passed, [rest for _, rest in answers]),
                outcomes=Counter(answer.outcome for answer, _ in answers),
            )
        )
    return items


def _correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Pearson's r, or None where one side does not vary."""
    try:
        return correlation(xs, ys)
    except StatisticsError:
        return None


# What a message says went wrong, the first that fits; the numbers in it are one student's
KINDS = {
    "returns nothing": r"got none\b",
    "raises nothing, or something else": r"should raise|should mention",
    "no gradient": r"no gradient|cuts it",
    "NaN or infinity": r"\bnan\b|\binf(inity)?\b",
    "wrong shape": r"\bshape \(|\bshapes?\b.*expected|\blength\b.*expected",
    "wrong dtype": r"\bdtype\b|should hold|torch\.(u?int|b?float|bool|complex)",
    "wrong device": r"\bdevice\b",
    "wrong type": r"should be an? |should be (the )?(tensor|list|tuple|dict|number|string)|expected kind",
    "wrong gradient": r"\bgradient",
    "wrong values": r"\bdiffers?\b|\bexpected\b|\bshould be\b|\bwrong in\b|\bgot\b",
}
_NUMBERS = re.compile(r"[-+−]?\d[\d.,]*(?:e[-+]?\d+)?", re.IGNORECASE)


def kind_of(test: TestResult) -> str:
    """What went wrong, without the numbers of one student: the mistake's name, the exception, or the sort of answer."""
    if test.mistake:
        return test.mistake.replace("_", " ")
    if test.outcome == "error":
        raised = re.search(r"raised (\w+)", test.message)
        return f"raises {raised[1]}" if raised else "raises an error"
    if test.outcome != "fail":
        return test.outcome
    first = test.message.partition("\n")[0]
    where = test.name.replace("_", " ")
    kind = next((kind for kind, words in KINDS.items() if re.search(words, first, re.IGNORECASE)), None)
    return f"{kind}: {where}" if kind else _NUMBERS.sub("…", first)[:200] or where


def common_wrong_answers(graded: Sequence[Graded], most: int = 12) -> list[tuple[str, str, int, str]]:
    """(exercise, what went wrong, how many students, the hint they got), the most frequent first.

    A known mistake is counted under its name, anything else under what it is. A student counts once for each. What was
    not written at all is no wrong answer; the table of tests counts it.
    """
    counts: Counter[tuple[str, str]] = Counter()
    hints: dict[tuple[str, str], str] = {}
    for row in graded:
        wrong = [test for test in row.result.tests if test.outcome not in ("pass", "missing", "written")]
        keys = {(test.exercise, kind_of(test)): test for test in wrong}
        counts.update(keys.keys())
        hints.update({key: test.hint for key, test in keys.items()})
    return [(exercise, what, count, hints[exercise, what]) for (exercise, what), count in counts.most_common(most)]


def items_page(outline: Outline, graded: Sequence[Graded]) -> str:
    """The instructor's page: histogram, items, common wrong answers, slowest submissions."""
    unread = [row for row in graded if not row.result.tests]
    parts = [
        f"<h1>{text(outline.title)}: the exercises in numbers</h1>",
        f"<p>{len(graded)} submissions, {len(unread)} of them not graded. {_summary(outline, graded)}</p>",
        "<h2>Points</h2>",
        _histogram(outline, graded),
        "<h2>Tests</h2>",
        _items_table(analyse(outline, graded)),
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
    return page(f"{outline.title}: items", "\n".join(parts))


def _summary(outline: Outline, graded: Sequence[Graded]) -> str:
    if not graded:
        return ""
    scores = [row.points for row in graded]
    return f"Mean {number(mean(scores))}, median {number(median(scores))} of {number(outline.points)} points."


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


def _histogram(outline: Outline, graded: Sequence[Graded]) -> str:
    """Ten bars as SVG, with the counts as text, so that neither colour nor sight is needed."""
    counts = [0] * BINS
    for row in graded:
        share = row.points / outline.points if outline.points else 0.0
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
