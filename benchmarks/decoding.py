"""Batches of texts and of beams against transformers, on the same GPT-2: `python benchmarks/decoding.py`.

Both must give the same tokens before they are timed. One text at a time is in benchmarks/gpt.py.
"""

import argparse
from collections.abc import Callable

import torch
from measure import Comparison, compare, report
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from lecturelib.evaluation import beam_search, decode, read_prompt
from lecturelib.models import load
from lecturelib.models.gpt import GPT, GPTConfig

VOCAB_SIZE, MAX_LEN, D_MODEL, NUM_HEADS, NUM_LAYERS = 8000, 512, 384, 6, 6


def twins() -> tuple[GPT2LMHeadModel, GPT]:
    """The same model twice."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCAB_SIZE,
        n_positions=MAX_LEN,
        n_embd=D_MODEL,
        n_layer=NUM_LAYERS,
        n_head=NUM_HEADS,
        bos_token_id=None,
        eos_token_id=None,
        initializer_range=0.1,
    )
    theirs = GPT2LMHeadModel(config).eval()
    sizes = GPTConfig(
        vocab_size=VOCAB_SIZE,
        max_len=MAX_LEN,
        d_model=D_MODEL,
        num_heads=NUM_HEADS,
        num_layers=NUM_LAYERS,
        dropout=0.0,
    )
    return theirs, load(GPT, theirs.state_dict(), sizes).eval()


def beams(
    theirs: GPT2LMHeadModel, ours: GPT, batch: int, beam_size: int, new: int, rounds: int, *, ends: bool
) -> Comparison:
    """Beam search over a batch of prompts; with `ends`, sequences may end early, as translations do."""
    prompt = torch.randint(VOCAB_SIZE, (batch, 8))
    everything = torch.ones_like(prompt)
    eos_id = int(beam_search(ours, read_prompt(ours, prompt), max_len=new).ids[0, 0, new // 2]) if ends else None

    def run_ours() -> Tensor:
        ends = {"eos_id": eos_id, "pad_id": eos_id or 0}  # they pad beams with the end symbol
        found = beam_search(ours, read_prompt(ours, prompt), max_len=new, beam_size=beam_size, **ends)
        return found.ids[:, 0, : int(found.lengths[:, 0].max())]

    def run_theirs() -> Tensor:
        return theirs.generate(
            prompt,
            attention_mask=everything,
            num_beams=beam_size,
            max_new_tokens=new,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=eos_id,
        )[:, 8:]

    assert torch.equal(run_ours(), run_theirs())
    ways = {"lecturelib": run_ours, "transformers": run_theirs}
    work = f"beam search, {beam_size} beams, batch {batch}, {'up to ' if ends else ''}{new} tokens"
    return compare(work, ways, baseline="lecturelib", rounds=rounds, warmup=1)


def many_texts(theirs: GPT2LMHeadModel, ours: GPT, batch: int, new: int, rounds: int) -> Comparison:
    """Cached greedy generation of a batch."""
    prompt = torch.randint(VOCAB_SIZE, (batch, 8))
    everything = torch.ones_like(prompt)
    ways: dict[str, Callable[[], Tensor]] = {
        "lecturelib": lambda: decode(ours, read_prompt(ours, prompt), max_len=new).ids,
        "transformers": lambda: theirs.generate(
            prompt, attention_mask=everything, max_new_tokens=new, do_sample=False, pad_token_id=0
        )[:, 8:],
    }
    assert torch.equal(ways["lecturelib"](), ways["transformers"]())
    return compare(f"generate {new} tokens, batch {batch}", ways, baseline="lecturelib", rounds=rounds, warmup=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="turns each way gets (default 7)")
    parser.add_argument("--tokens", type=int, default=64, help="tokens to generate (default 64)")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 8 tokens: does it run? No numbers to quote")
    arguments = parser.parse_args()
    rounds, tokens = (2, 8) if arguments.quick else (arguments.rounds, arguments.tokens)
    theirs, ours = twins()
    comparisons = [
        many_texts(theirs, ours, 8, tokens, rounds),
        beams(theirs, ours, 8, 4, tokens, rounds, ends=False),
        beams(theirs, ours, 8, 4, tokens, rounds, ends=True),
    ]
    print(report("decoding_quick" if arguments.quick else "decoding", comparisons))


if __name__ == "__main__":
    main()
