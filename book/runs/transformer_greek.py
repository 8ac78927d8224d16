"""Train a small transformer to translate Greek verses into English, and measure what it owes to the source.

    python book/runs/transformer_greek.py lecturelib/runs/transformer_greek

takes about five minutes of one core and writes the run whose maps chapter 10 shows.
"""

import argparse
import copy
import functools
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lecturelib.data import Pair, greek_english, plain_text
from lecturelib.evaluation import beam_search, bleu, count_parameters, decode, mean_loss, read_source
from lecturelib.models import Transformer, TransformerConfig
from lecturelib.tokens import BPETokenizer, PairBatch, collate_pairs, pair_batches
from lecturelib.training import Cosine, TrainConfig, save_run, target_loss, train

SPECIALS = ("<pad>", "<bos>", "<eos>")
IDS = {"pad_id": 0, "bos_id": 1, "eos_id": 2}
MAX_LEN, VOCAB_SIZE, LONGEST = 25, 3000, 60  # words in a verse on either side; tokens; tokens that are written at most
Encoded = list[tuple[list[int], list[int]]]


def texts_of(pairs: list[Pair]) -> list[tuple[str, str]]:
    """Source and target of each pair as plain text."""
    return [(plain_text(pair.source), plain_text(pair.target)) for pair in pairs]


def encode(texts: list[tuple[str, str]], tokenizer: BPETokenizer) -> Encoded:
    """Both sides as ids of one vocabulary."""
    return [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in texts]


def in_batches(pairs: Encoded) -> list[PairBatch]:
    """Batches for evaluation, in order."""
    return [collate_pairs(pairs[start : start + 64], **IDS) for start in range(0, len(pairs), 64)]


def with_other_sources(pairs: Encoded) -> Encoded:
    """Every target with the source of another verse, the next one: for a model that reads the wrong source."""
    return [(pairs[(place + 1) % len(pairs)][0], target) for place, (_, target) in enumerate(pairs)]


def translate(model: nn.Module, pairs: Encoded, tokenizer: BPETokenizer, beam_size: int = 1) -> list[str]:
    """What the model writes for each source."""
    rows: list[list[int]] = []
    for batch in in_batches(pairs):
        start = read_source(model, batch.source, batch.source_lengths, bos_id=IDS["bos_id"])
        if beam_size == 1:
            rows += decode(model, start, max_len=LONGEST, eos_id=IDS["eos_id"]).sequences(IDS["eos_id"])
        else:
            found = beam_search(model, start, max_len=LONGEST, beam_size=beam_size, eos_id=IDS["eos_id"])
            rows += found.best(IDS["eos_id"])
    return [tokenizer.decode(row) for row in rows]


def measure(model: nn.Module, texts: list[tuple[str, str]], tokenizer: BPETokenizer) -> dict[str, float]:
    """Loss a token and BLEU, with the right sources and with other ones."""
    pairs, wanted = encode(texts, tokenizer), [target for _, target in texts]
    others = with_other_sources(pairs)
    return {
        "loss": round(mean_loss(model, in_batches(pairs), target_loss), 4),
        "loss_other_source": round(mean_loss(model, in_batches(others), target_loss), 4),
        "bleu": round(bleu(translate(model, pairs, tokenizer), wanted).score, 2),
        "bleu_other_source": round(bleu(translate(model, others, tokenizer), wanted).score, 2),
        "bleu_beam_4": round(bleu(translate(model, pairs, tokenizer, beam_size=4), wanted).score, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to put the run")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    splits = greek_english(max_len=MAX_LEN)
    texts = texts_of(splits.train)
    tokenizer = BPETokenizer.train((text for pair in texts for text in pair), vocab_size=VOCAB_SIZE, specials=SPECIALS)
    config = TransformerConfig(
        vocab_size=len(tokenizer), d_model=96, num_heads=4, num_layers=2, d_ff=384, dropout=0.1, wiring="pre_norm"
    )
    torch.manual_seed(options.seed)
    model = Transformer(config)
    validation = in_batches(encode(texts_of(splits.validation), tokenizer))
    best: dict[str, Any] = {"loss": float("inf")}
    started = time.process_time()

    def evaluate(model: nn.Module) -> dict[str, float]:
        loss = mean_loss(model, validation, target_loss)
        if loss < best["loss"]:
            best.update(loss=loss, weights=copy.deepcopy(model.state_dict()))
        print(f"validation {loss:.3f}, best {best['loss']:.3f}, {time.process_time() - started:.0f} s", flush=True)
        return {"loss": loss}

    history = train(
        model,
        pair_batches(encode(texts, tokenizer), batch_size=24, seed=options.seed, **IDS),
        functools.partial(target_loss, label_smoothing=0.1),
        TrainConfig(
            steps=options.steps,
            learning_rate=3e-3,
            schedule=Cosine(steps=options.steps, warmup=options.steps // 10, floor=0.02),
            seed=options.seed,
            evaluate_every=300,
            device="cpu",
            progress=False,
        ),
        evaluate=evaluate,
    )
    cpu_seconds = time.process_time() - started
    model.load_state_dict(best["weights"])
    model.eval()
    model.half().float()  # what is measured is what is kept
    results = {
        "validation": measure(model, texts_of(splits.validation), tokenizer),
        "test": measure(model, texts_of(splits.test), tokenizer),
        "training": measure(model, texts[: len(splits.test)], tokenizer),
    }
    facts = {
        "command": f"python book/runs/transformer_greek.py lecturelib/runs/transformer_greek "
        f"--steps {options.steps} --seed {options.seed}",
        "seed": options.seed,
        "model": "transformer",
        "reads": "plain",
        "config": asdict(config),
        "data": f"greek_english(max_len={MAX_LEN}), plain_text, {len(texts)} training pairs, {len(tokenizer)} tokens",
        "kept": "the weights with the lowest validation loss",
        "parameters": count_parameters(model),
        "cpu_seconds": round(cpu_seconds),
        "torch": torch.__version__,
        "results": results,
    }
    wanted = ("step", "loss", "learning_rate", "eval_loss")
    rows = [
        {name: round(row[name], 6) for name in wanted if name in row}
        for row in history.rows
        if "eval_loss" in row or row["step"] % 50 == 0
    ]
    save_run(options.folder, facts, rows, model)
    tokenizer.save(options.folder / "tokens.json")
    print(results)


if __name__ == "__main__":
    main()
