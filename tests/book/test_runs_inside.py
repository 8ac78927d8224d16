"""The runs of chapter 20: what they say is what their programs build, and the programs run for a step."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
import torch
from torch.testing import assert_close

from lecturelib.data import FetchError, Splits, minilm, smollm2
from lecturelib.data.store import fetching
from lecturelib.evaluation import head_averages, patched
from lecturelib.layers import QuantisedLinear
from lecturelib.models import Llama, LlamaConfig
from lecturelib.training import shipped_run


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> Callable[[str], ModuleType]:
    """The program that made a run, by the run's name."""
    return lambda name: load_script(root / "book" / "runs" / f"{name}.py")


@pytest.mark.parametrize("name", ["five_changes", "inside_smollm2", "ask_the_book"])
def test_run_is_small_and_says_how_to_repeat_it(name):
    run = shipped_run(name)
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 500_000
    assert run.facts["command"].startswith(f"python book/runs/{name}.py")


def test_five_changes_end_at_a_llama(program):
    made_by = program("five_changes")
    sizes = made_by.SIZES | {"vocab_size": 13}
    llama = Llama(LlamaConfig(**sizes, num_kv_heads=made_by.NUM_KV_HEADS)).eval()
    changed = made_by.build(13, 5, seed=0).eval()
    weights = changed.state_dict()
    llama.load_state_dict(weights)
    tokens = torch.randint(13, (2, 7))
    assert_close(llama(tokens), changed(tokens))


def test_five_changes_are_those_that_the_run_counted(program):
    made_by, run = program("five_changes"), shipped_run("five_changes")
    for row in run.rows:
        model = made_by.build(run.facts["config"]["vocab_size"], row["changes"], row["seed"])
        assert sum(p.numel() for p in model.parameters()) == row["parameters"], row["name"]
        assert made_by.kept_per_token(model) == row["kept_per_token"]
        assert made_by.CHANGES[row["changes"]] == row["name"]
    assert {(row["changes"], row["seed"]) for row in run.rows} == {
        (changes, seed) for changes in range(6) for seed in run.facts["seed"]
    }


def test_five_changes_can_be_trained_again(program, monkeypatch, tmp_path, capsys):
    made_by = program("five_changes")
    text = "To be, or not to be, that is the question. " * 30
    monkeypatch.setattr(made_by, "shakespeare", lambda: Splits(text, text, text * 8))
    monkeypatch.setattr(made_by, "SIZES", made_by.SIZES | {"d_model": 24, "num_layers": 1})
    folder = tmp_path / "run"
    for _ in range(2):  # what is there already is not trained again
        monkeypatch.setattr("sys.argv", ["five_changes.py", "--steps", "1", "--seeds", "3", "--folder", str(folder)])
        made_by.main()
    rows = shipped_run("run", tmp_path).rows
    assert [row["name"] for row in rows] == list(made_by.CHANGES)
    assert capsys.readouterr().out.count("\n") == 6


@torch.no_grad()
def test_patching_measures_the_share_of_the_difference(program):
    made_by = program("inside_smollm2")
    torch.manual_seed(2)
    model = Llama(LlamaConfig(vocab_size=11, max_len=9, d_model=24, num_heads=4, num_kv_heads=2, num_layers=2)).eval()
    for parameter in model.parameters():
        parameter.data *= 8
    clean = torch.tensor([[1, 2, 3, 4, 5], [6, 2, 3, 1, 5]])
    other = clean.clone()
    other[:, 3] = torch.tensor([9, 7])
    prompts = made_by.Prompts(clean, other, torch.tensor([2, 3]), torch.tensor([4, 8]))
    effects = made_by.patching(model, prompts, range(1, 2))
    before, after = (float(made_by.margins(model, texts, prompts).mean()) for texts in (clean, other))
    averages = head_averages(model, other)
    with patched(model, {(1, 2): averages[1, :, :, 2]}):
        now = float(made_by.margins(model, clean, prompts).mean())
    assert effects[0][2] == pytest.approx((before - now) / (before - after), abs=1e-4)
    assert len(effects[0]) == 4


