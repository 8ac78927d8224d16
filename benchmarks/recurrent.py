"""Our recurrent runner against torch.nn's, forward and backward: `python benchmarks/recurrent.py`."""

import argparse
from collections.abc import Callable

import torch
from measure import Comparison, compare, report
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lecturelib.layers.cells import GRU, LSTM, RNN, Cell
from lecturelib.layers.recurrent import Recurrent
from lecturelib.models import load

KINDS: dict[str, tuple[type[Cell], type[nn.RNNBase]]] = {
    "RNN": (RNN, nn.RNN),
    "LSTM": (LSTM, nn.LSTM),
    "GRU": (GRU, nn.GRU),
}


def training_step(outputs: Callable[[], Tensor], module: nn.Module) -> Callable[[], None]:
    def step() -> None:
        outputs().square().mean().backward()
        module.zero_grad()

    return step


def one(
    kind: str, *, batch: int, length: int, width: int, layers: int, both: bool, padded: bool, rounds: int
) -> Comparison:
    cell, peer = KINDS[kind]
    theirs = peer(width, width, num_layers=layers, bidirectional=both, batch_first=True)
    ours = load(Recurrent(cell, width, width, num_layers=layers, bidirectional=both), theirs)
    x = torch.randn(batch, length, width)
    lengths = torch.linspace(1, length, batch).long() if padded else None

    def run_theirs() -> Tensor:
        if lengths is None:
            return theirs(x)[0]
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(theirs(packed)[0], batch_first=True, total_length=length)[0]

    def run_ours() -> Tensor:
        return ours(x, lengths)[0]

    torch.testing.assert_close(run_ours(), run_theirs())
    ways = {
        "lecturelib": training_step(run_ours, ours),
        f"torch.nn.{kind}": training_step(run_theirs, theirs),
    }
    shape = f"{layers} × {'two-way ' if both else ''}{kind} {width}, batch {batch}, length {length}"
    work = f"{shape}{', padded' if padded else ''}, forward + backward"
    return compare(work, ways, baseline=f"torch.nn.{kind}", rounds=rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="turns each way gets (default 15)")
    rounds = parser.parse_args().rounds
    torch.manual_seed(0)
    comparisons = [
        one("LSTM", batch=16, length=32, width=256, layers=1, both=False, padded=False, rounds=rounds),
        one("LSTM", batch=16, length=32, width=256, layers=2, both=True, padded=False, rounds=rounds),
        one("LSTM", batch=16, length=32, width=256, layers=1, both=True, padded=True, rounds=rounds),
        one("LSTM", batch=8, length=20, width=64, layers=1, both=False, padded=False, rounds=rounds),
        one("GRU", batch=16, length=32, width=256, layers=1, both=True, padded=True, rounds=rounds),
        one("RNN", batch=16, length=32, width=256, layers=1, both=False, padded=False, rounds=rounds),
    ]
    print(report("recurrent", comparisons))


if __name__ == "__main__":
    main()
