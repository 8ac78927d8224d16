"""The committed runs of chapter 18: citations, and atoms some bonds away.

    python book/runs/graphs.py cora          # graph convolution and graph attention on Cora, ten seeds each
    python book/runs/graphs.py cora_depth    # graph convolutions of 2 to 16 layers, with residuals and without
    python book/runs/graphs.py molecules     # message passing against attention between all atoms

Each writes lecturelib/runs/NAME, a row of history for every model trained; all together take twenty minutes of one
core. What is in the history already is not trained again, so an interrupted run goes on where it stopped. In
`molecules` all models have the same steps and batches, and about as many parameters.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data import Molecules, Splits, cora, draw_molecules
from lecturelib.data.sets.molecules import ATOMS
from lecturelib.evaluation import count_parameters
from lecturelib.models.graph_network import CORA_ATTENTION, CORA_CONVOLUTION, GraphNetwork, GraphNetworkConfig
from lecturelib.models.graph_transformer import GraphTransformer, GraphTransformerConfig
from lecturelib.training import Cosine, TrainConfig, read_run, save_run, train

RUNS = Path(__file__).resolve().parents[2] / "lecturelib" / "runs"
Row = dict[str, Any]
Task = tuple[Row, Callable[[], tuple[Row, nn.Module | None]]]  # a case, and how to train and measure it

# Cora, with the settings of the two papers

NETWORKS = {"convolution": CORA_CONVOLUTION, "attention": CORA_ATTENTION}
RATES = {"convolution": 0.01, "attention": 0.005}


@cache
def papers() -> tuple[Tensor, Tensor, Tensor, Splits[Tensor]]:
    """Words (N, words) with rows that sum to one, edges in both directions, topics, and the parts of the split."""
    graph = cora()
    words = graph.features / graph.features.sum(dim=1, keepdim=True).clamp(min=1)
    return words, graph.neighbours, graph.labels, graph.nodes


class DropWords(nn.Dropout):
    """Dropout as it was, but of the words it draws only for those that a paper has: all others are zero anyhow."""

    def forward(self, x: Tensor) -> Tensor:
        """Shapes: any -> the same"""
        if not self.training or x is not papers()[0]:
            return super().forward(x)
        has = word_entries()
        return torch.zeros_like(x).index_put(has, F.dropout(x[has], self.p))


class WordLinear(nn.Linear):
    """A linear map of the words that multiplies only those that a paper has: the same numbers, a fifth of the time."""

    def forward(self, x: Tensor) -> Tensor:
        """Shapes: (N, words) -> (N, out)"""
        rows, columns = word_entries()
        begins = torch.searchsorted(rows, torch.arange(len(x)))  # where each paper's entries start
        said = F.embedding_bag(
            columns, self.weight.T.contiguous(), begins, mode="sum", per_sample_weights=x[rows, columns]
        )
        return said if self.bias is None else said + self.bias


def quickly(model: GraphNetwork) -> GraphNetwork:
    """The same network, which does nothing where a paper lacks a word."""
    model.dropout = DropWords(model.config.dropout)
    for name, part in list(model.layers[0].named_children()):
        if isinstance(part, nn.Linear):
            quick = WordLinear(part.in_features, part.out_features, bias=part.bias is not None)
            quick.load_state_dict(part.state_dict())
            setattr(model.layers[0], name, quick)
    return model


@cache
def word_entries() -> tuple[Tensor, ...]:
    """Rows and columns of the words that papers have: one entry in eighty."""
    return papers()[0].nonzero(as_tuple=True)


@torch.no_grad()
def judged(model: nn.Module, edges: Tensor, nodes: Tensor) -> tuple[float, float]:
    """The part of these papers whose topic the network finds, and its loss on them."""
    words, _, labels, _ = papers()
    logits = model.eval()(words, edges)[nodes]
    return float((logits.argmax(dim=1) == labels[nodes]).float().mean()), float(F.cross_entropy(logits, labels[nodes]))


def fit(model: GraphNetwork, edges: Tensor, steps: int) -> None:
    """Train on all of the graph at once; keep the weights of the step that was best on the validation papers.

    Weight decay is the papers' L2 penalty, on the first layer alone for convolutions.
    """
    words, _, labels, nodes = papers()
    rest = [weight for layer in model.layers[1:] for weight in layer.parameters()]
    decay = 5e-4 if model.config.layer != "convolution" else 0.0
    groups = [
        {"params": list(model.layers[0].parameters()), "weight_decay": 5e-4},
        {"params": rest, "weight_decay": decay},
    ]
    optimizer = torch.optim.Adam(groups, lr=RATES[model.config.layer])
    best, kept = (-1.0, 0.0), model.state_dict()
    for step in range(steps):
        loss = F.cross_entropy(model.train()(words, edges)[nodes.train], labels[nodes.train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            continue  # every other step is enough to find the best
        right, loss_there = judged(model, edges, nodes.validation)
        if (right, -loss_there) > best:
            best, kept = (right, -loss_there), {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(kept)


def on_cora(kind: str, seed: int, steps: int) -> tuple[GraphNetwork, Row]:
    """Train one network from one seed."""
    torch.manual_seed(seed)
    model, (_, edges, _, nodes) = quickly(GraphNetwork(NETWORKS[kind])), papers()
    fit(model, edges, steps)
    model = model.half().float()  # as weights are stored
    row = {
        "parameters": count_parameters(model),
        "validation": round(judged(model, edges, nodes.validation)[0], 4),
        "test": round(judged(model, edges, nodes.test)[0], 4),
    }
    return model, row


def cora_cases(steps: int, seeds: range) -> Iterator[Task]:
    first: dict[str, nn.Module] = {}

    def work(kind: str, seed: int) -> tuple[Row, nn.Module | None]:
        model, row = on_cora(kind, seed, steps)
        if seed == seeds[0]:
            first[kind] = model
        return row, nn.ModuleDict(first) if seed == seeds[0] and len(first) == len(NETWORKS) else None

    for seed in seeds:
        for kind in NETWORKS:
            yield {"kind": kind, "seed": seed}, partial(work, kind, seed)


# Cora again, deeper

DEPTHS = (2, 8, 16)
DEEP = replace(CORA_CONVOLUTION, dropout=0.0)


def depth_cases(steps: int, seeds: range) -> Iterator[Task]:
    def work(depth: int, residual: bool, seed: int) -> tuple[Row, None]:
        torch.manual_seed(seed)
        model, (_, edges, _, nodes) = GraphNetwork(replace(DEEP, num_layers=depth, residual=residual)), papers()
        fit(model, edges, steps)
        parts = {"train": nodes.train, "validation": nodes.validation, "test": nodes.test}
        return {name: round(judged(model, edges, part)[0], 4) for name, part in parts.items()}, None

    for seed in seeds:
        for depth in DEPTHS:
            for residual in (False, True) if depth > 2 else (False,):  # two layers have nothing to add one to
                case = {"depth": depth, "residual": residual, "seed": seed}
                yield case, partial(work, depth, residual, seed)


# Molecules

POOL = 16_384  # molecules to train on
WIDE = GraphTransformerConfig(input_dim=len(ATOMS), output_dim=8, d_model=48, d_ff=96)
READERS_OF_ATOMS: dict[str, GraphTransformerConfig | GraphNetworkConfig] = {
    "no edges": replace(WIDE, max_distance=0),
    "message passing": replace(WIDE, max_distance=1, reach=1),
    "message passing, 8 layers": replace(WIDE, max_distance=1, reach=1, d_model=36, d_ff=60, num_layers=8),
    "GATv2": GraphNetworkConfig(
        input_dim=len(ATOMS), num_classes=8, hidden_dim=136, num_heads=4, num_layers=4, layer="dynamic", dropout=0.0
    ),
    "edge bias": replace(WIDE, max_distance=1),
    "distance bias": WIDE,
}


def label_atoms(model: nn.Module, batch: Molecules) -> Tensor:
    """The model's answers as logits (B, N, K), whichever form it takes its graphs in."""
    x = F.one_hot(batch.atoms, len(ATOMS)).float()  # (B, N, atoms)
    if isinstance(model, GraphTransformer):
        return model(x, batch.distances)
    which, target, source = batch.bonds.nonzero().T
    start = which * x.shape[1]
    return model(x.flatten(0, 1), torch.stack([source, target]) + start).unflatten(0, x.shape[:2])


