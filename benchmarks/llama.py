"""Our Llama against transformers', generating with the same weights in float32: `python benchmarks/llama.py`.

It also measures how much memory a process needs to read SmolLM2's file and write with it, in 32, 8 and 4 bits.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import replace

import torch
from measure import RESULTS, Comparison, compare, report
from torch import Tensor
from transformers import LlamaConfig as TheirConfig
from transformers import LlamaForCausalLM

from lecturelib.evaluation import generate
from lecturelib.models import Llama, LlamaConfig, load
from lecturelib.models.llama import SMOLLM2_135M

MEMORY = """
import sys, torch
from lecturelib.evaluation import generate
from lecturelib.recipes.pretrained import load_pretrained
def kilobytes(name):
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith(name))
before = kilobytes("VmRSS")
model, tokenizer = load_pretrained("smollm2", bits=int(sys.argv[1]) if int(sys.argv[1]) < 32 else None)
text = generate(model, torch.tensor([tokenizer.encode("The capital of France is")]), max_new_tokens=8)
print(before, kilobytes("VmRSS"), kilobytes("VmHWM"), repr(tokenizer.decode(text[0].tolist())))
"""
SMALL = replace(SMOLLM2_135M, vocab_size=1024, d_model=144, d_ff=384)  # as deep, and 4 times as narrow


def generation(name: str, config: LlamaConfig, rounds: int, new: int) -> Comparison:
    """Greedy text, one row, each with its own cache and its own loop."""
    settings = TheirConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.d_model,
        intermediate_size=config.hidden,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.key_heads,
        max_position_embeddings=config.max_len,
        rms_norm_eps=config.eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_base},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    theirs = LlamaForCausalLM(settings).eval()
    ours = load(Llama, theirs).eval()
    prompt = torch.randint(config.vocab_size, (1, 16))

    def run_theirs() -> Tensor:
        mask = torch.ones_like(prompt)
        return theirs.generate(prompt, attention_mask=mask, max_new_tokens=new, do_sample=False, pad_token_id=0)

    ways = {"lecturelib": lambda: generate(ours, prompt, max_new_tokens=new), "transformers": run_theirs}
    if not torch.equal(ways["lecturelib"](), run_theirs()):
        raise RuntimeError("lecturelib and transformers have the same weights but wrote different texts")
    return compare(f"{name}: generate {new} tokens, batch 1", ways, baseline="lecturelib", rounds=rounds, warmup=1)


def memory() -> str:
    """What a fresh process holds in memory, in megabytes: before there is a model, after writing, and at most."""
    found, lines = {}, ["| weights in | before MB | after MB | at most MB | text |", "|---|---:|---:|---:|---|"]
    for bits in (32, 8, 4):
        child = subprocess.run([sys.executable, "-c", MEMORY, str(bits)], capture_output=True, text=True, check=True)
        *kilobytes, text = child.stdout.strip().split(" ", 3)
        found[bits] = dict(zip(("before", "after", "at_most"), (int(size) / 1e3 for size in kilobytes), strict=True))
        lines.append(f"| {bits} bits | " + " | ".join(f"{size:.0f}" for size in found[bits].values()) + f" | {text} |")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "llama_memory.json").write_text(json.dumps(found, indent=2) + "\n")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="turns each way gets (default 7)")
    parser.add_argument("--tokens", type=int, default=64, help="tokens to generate (default 64)")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 8 tokens, the small one: does it run?")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    rounds, tokens = (2, 8) if arguments.quick else (arguments.rounds, arguments.tokens)
    sizes = {"30 narrow layers": SMALL} | ({} if arguments.quick else {"SmolLM2-135M": SMOLLM2_135M})
    found = [generation(name, config, rounds, tokens) for name, config in sizes.items()]
    print(report("llama_quick" if arguments.quick else "llama", found))
    if not arguments.quick and sys.platform == "linux":
        print(f"\n{memory()}")


if __name__ == "__main__":
    main()
