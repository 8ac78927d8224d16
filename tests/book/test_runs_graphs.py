"""The runs that chapter 18 shows: what they say comes out again, and their program runs for a step."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from lecturelib.data import draw_molecules
from lecturelib.models.graph_network import GraphNetwork, GraphNetworkConfig
from lecturelib.training import save_run, shipped_run

NAMES = ("cora", "cora_depth", "molecules")


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "graphs.py")


def cases(program: ModuleType, name: str, seeds: int) -> list[dict[str, object]]:
    """What a run has a row of, in order."""
    if name == "cora":
        return [{"kind": kind, "seed": seed} for seed in range(seeds) for kind in program.NETWORKS]
    if name == "cora_depth":
        kinds = [(depth, added) for depth in program.DEPTHS for added in (False, True) if depth > 2 or not added]
        return [{"depth": depth, "residual": added, "seed": seed} for seed in range(seeds) for depth, added in kinds]
    trained = [{"model": model, "seed": seed} for seed in range(seeds) for model in program.READERS_OF_ATOMS]
    return [{"model": "one answer for all"}, *trained]


@pytest.mark.parametrize("name", NAMES)
def test_run_says_how_it_was_made_and_has_a_row_for_each_training(program, name):
    run, steps, seeds = shipped_run(name), program.PROGRAMS[name].steps, program.PROGRAMS[name].seeds
    assert run.facts["command"] == f"python book/runs/graphs.py {name} --steps {steps} --seeds {seeds}"
    assert run.facts["seed"] == list(range(seeds))
    assert [row["case"] for row in run.rows] == cases(program, name, seeds)
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 1_000_000


def test_cora_run_measures_again_what_it_says(program):
    run = shipped_run("cora")
    configs = {kind: GraphNetworkConfig(**run.facts["config"][kind]) for kind in program.NETWORKS}
    assert configs == program.NETWORKS
    models = run.load_into(nn.ModuleDict({kind: GraphNetwork(config) for kind, config in configs.items()}))
    _, edges, _, nodes = program.papers()
    for row in run.rows[:2]:
        again, _ = program.judged(models[row["case"]["kind"]], edges, nodes.test)
        assert again == pytest.approx(row["test"], abs=2e-3), row


def test_budgets_are_equal_among_readers_of_molecules():
    sizes = {row["case"]["model"]: row["parameters"] for row in shipped_run("molecules").rows if "parameters" in row}
    assert len(sizes) == 6
    assert max(sizes.values()) < 1.1 * min(sizes.values())


def test_quick_network_is_the_same_network(program):
    """What is done for speed on Cora changes no output, and dropout leaves out as many words."""
    torch.manual_seed(0)
    words, edges, _, _ = program.papers()
    plain = GraphNetwork(program.NETWORKS["attention"]).eval()
    quick = program.quickly(GraphNetwork(program.NETWORKS["attention"])).eval()
    quick.load_state_dict(plain.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(quick(words, edges), plain(words, edges), atol=1e-5, rtol=1e-4)
    dropped = program.DropWords(0.6).train()(words)
    assert ((dropped == 0) | torch.isclose(dropped, words / 0.4)).all()
    assert float((dropped > 0).sum() / (words > 0).sum()) == pytest.approx(0.4, abs=0.02)


def test_molecules_are_given_to_both_kinds_of_network_alike(program):
    """A graph network reads all molecules as one graph: each alone must give the same."""
    batch = draw_molecules(3, seed=5)
    torch.manual_seed(0)
    model = program.build_reader(program.READERS_OF_ATOMS["GATv2"]).eval()
    with torch.no_grad():
        together = program.label_atoms(model, batch)
        for which in range(3):
            alone = program.Molecules(*(getattr(batch, name)[which : which + 1] for name in asdict(batch)))
            torch.testing.assert_close(program.label_atoms(model, alone)[0], together[which], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_run_can_be_started_again(program, name, monkeypatch, tmp_path, capsys):
    """One step of the same program, of one seed: it writes everything that the chapter reads."""
    monkeypatch.setattr(program, "POOL", 64)
    command = ["graphs.py", name, "--steps", "1", "--seeds", "1", "--runs", str(tmp_path)]
    monkeypatch.setattr("sys.argv", command)
    threads = torch.get_num_threads()
    program.main()
    torch.set_num_threads(threads)
    written, shipped = shipped_run(name, tmp_path), shipped_run(name)
    assert [row["case"] for row in written.rows] == cases(program, name, 1)
    assert set(written.rows[-1]) == set(shipped.rows[-1])
    assert "'seed': 0" in capsys.readouterr().out


def test_run_reuses_only_what_was_trained_alike(program, tmp_path):
    rows = [{"case": {"model": "no edges", "seed": 0}, "right": [0.75]}]
    facts = {"command": "python", "seed": [0], "config": {"steps": 7}, "torch": torch.__version__, "results": {}}
    save_run(tmp_path, facts, rows)
    assert program.stored_rows(tmp_path, {"steps": 7}, weights=False) == rows
    assert program.stored_rows(tmp_path, {"steps": 8}, weights=False) == []
    assert program.stored_rows(tmp_path, {"steps": 7}, weights=True) == []  # no weights beside them
