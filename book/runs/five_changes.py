"""Train what chapter 20 shows of the five changes from GPT to Llama: `python book/runs/five_changes.py`.

Six small models of Shakespeare's characters, each with one change more than the one before, two seeds each: about ten
minutes on one core. Writes lecturelib/runs/five_changes/, one row of history for each model; what is in the history
already is not trained again. First weights come from one distribution, batches are the same in the same order.
"""

import argparse
import platform
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lecturelib.data import shakespeare
from lecturelib.evaluation import mean_loss
from lecturelib.layers import Block, FeedForward, GroupedQueryAttention, PreNorm, RMSNorm, RotaryPositions, SwiGLU
from lecturelib.layers.block import GELU_TANH
from lecturelib.models import GPT, GPTConfig
from lecturelib.tokens import CharTokenizer, ContiguousWindows, RandomWindows
from lecturelib.training import Cosine, TrainConfig, next_token_loss, save_run, shipped_run, train

RUNS = Path(__file__).resolve().parents[2] / "lecturelib" / "runs"
CHANGES = ("GPT", "RMS norm", "RoPE", "SwiGLU", "grouped queries", "no biases")
SIZES = {"max_len": 64, "d_model": 96, "num_heads": 6, "num_layers": 3, "dropout": 0.0}
NUM_KV_HEADS = 2
BATCH_SIZE, LEARNING_RATE = 16, 3e-3


def build(vocab_size: int, changes: int, seed: int) -> GPT:
    """A GPT after the first so many of the five changes; after all of them it is a Llama."""
    config = GPTConfig(vocab_size=vocab_size, **SIZES)
    width, heads = config.d_model, config.num_heads
    rotary = RotaryPositions(width // heads) if changes >= 2 else None
    norm = RMSNorm if changes >= 1 else nn.LayerNorm
    bias = changes < 5
    torch.manual_seed(seed)
    model = GPT(config, positions=rotary)
    model.final_norm = norm(width)
    for layer in range(config.num_layers):
        key_heads = NUM_KV_HEADS if changes >= 4 else heads
        mixer = GroupedQueryAttention(width, heads, key_heads, bias=bias, positions=rotary)
        model.blocks[layer] = Block(mixer, feed_forward(width, changes), partial(PreNorm, width, norm=norm))
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=0.02)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
    return model


def feed_forward(width: int, changes: int) -> nn.Module:
    """Two matrices of 4 · D, or three of 8/3 · D, which are as many weights; with biases up to the last change."""
    if changes < 3:
        return FeedForward(width, 4 * width, activation=GELU_TANH)
    gated = SwiGLU(width, 8 * width // 3)
    if changes < 5:
        for name, part in list(gated.named_children()):
            setattr(gated, name, nn.Linear(part.in_features, part.out_features))
    return gated


def held_out_loss(model: nn.Module, ids: Tensor, length: int) -> float:
    """Mean surprise in nats a character over 32,768 held-out characters, read in windows of this length."""
    windows = ContiguousWindows(ids[:32_769], batch_size=32, length=length)
    return mean_loss(model, map(windows, range(windows.steps_per_pass)), next_token_loss)


def kept_per_token(model: GPT) -> int:
    """How many numbers a key-value cache keeps for each token."""
    return sum(2 * block.mixer.key_proj.out_features for block in model.blocks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500, help="of each model (default 500)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="(default 0 1)")
    parser.add_argument("--folder", type=Path, default=RUNS / "five_changes", help="where the run goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    splits = shakespeare()
    tokenizer = CharTokenizer.train(splits.train)
    train_ids, test_ids = (torch.tensor(tokenizer.encode(splits[name])) for name in ("train", "test"))
    folder, length = arguments.folder, SIZES["max_len"]
    rows: list[dict[str, Any]] = shipped_run(folder.name, folder.parent).rows if (folder / "run.json").exists() else []
    for seed in arguments.seeds:
        for changes, name in enumerate(CHANGES):
            if any((row["changes"], row["seed"]) == (changes, seed) for row in rows):
                continue
            model = build(tokenizer.vocab_size, changes, seed)
            plan = TrainConfig(
                steps=arguments.steps,
                learning_rate=LEARNING_RATE,
                schedule=Cosine(steps=arguments.steps, warmup=arguments.steps // 10),
                seed=seed,
                device="cpu",
                progress=False,
            )
            batches = RandomWindows(train_ids, batch_size=BATCH_SIZE, length=int(length), seed=seed)
            started = time.process_time()
            train(model, batches, next_token_loss, plan)
            seconds = time.process_time() - started
            model.eval()
            rows.append(
                {
                    "changes": changes,
                    "name": name,
                    "seed": seed,
                    "loss": round(held_out_loss(model, test_ids, int(length)), 4),
                    "loss_twice_as_long": None if changes < 2 else round(held_out_loss(model, test_ids, 128), 4),
                    "parameters": sum(p.numel() for p in model.parameters()),
                    "kept_per_token": kept_per_token(model),
                    "cpu_seconds": round(seconds, 1),
                }
            )
            print(rows[-1], flush=True)
            facts = {
                "command": f"python book/runs/five_changes.py --steps {arguments.steps}",
                "seed": arguments.seeds,
                "config": asdict(model.config) | {"num_kv_heads": NUM_KV_HEADS},
                "data": f"shakespeare, one token a character: {arguments.steps} batches of {BATCH_SIZE} x {length}",
                "results": {f"{row['name']} {row['seed']}": row["loss"] for row in rows},
                "versions": {"python": platform.python_version(), "torch": torch.__version__},
            }
            save_run(folder, facts, rows)


if __name__ == "__main__":
    main()
