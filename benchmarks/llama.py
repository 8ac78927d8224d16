"""Our Llama against transformers', generating with the same weights in float32: `python benchmarks/llama.py`."""

import argparse
from dataclasses import replace

import torch
from measure import Comparison, compare, report
from torch import Tensor
from transformers import LlamaConfig as TheirConfig
from transformers import LlamaForCausalLM

from lecturelib.evaluation import generate
from lecturelib.models import Llama, LlamaConfig, load
from lecturelib.models.llama import SMOLLM2_135M

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


if __name__ == "__main__":
    main()
