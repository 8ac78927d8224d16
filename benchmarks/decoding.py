"""Generation with a cache, one text and many beams, against transformers: `python benchmarks/decoding.py`.

All ways run the same GPT-2 with the same weights, and must give the same tokens before they are timed. The bare loop
is what a reader would write by hand: it has the cache and nothing else.
"""

import argparse
from collections.abc import Callable

import torch
import torch.nn.functional as F
from measure import Comparison, compare, report
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from lecturelib.evaluation import beam_search, decode, generate, read_prompt
from lecturelib.models.gpt import GPT, GPTConfig

VOCAB_SIZE, MAX_LEN, D_MODEL, NUM_HEADS, NUM_LAYERS = 256, 512, 384, 6, 6


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
    return theirs, GPT.from_huggingface(theirs.state_dict(), sizes).eval()


def bare_loop(model: GPT2LMHeadModel, new: int) -> Callable[[Tensor], Tensor]:
    """Greedy decoding of one text by hand, from raw weights and a cache that is allocated once."""
    weights = {name: value.detach() for name, value in model.state_dict().items()}
    blocks = [
        {name.removeprefix(f"transformer.h.{i}."): w for name, w in weights.items() if f".h.{i}." in name}
        for i in range(NUM_LAYERS)
    ]
    tokens_in, places = weights["transformer.wte.weight"], weights["transformer.wpe.weight"]
    final = (weights["transformer.ln_f.weight"], weights["transformer.ln_f.bias"])
    width = D_MODEL // NUM_HEADS

    def read(tokens: Tensor, at: int, keys: Tensor, values: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = tokens_in[tokens] + places[at : at + length]  # (1, T, D)
        for i, w in enumerate(blocks):
            h = F.layer_norm(x, (D_MODEL,), w["ln_1.weight"], w["ln_1.bias"])
            qkv = torch.addmm(w["attn.c_attn.bias"], h[0], w["attn.c_attn.weight"])  # (T, 3 D)
            q, k, v = qkv.view(length, 3, NUM_HEADS, width).permute(1, 2, 0, 3)  # (H, T, Dh) each
            keys[i, :, at : at + length], values[i, :, at : at + length] = k, v
            seen = keys[i : i + 1, :, : at + length], values[i : i + 1, :, : at + length]
            mixed = F.scaled_dot_product_attention(q[None], *seen, is_causal=at == 0)  # (1, H, T, Dh)
            mixed = mixed[0].transpose(0, 1).reshape(length, D_MODEL)  # (T, D)
            x = x + torch.addmm(w["attn.c_proj.bias"], mixed, w["attn.c_proj.weight"])
            h = F.layer_norm(x, (D_MODEL,), w["ln_2.weight"], w["ln_2.bias"])
            h = F.gelu(torch.addmm(w["mlp.c_fc.bias"], h[0], w["mlp.c_fc.weight"]), approximate="tanh")
            x = x + torch.addmm(w["mlp.c_proj.bias"], h, w["mlp.c_proj.weight"])
        return F.layer_norm(x[:, -1], (D_MODEL,), *final) @ tokens_in.T  # (1, V)

    @torch.no_grad()
    def run(prompt: Tensor) -> Tensor:
        keys, values = torch.zeros(2, NUM_LAYERS, NUM_HEADS, MAX_LEN, width)
        text, at, token = [prompt], 0, prompt
        for _ in range(new):
            logits = read(token, at, keys, values)
            at += token.shape[1]
            token = logits.argmax(-1, keepdim=True)  # (1, 1)
            text.append(token)
        return torch.cat(text, dim=1)

    return run


def one_text(theirs: GPT2LMHeadModel, ours: GPT, new: int, rounds: int) -> Comparison:
    """Cached greedy generation, batch 1."""
    prompt = torch.randint(VOCAB_SIZE, (1, 8))
    everything = torch.ones_like(prompt)
    bare = bare_loop(theirs, new)
    ways: dict[str, Callable[[], Tensor]] = {
        "lecturelib": lambda: generate(ours, prompt, max_new_tokens=new),
        "transformers": lambda: theirs.generate(
            prompt, attention_mask=everything, max_new_tokens=new, do_sample=False, pad_token_id=0
        ),
        "bare loop": lambda: bare(prompt),
    }
    first = ways["lecturelib"]()
    for name, way in ways.items():
        assert torch.equal(way(), first), f"{name} writes something else"
    return compare(f"generate {new} tokens, batch 1", ways, baseline="lecturelib", rounds=rounds, warmup=1)


def beams(theirs: GPT2LMHeadModel, ours: GPT, batch: int, beam_size: int, new: int, rounds: int) -> Comparison:
    """Beam search over a batch of prompts."""
    prompt = torch.randint(VOCAB_SIZE, (batch, 8))
    everything = torch.ones_like(prompt)

    def run_ours() -> Tensor:
        return beam_search(ours, read_prompt(ours, prompt), max_len=new, beam_size=beam_size).ids[:, 0]

    def run_theirs() -> Tensor:
        return theirs.generate(
            prompt,
            attention_mask=everything,
            num_beams=beam_size,
            max_new_tokens=new,
            do_sample=False,
            pad_token_id=0,
        )[:, 8:]

    assert torch.equal(run_ours(), run_theirs())
    ways = {"lecturelib": run_ours, "transformers": run_theirs}
    work = f"beam search, {beam_size} beams, batch {batch}, {new} tokens"
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
    parser.add_argument("--tokens", type=int, default=256, help="tokens to generate (default 256)")
    arguments = parser.parse_args()
    theirs, ours = twins()
    comparisons = [
        one_text(theirs, ours, arguments.tokens, arguments.rounds),
        many_texts(theirs, ours, 8, arguments.tokens // 4, arguments.rounds),
        beams(theirs, ours, 4, 4, arguments.tokens // 4, arguments.rounds),
    ]
    print(report("decoding", comparisons))


if __name__ == "__main__":
    main()