def test_the_model_run_has_every_measurement(program):
    made_by, run = program("inside_smollm2"), shipped_run("inside_smollm2")
    wanted = {"patching", "position", *(f"{bits} bits" for bits in made_by.BITS)}
    wanted |= {f"{task}, {shots} shown" for task in made_by.TASKS for shots in made_by.SHOTS}
    wanted |= {f"rounded to {bits} bits" for bits in made_by.FEWER}
    wanted |= {"without induction heads", *(f"without other heads, draw {draw}" for draw in range(made_by.DRAWS))}
    wanted |= {f"sums of {digits} digits" for digits in (1, 2, 3)}
    assert {row["name"] for row in run.rows} == wanted
    assert all(len(words.split()) == 32 for words in made_by.TASKS.values())


def test_control_heads_are_others_of_the_same_layers(program):
    made_by = program("inside_smollm2")
    heads = [(2, 0), (2, 3), (1, 4), (2, 1)]
    draws = [made_by.others(heads, num_heads=7, seed=seed) for seed in range(5)]
    for drawn in draws:
        assert [layer for layer, _ in drawn] == [layer for layer, _ in heads]
        assert len({*heads, *drawn}) == 8
    assert len({tuple(drawn) for drawn in draws}) > 1
    run = {row["name"]: row for row in shipped_run("inside_smollm2").rows}
    off = [tuple(head) for head in run["without induction heads"]["heads"]]
    for draw in range(made_by.DRAWS):
        row = run[f"without other heads, draw {draw}"]
        assert row["heads"] == [list(head) for head in made_by.others(off, num_heads=9, seed=draw)]


def test_rounding_keeps_what_a_stored_layer_holds_and_leaves_four_values_in_two_bits(program):
    made_by = program("inside_smollm2")
    torch.manual_seed(3)
    model = Llama(LlamaConfig(vocab_size=11, max_len=9, d_model=32, num_heads=4, num_kv_heads=2, num_layers=1, d_ff=64))
    weight = model.blocks[0].feed_forward.narrow.weight
    stored = QuantisedLinear(model.blocks[0].feed_forward.narrow, bits=4).weight()
    table = model.token_embedding.weight.clone()
    weight.data.copy_(stored)
    made_by.round_weights(model, 4)
    assert_close(weight.detach(), stored, atol=1e-4, rtol=0)
    assert_close(model.token_embedding.weight, table)
    made_by.round_weights(model, 2)
    assert all(len(block.unique()) <= 4 for block in weight.detach().view(-1, 32).mul(1e5).round())


def test_index_has_a_vector_for_each_section_of_the_book(program, root):
    made_by, run = program("ask_the_book"), shipped_run("ask_the_book")
    vectors = run.load_into(made_by.Index(torch.zeros(len(run.rows), run.facts["config"]["d_model"]))).vectors
    assert_close(vectors.norm(dim=1), torch.ones(len(run.rows)), atol=2e-3, rtol=0)
    stored = {(row["file"], row["heading"]) for row in run.rows}
    now = {
        (row["file"], row["heading"])
        for notebook in (root / "book").glob("[0-9]*.ipynb")
        for row in made_by.sections(notebook)
    }
    known = {file for file, _ in stored}
    now = {section for section in now if section[0] in known}  # chapters written since wait for the next index
    assert len(stored & now) > 0.9 * len(now), "many headings have changed: python book/runs/ask_the_book.py"


def test_index_reads_words_and_no_markup(program):
    text = "(al-x)=\n## Heads\nSee [chapter 8](08_a.ipynb), {eq}`al-eq` and *this*:\n$$\na + b\n$$ (al-eq)\n$D$."
    assert program("ask_the_book").plain(text) == "Heads See chapter 8, and this : D ."


@pytest.mark.parametrize("weights", [smollm2, minilm])
def test_without_weights_and_network_the_chapter_stops_in_words_and_its_outputs_stand(
    weights, root, monkeypatch, tmp_path
):
    def nobody_answers(archive, folder):
        raise FetchError(f"{archive.where} does not answer")

    monkeypatch.setattr(fetching, "bring", nobody_answers)
    monkeypatch.setenv("LECTURELIB_CACHE", str(tmp_path))
    monkeypatch.delenv("LECTURELIB_DATA", raising=False)
    with pytest.raises(FetchError, match=r"does not answer.*try again when the connection is back"):
        weights()
    cells = nbformat.read(root / "book" / "20_inside_a_model.ipynb", as_version=4).cells
    assert any("Without the file and without a network" in cell.source for cell in cells[:4])
    loading = next(cell for cell in cells if cell.cell_type == "code" and f"{weights.__name__}()" in cell.source)
    after = [cell for cell in cells[cells.index(loading) :] if cell.cell_type == "code"]
    assert sum(bool(cell.outputs) for cell in after) >= 3