def build_reader(config: GraphTransformerConfig | GraphNetworkConfig) -> nn.Module:
    return GraphTransformer(config) if isinstance(config, GraphTransformerConfig) else GraphNetwork(config)


@torch.no_grad()
def read_atoms(model: nn.Module, batch: Molecules) -> list[float]:
    """The part of right answers at each number of bonds."""
    right = (label_atoms(model.eval(), batch) > 0) == (batch.targets > 0.5)
    return [round(value, 4) for value in right.float().mean(dim=(0, 1)).tolist()]


def molecule_cases(steps: int, seeds: range) -> Iterator[Task]:
    pool, test = draw_molecules(POOL, seed=1), draw_molecules(1000, seed=-1)

    def always() -> tuple[Row, None]:
        share = test.targets.mean(dim=(0, 1))
        return {"right": [round(value, 4) for value in torch.maximum(share, 1 - share).tolist()]}, None

    def batches(step: int, seed: int) -> Molecules:
        generator = torch.Generator().manual_seed(1_000_000 * (seed + 1) + step)
        chosen = torch.randint(len(pool.atoms), (32,), generator=generator)
        return Molecules(*(part[chosen] for part in (pool.atoms, pool.bonds, pool.distances, pool.targets)))

    def loss(model: nn.Module, batch: Molecules) -> Tensor:
        return F.binary_cross_entropy_with_logits(label_atoms(model, batch), batch.targets)

    def work(name: str, seed: int) -> tuple[Row, None]:
        torch.manual_seed(seed)
        model = build_reader(READERS_OF_ATOMS[name])
        schedule = Cosine(steps=steps, warmup=steps // 20)
        plan = TrainConfig(steps=steps, learning_rate=3e-3, schedule=schedule, seed=seed, device="cpu")
        if train(model, partial(batches, seed=seed), loss, plan).stop == "interrupted":
            raise KeyboardInterrupt  # half a training is no measurement
        return {"parameters": count_parameters(model), "right": read_atoms(model, test)}, None

    yield {"model": "one answer for all"}, always
    for seed in seeds:
        for name in READERS_OF_ATOMS:
            yield {"model": name, "seed": seed}, partial(work, name, seed)


@dataclass(frozen=True)
class Program:
    """What a run trains, how long, with how many seeds, and what to store as its config."""

    cases: Callable[[int, range], Iterator[Task]]
    steps: int
    seeds: int
    config: Row


PROGRAMS = {
    "cora": Program(cora_cases, 150, 10, {kind: asdict(config) for kind, config in NETWORKS.items()}),
    "cora_depth": Program(depth_cases, 100, 3, {"network": asdict(DEEP), "depths": list(DEPTHS)}),
    "molecules": Program(molecule_cases, 1000, 2, {name: asdict(config) for name, config in READERS_OF_ATOMS.items()}),
}


def stored_rows(folder: Path, config: Row, *, weights: bool) -> list[Row]:
    """What an earlier run with the same models, steps and torch has measured: each seed is a training of its own."""
    if not (folder / "run.json").exists() or (weights and not (folder / "weights.safetensors").exists()):
        return []
    run = read_run(folder)
    return run.rows if (run.facts["config"], run.facts["torch"]) == (config, torch.__version__) else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--steps", type=int, help="of each training (default: what the chapter shows)")
    parser.add_argument("--seeds", type=int, help="how many, from 0 on")
    parser.add_argument("--runs", type=Path, default=RUNS, help="where the folder of the run goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    program, folder = PROGRAMS[arguments.name], arguments.runs / arguments.name
    steps, seeds = arguments.steps or program.steps, range(arguments.seeds or program.seeds)
    command = f"python book/runs/graphs.py {arguments.name} --steps {steps} --seeds {len(seeds)}"
    config = program.config | {"steps": steps}
    stored, rows = stored_rows(folder, config, weights=arguments.name == "cora"), []
    for case, work in program.cases(steps, seeds):
        found = next((row for row in stored if row["case"] == case), None)
        row, model = (found, None) if found else work()
        rows.append({"case": case} | row)
        print(rows[-1], flush=True)
        facts = {
            "command": command,
            "seed": list(seeds),
            "config": config,
            "torch": torch.__version__,
            "results": {"trained": len(rows)},
        }
        save_run(folder, facts, rows, model)


if __name__ == "__main__":
    main()
