"""The committed runs of chapter 18: citations, depth, sets of digits, and atoms some bonds away.

    python book/runs/graphs.py cora          # four networks on Cora, ten seeds each
    python book/runs/graphs.py cora_depth    # graph convolutions from 2 to 32 layers, with residuals and without
    python book/runs/graphs.py digit_sets    # sum and maximum of a set of digits
    python book/runs/graphs.py molecules     # message passing against attention between all atoms

Each writes lecturelib/runs/NAME, a row of history for every model trained; all together take about half an hour of one
core. Within a run all models have the same steps and batches, and about as many parameters.
"""

import argparse
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data import DigitSets, Images, Molecules, Splits, cora, digit_sets, digits, draw_molecules
from lecturelib.data.sets.molecules import ATOMS
from lecturelib.evaluation import count_parameters
from lecturelib.layers import LSTM, Recurrent
from lecturelib.models.graph_network import CORA_ATTENTION, CORA_CONVOLUTION, GraphNetwork, GraphNetworkConfig
from lecturelib.models.graph_transformer import GraphTransformer, GraphTransformerConfig
from lecturelib.models.sets import DeepSets, DeepSetsConfig, SetTransformer, SetTransformerConfig
from lecturelib.training import Cosine, TrainConfig, save_run, train

RUNS = Path(__file__).resolve().parents[2] / "lecturelib" / "runs"
Row = dict[str, Any]

# Cora: the settings of the two papers; "words" is the convolution on a graph without edges.

NETWORKS = {
    "words": CORA_CONVOLUTION,
    "convolution": CORA_CONVOLUTION,
    "attention": CORA_ATTENTION,
    "dynamic": replace(CORA_ATTENTION, layer="dynamic"),
}
RATES = {"convolution": 0.01, "attention": 0.005, "dynamic": 0.005}
DEPTHS = (2, 4, 8, 16, 32)


@cache
def papers() -> tuple[Tensor, Tensor, Tensor, Splits[Tensor]]:
    """Words (N, words) with rows that sum to one, edges in both directions, topics, and the parts of the split."""
    graph = cora()
    words = graph.features / graph.features.sum(dim=1, keepdim=True).clamp(min=1)
    return words, graph.neighbours, graph.labels, graph.nodes


