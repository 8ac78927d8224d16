"""Code in common is found whatever the names are, and what was handed out is nobody's copy."""

import json

import nbformat
import pytest

from lecturelib.cli import main
from lecturelib.grading.reports.similarity import similar_pairs

STARTER = """
def load(path, limit=None):
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            rows.append([float(cell) for cell in line.split(",")])
            if limit is not None and len(rows) >= limit:
                break
    return rows
"""
COPIED = """
def attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    top = scores.max(dim=-1, keepdim=True).values
    weights = (scores - top).exp()
    total = weights.sum(dim=-1, keepdim=True)
    for row in range(weights.shape[0]):
        weights[row] = weights[row] / total[row]
    return weights @ value, weights
"""
OWN = """
def attention(q, k, v, mask=None):
    s = torch.einsum("bqd,bkd->bqk", q, k) * q.size(2) ** -0.5
    w = torch.softmax(s if mask is None else torch.where(mask, s, -torch.inf), 2)
    return torch.bmm(w, v), w
class Layer(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.parts = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(4))
        self.heads = heads
"""
NAMES = {
    "query": "aa",
    "key": "bb",
    "value": "cc",
    "scores": "dd",
    "weights": "ee",
    "total": "ff",
    "row": "g",
    "top": "t",
}


def renamed(source: str) -> str:
    for old, new in NAMES.items():
        source = source.replace(old, new)
    return source.replace("0.5", "1 / 2").replace("\n    for", "\n    # my own idea\n    for")


def test_renamed_copy_is_found_and_starter_code_is_not():
    class_ = {"ada": [STARTER, COPIED], "bo": [renamed(COPIED)], "cy": [STARTER, OWN], "di": [STARTER]}
    (pair,) = similar_pairs(class_, [STARTER])
    assert {pair.one, pair.other} == {"ada", "bo"}
    assert pair.share > 0.7
    assert "scores" in pair.lines
    without = {frozenset((pair.one, pair.other)) for pair in similar_pairs(class_)}
    assert frozenset(("cy", "di")) in without  # that is why the starter code is left out


def test_what_most_of_a_large_class_has_is_nobodys_copy():
    class_ = {f"s{i:02}": [COPIED] for i in range(12)}
    assert similar_pairs(class_) == []
    few = {f"s{i:02}": [COPIED] if i < 3 else [OWN.replace("4", "4 + " * i + "4")] for i in range(12)}
    assert {(pair.one, pair.other) for pair in similar_pairs(few)} >= {("s00", "s01"), ("s00", "s02"), ("s01", "s02")}


@pytest.mark.parametrize("source", ["", "def (", "x = '", "\t\x00", "(" * 5000, "é = 1\n" * 3])
def test_whatever_stands_in_a_cell_is_compared_or_passed_over(source):
    assert similar_pairs({"ada": [source], "bo": [source]}) == []


def test_command_writes_one_page_that_runs_nothing(tmp_path, capsys):
    evil = COPIED.replace("scores", "scripts") + '\n"""</pre><script>alert(1)</script>"""\n'
    for student, source in {"ada": evil, "bo": renamed(evil), "cy": OWN}.items():
        cells = [nbformat.v4.new_code_cell(STARTER), nbformat.v4.new_code_cell(source)]
        (tmp_path / "in" / student).mkdir(parents=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "in" / student / "x.ipynb")
    (tmp_path / "in" / "di").mkdir()
    (tmp_path / "in" / "di" / "x.ipynb").write_text(json.dumps([]))
    nbformat.write(nbformat.v4.new_notebook(cells=cells[:1]), tmp_path / "starter.ipynb")
    out = tmp_path / "similar.html"
    assert (
        main(["similarity", str(tmp_path / "in"), "--out", str(out), "--starter", str(tmp_path / "starter.ipynb")]) == 0
    )
    assert "3 submissions compared, 1 pair is similar" in capsys.readouterr().out
    page = out.read_text()
    assert "<script>" not in page
    assert "cannot be read: di" in page
