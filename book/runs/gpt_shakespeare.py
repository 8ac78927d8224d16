"""Train the Shakespeare GPT of chapter 12: a longer run than a notebook can wait for.

    python book/runs/gpt_shakespeare.py --work runs/gpt_shakespeare

About ten minutes on one core. It may be stopped and started again: it goes on where it was. The finished run goes to
`lecturelib/runs/gpt_shakespeare`, from where `lecturelib.training.shipped_run("gpt_shakespeare")` reads it.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

import torch

from lecturelib.data import shakespeare
from lecturelib.evaluation import mean_loss, perplexity
from lecturelib.models import GPT, GPTConfig
from lecturelib.tokens import CharTokenizer, ContiguousWindows, RandomWindows
from lecturelib.training import Cosine, TrainConfig, next_token_loss, save_run, train

SEED = 0
SIZES = {"max_len": 128, "d_model": 160, "num_heads": 5, "num_layers": 4, "dropout": 0.0}
STEPS, BATCH_SIZE, LEARNING_RATE = 3000, 16, 3e-3


def held_out_loss(model: GPT, ids: torch.Tensor, *, characters: int = 65_536) -> float:
    """Mean surprise in nats over the first characters of a held-out text, read in windows of the model's length."""
    windows = ContiguousWindows(ids[: characters + 1], batch_size=32, length=model.config.max_len)
    return mean_loss(model, map(windows, range(windows.steps_per_pass)), next_token_loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="where checkpoints go while it runs")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parents[2] / "lecturelib" / "runs" / "gpt_shakespeare"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the numbers then do not depend on how many cores there are

    splits = shakespeare()
    tokenizer = CharTokenizer.train(splits.train)
    ids = {name: torch.tensor(tokenizer.encode(splits[name])) for name in ("train", "validation", "test")}
    torch.manual_seed(SEED)
    model = GPT(GPTConfig(vocab_size=tokenizer.vocab_size, **SIZES))
    plan = TrainConfig(
        steps=STEPS,
        learning_rate=LEARNING_RATE,
        schedule=Cosine(steps=STEPS, warmup=100, floor=0.02),
        seed=SEED,
        evaluate_every=500,
        checkpoint_every=100,
        device="cpu",
    )
    history = train(
        model,
        RandomWindows(ids["train"], batch_size=BATCH_SIZE, length=model.config.max_len, seed=SEED),
        next_token_loss,
        plan,
        evaluate=lambda model: held_out_loss(model, ids["validation"]),
        folder=arguments.work,
        resume=True,
    )
    model.half().float().eval()  # what is shipped is in half precision, so that is what is measured
    loss = held_out_loss(model, ids["test"])
    save_run(
        arguments.out,
        {
            "command": "python book/runs/gpt_shakespeare.py --work runs/gpt_shakespeare",
            "seed": SEED,
            "model": "gpt",
            "data": "shakespeare, one token a character",
            "config": asdict(model.config),
            "training": {"steps": STEPS, "batch_size": BATCH_SIZE, "learning_rate": LEARNING_RATE},
            "results": {"test_loss": loss, "test_perplexity": perplexity(loss), "test_characters": 65_536},
            "versions": {"torch": torch.__version__.partition("+")[0]},
        },
        [row for row in history if "eval_loss" in row or row["step"] % 20 == 0],
        model,
    )
    tokenizer.save(arguments.out / "tokens.json")
    print(f"test loss {loss:.4f} nats a character, perplexity {perplexity(loss):.3f}")


if __name__ == "__main__":
    main()