def edges_of(kind: str) -> Tensor:
    """The graph that a network sees: none of it if it reads words alone."""
    edges = papers()[1]
    return edges[:, :0] if kind == "words" else edges


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
    for _ in range(steps):
        loss = F.cross_entropy(model.train()(words, edges)[nodes.train], labels[nodes.train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right, loss_there = judged(model, edges, nodes.validation)
        if (right, -loss_there) > best:
            best, kept = (right, -loss_there), {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(kept)


@torch.no_grad()
def likeness(model: GraphNetwork, edges: Tensor) -> float:
    """The mean cosine between the features of two papers before the last layer; 1 if all are alike, or zero."""
    features = F.normalize(model.eval().features(papers()[0], edges), dim=1)
    return float(features.mean(dim=0).square().sum()) if features.any() else 1.0


def on_cora(config: GraphNetworkConfig, kind: str, seed: int, steps: int) -> tuple[GraphNetwork, Row]:
    """Train one network from one seed."""
    torch.manual_seed(seed)
    model, edges = GraphNetwork(config), edges_of(kind)
    fit(model, edges, steps)
    model = model.half().float()  # as weights are stored
    nodes = papers()[3]
    row = {
        "parameters": count_parameters(model),
        "validation": round(judged(model, edges, nodes.validation)[0], 4),
        "test": round(judged(model, edges, nodes.test)[0], 4),
        "likeness": round(likeness(model, edges), 4),
    }
    return model, row


def run_cora(steps: int, seeds: range, keep: Callable[..., None]) -> None:
    first: dict[str, nn.Module] = {}
    rows: list[Row] = []
    for seed in seeds:
        for kind, config in NETWORKS.items():
            model, row = on_cora(config, kind, seed, steps)
            rows.append({"case": {"kind": kind, "seed": seed}} | row)
            if seed == seeds[0] and kind != "words":
                first[kind] = model
            keep(rows, {kind: asdict(config) for kind, config in NETWORKS.items()}, nn.ModuleDict(first))


def run_cora_depth(steps: int, seeds: range, keep: Callable[..., None]) -> None:
    rows: list[Row] = []
    for seed in seeds:
        for depth in DEPTHS:
            for residual in (False, True):
                config = replace(CORA_CONVOLUTION, num_layers=depth, residual=residual)
                _, row = on_cora(config, "convolution", seed, steps)
                rows.append({"case": {"depth": depth, "residual": residual, "seed": seed}} | row)
                keep(rows, asdict(CORA_CONVOLUTION), None)


# Sets of digits


class ReadInOrder(nn.Module):
    """An LSTM that reads the elements one after another: it depends on their order, and has to learn not to."""

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(input_dim, hidden_dim), nn.ReLU())
        self.recurrent = Recurrent(LSTM, hidden_dim, hidden_dim)
        self.output = nn.Linear(hidden_dim, 1)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Shapes: x (B, T, in), lengths (B,) -> (B, 1)"""
        _, states = self.recurrent(self.embed(x), lengths)
        return self.output(states[-1][0])


READERS: dict[str, Callable[[], nn.Module]] = {
    "deep sets, sum": lambda: DeepSets(DeepSetsConfig(input_dim=64, output_dim=1, hidden_dim=128)),
    "deep sets, max": lambda: DeepSets(DeepSetsConfig(input_dim=64, output_dim=1, hidden_dim=128, pooling="max")),
    "set transformer": lambda: SetTransformer(SetTransformerConfig(input_dim=64, output_dim=1, d_model=48)),
    "LSTM": lambda: ReadInOrder(64, 68),
}
SET_SIZES = (5, 10, 20, 40)
SET_RATES = (1e-3, 3e-3)
TASKS = ("sum", "maximum")


def answer(batch: DigitSets, task: str) -> Tensor:
    """What is asked of each set."""
    return (batch.sums if task == "sum" else batch.maxima).float()


@torch.no_grad()
def read_sets(model: nn.Module, images: Images, task: str, num_digits: int) -> tuple[float, float, float]:
    """Of 1,000 sets: the part that is right when rounded, the mean error, and how far a shuffle moves the answer."""
    batch = digit_sets(images, 1000, sizes=(num_digits, num_digits), seed=-1)
    said = 10 * model.eval()(batch.x, batch.lengths).squeeze(1)
    shuffled = 10 * model(batch.x.flip(1), batch.lengths).squeeze(1)
    error = (said - answer(batch, task)).abs()
    moved = (said - shuffled).abs().mean()
    return tuple(round(float(value), 4) for value in ((error < 0.5).float().mean(), error.mean(), moved))  # type: ignore[return-value]


def run_digit_sets(steps: int, seeds: range, keep: Callable[..., None]) -> None:
    data = digits()
    rows: list[Row] = []
    for seed in seeds:
        for task in TASKS:
            for name, build in READERS.items():
                tried: list[tuple[float, float, nn.Module]] = []
                for rate in SET_RATES:
                    torch.manual_seed(seed)
                    model = build()

                    def batches(step: int, seed: int = seed) -> DigitSets:
                        return digit_sets(data.train, 64, seed=1_000_000 * (seed + 1) + step)

                    def loss(model: nn.Module, batch: DigitSets, task: str = task) -> Tensor:
                        return F.l1_loss(model(batch.x, batch.lengths).squeeze(1), answer(batch, task) / 10)

                    plan = TrainConfig(
                        steps=steps, learning_rate=rate, schedule=Cosine(steps=steps), seed=seed, device="cpu"
                    )
                    train(model, batches, loss, plan)
                    tried.append((read_sets(model, data.validation, task, 10)[1], rate, model))
                _, rate, model = min(tried, key=lambda one: one[0])  # on validation pictures
                row = {"case": {"task": task, "model": name, "seed": seed}, "learning_rate": rate}
                row |= {"parameters": count_parameters(model)}
                for num_digits in SET_SIZES:
                    right, error, moved = read_sets(model, data.test, task, num_digits)
                    row |= {f"right_{num_digits}": right, f"error_{num_digits}": error, f"moved_{num_digits}": moved}
                rows.append(row)
                keep(rows, {"sizes": [1, 10], "rates": list(SET_RATES)}, None)


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


def run_molecules(steps: int, seeds: range, keep: Callable[..., None]) -> None:
    pool, test = draw_molecules(POOL, seed=1), draw_molecules(1000, seed=-1)
    share = test.targets.mean(dim=(0, 1))
    always = [round(value, 4) for value in torch.maximum(share, 1 - share).tolist()]
    rows: list[Row] = [{"case": {"model": "one answer for all"}, "right": always}]
    for seed in seeds:
        for name, config in READERS_OF_ATOMS.items():
            torch.manual_seed(seed)
            model = build_reader(config)

            def batches(step: int, seed: int = seed) -> Molecules:
                generator = torch.Generator().manual_seed(1_000_000 * (seed + 1) + step)
                chosen = torch.randint(len(pool.atoms), (32,), generator=generator)
                return Molecules(*(part[chosen] for part in (pool.atoms, pool.bonds, pool.distances, pool.targets)))

            def loss(model: nn.Module, batch: Molecules) -> Tensor:
                return F.binary_cross_entropy_with_logits(label_atoms(model, batch), batch.targets)

            schedule = Cosine(steps=steps, warmup=steps // 20)
            train(model, batches, loss, TrainConfig(steps=steps, learning_rate=3e-3, schedule=schedule, seed=seed))
            rows.append({"case": {"model": name, "seed": seed}, "parameters": count_parameters(model)})
            rows[-1] |= {"right": read_atoms(model, test)}
            keep(rows, {name: asdict(config) for name, config in READERS_OF_ATOMS.items()}, None)


PROGRAMS: dict[str, tuple[Callable[..., None], int, int]] = {  # what to do, steps of each training, seeds
    "cora": (run_cora, 300, 10),
    "cora_depth": (run_cora_depth, 300, 3),
    "digit_sets": (run_digit_sets, 1500, 3),
    "molecules": (run_molecules, 2000, 3),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--steps", type=int, help="of each training (default: what the chapter shows)")
    parser.add_argument("--seeds", type=int, help="how many, from 0 on")
    parser.add_argument("--runs", type=Path, default=RUNS, help="where the folder of the run goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    program, steps, seeds = PROGRAMS[arguments.name]
    steps, chosen = arguments.steps or steps, range(arguments.seeds or seeds)

    def keep(rows: list[Row], config: Row, model: nn.Module | None) -> None:
        print(rows[-1], flush=True)
        facts = {
            "command": f"python book/runs/graphs.py {arguments.name} --steps {steps} --seeds {len(chosen)}",
            "seed": list(chosen),
            "config": config | {"steps": steps},
            "torch": torch.__version__,
            "results": {"trained": len(rows)},
        }
        save_run(arguments.runs / arguments.name, facts, rows, model)

    program(steps, chosen, keep)


if __name__ == "__main__":
    main()
