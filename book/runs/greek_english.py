"""Train Bahdanau's model from Greek to English, and score its attention against the links that people drew.

    python book/runs/greek_english.py lecturelib/runs/greek_english

takes about three minutes of one core and writes the run that chapter 05 shows. With `--until 300` it stops at the first
evaluation, whose numbers should be those of the first row of the run's history.

What was tried before: a few hundred steps of Luong's model (general score), which had learned less by then; the
posterior with the attention to the power 0.5 and 0, on validation (0.524 and 0.588, against 0.530); IBM Model 1 with
stems of four, five and six letters and whole words, ties broken towards the diagonal, on validation and test (0.45 to
0.51); the attention of a step before or after the one that writes the word, on validation and test (0.76 and 0.77,
against 0.72); every link above a weight instead of the best one (0.66 at 0.15, against 0.63 for a diagonal drawn as
thick, on test). One seed was run.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from lecturelib.data import Pair, greek_english, stem
from lecturelib.evaluation import alignment_error_rate, best_links
from lecturelib.models import BahdanauConfig, BahdanauSeq2Seq
from lecturelib.tokens import Vocabulary, WordTokenizer, collate_pairs, pair_batches
from lecturelib.training import Cosine, TrainConfig, save_run, target_loss, train

MAX_LEN, MIN_COUNT = 25, 3  # words in a verse, on either side; times a word must occur to be in the vocabulary


def encode(pairs: list[Pair], greek: Vocabulary, english: Vocabulary) -> list[tuple[list[int], list[int]]]:
    """Greek stems and English words in lower case, as ids."""
    return [
        (greek.encode(map(stem, pair.source)), english.encode(word.lower() for word in pair.target)) for pair in pairs
    ]


def vocabularies(train_pairs: list[Pair]) -> tuple[Vocabulary, Vocabulary]:
    """Greek stems and English words that the training verses have often enough."""
    greek = Vocabulary.build((map(stem, pair.source) for pair in train_pairs), min_count=MIN_COUNT)
    english = Vocabulary.build(((word.lower() for word in pair.target) for pair in train_pairs), min_count=MIN_COUNT)
    return greek, english


@torch.no_grad()
def measure(
    model: BahdanauSeq2Seq, pairs: list[Pair], greek: Vocabulary, english: Vocabulary, *, posterior: bool = True
) -> dict[str, float]:
    """Loss a word, and the alignment error rate of the attention before and (if asked for) after the word is known."""
    ids = {"pad_id": english.pad_id, "bos_id": english.bos_id, "eos_id": english.eos_id}
    encoded = encode(pairs, greek, english)
    total, words = 0.0, 0
    found: dict[str, list[set[tuple[int, int]]]] = {"attention": [], "posterior": []}
    for start in range(0, len(pairs), 32):
        batch = collate_pairs(encoded[start : start + 32], **ids)
        loss, count = target_loss(model, batch)
        total, words = total + float(loss) * count, words + count
        source = batch.source, batch.source_lengths, batch.target_in
        weights = {"attention": model.aligned(*source)[1]}
        if posterior:
            weights["posterior"] = model.posterior(*source, batch.target_out)
        for row, pair in enumerate(pairs[start : start + 32]):
            for name, values in weights.items():  # only words are linked: the end symbols are left out
                found[name].append(best_links(values[row, : len(pair.target), : len(pair.source)]))
    gold = [pair.links for pair in pairs]
    rates = {f"aer_{name}": round(alignment_error_rate(links, gold), 4) for name, links in found.items() if links}
    return {"loss": round(total / words, 4), **rates}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to put the run")
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--until", type=int, help="stop after so many of the steps, print, and write nothing")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    splits = greek_english(max_len=MAX_LEN, punctuation=False)
    greek, english = vocabularies(splits.train)
    ids = {"pad_id": english.pad_id, "bos_id": english.bos_id, "eos_id": english.eos_id}
    config = BahdanauConfig(
        source_vocab_size=len(greek),
        target_vocab_size=len(english),
        embedding_dim=64,
        hidden_dim=96,
        attention_dim=96,
        maxout_dim=64,
        dropout=0.2,
    )
    torch.manual_seed(options.seed)
    model = BahdanauSeq2Seq(config)
    training: dict[str, Any] = {"steps": options.steps, "learning_rate": 3e-3, "batch_size": 32}
    history = train(
        model,
        pair_batches(encode(splits.train, greek, english), batch_size=training["batch_size"], seed=options.seed, **ids),
        target_loss,
        TrainConfig(
            steps=options.until or options.steps,
            learning_rate=training["learning_rate"],
            schedule=Cosine(steps=options.steps, warmup=options.steps // 20),
            seed=options.seed,
            evaluate_every=max(1, options.steps // 8),
            device="cpu",
        ),
        evaluate=lambda model: measure(model, splits.validation, greek, english, posterior=False),
    )
    rows = [
        {key: row[key] for key in ("step", "eval_loss", "eval_aer_attention")} for row in history if "eval_loss" in row
    ]
    if options.until:
        print(rows)
        return
    model.eval()
    kept = BahdanauSeq2Seq(config)
    kept.load_state_dict({name: value.half().float() for name, value in model.state_dict().items()})
    facts = {
        "command": f"python book/runs/greek_english.py FOLDER --steps {options.steps} --seed {options.seed}",
        "seed": options.seed,
        "model": "bahdanau",
        "reads": "stems",
        "config": asdict(config),
        "training": training,
        "data": {"max_len": MAX_LEN, "min_count": MIN_COUNT, "punctuation": False, "verses": len(splits.train)},
        "versions": {"torch": torch.__version__},
        "stored": "weights in half precision; the results are of the weights as stored",
        "results": {
            "validation": measure(kept.eval(), splits.validation, greek, english),
            "test": measure(kept, splits.test, greek, english),
        },
    }
    save_run(options.folder, facts, rows, model)
    WordTokenizer(greek).save(options.folder / "source.json")
    WordTokenizer(english, lower=True).save(options.folder / "target.json")
    print(facts["results"])


if __name__ == "__main__":
    main()
