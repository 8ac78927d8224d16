"""Our GPT against its peers, training and generating with the same sizes: `python benchmarks/gpt.py`."""

import argparse
from collections.abc import Callable
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from measure import Comparison, compare, report
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

from lecturelib.evaluation.decoding import generate
from lecturelib.models import load
from lecturelib.models.gpt import GPT, GPTConfig

SIZES = SimpleNamespace(vocab=65, context=256, width=384, heads=6, layers=6, batch=8)
GPT2_GELU = nn.GELU(approximate="tanh")  # for all: it takes twice as long as the exact one, and one model has each


class PlainBlock(nn.Module):
    """A block as nanoGPT writes it: one matrix for queries, keys and values, fused attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gelu = GPT2_GELU

    def forward(self, x: Tensor, cache: list[Tensor] | None = None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        is_first = not cache
        if cache is not None:
            if cache:
                k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
            cache[:] = [k, v]
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=is_first)
        x = x + self.out(heads.transpose(1, 2).contiguous().view(batch, length, width))
        return x + self.narrow(self.gelu(self.widen(self.norm2(x))))


class PlainGPT(nn.Module):
    """The shortest GPT that does the work, with a cache that grows by concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(SIZES.vocab, SIZES.width)
        self.positions = nn.Embedding(2 * SIZES.context, SIZES.width)
        self.blocks = nn.ModuleList(PlainBlock(SIZES.width, SIZES.heads) for _ in range(SIZES.layers))
        self.norm = nn.LayerNorm(SIZES.width)
        self.head = nn.Linear(SIZES.width, SIZES.vocab, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor, caches: list[list[Tensor]] | None = None, begin: int = 0) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(begin, begin + tokens.shape[1], device=tokens.device))
        for layer, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[layer])
        return self.head(self.norm(x if caches is None else x[:, -1:]))

    @torch.inference_mode()
    def generate(self, prompt: Tensor, new: int) -> Tensor:
        caches: list[list[Tensor]] = [[] for _ in self.blocks]
        text = [prompt]
        logits = self(prompt, caches)
        for step in range(new):
            text.append(logits[:, -1].argmax(-1, keepdim=True))
            if step < new - 1:
                logits = self(text[-1], caches, prompt.shape[1] + step)
        return torch.cat(text, dim=1)


def build() -> tuple[GPT, PlainGPT, TransformerWrapper, GPT2LMHeadModel]:
    """The four models, without dropout; ours has the weights of transformers'."""
    longest = 2 * SIZES.context
    sizes = {"n_embd": SIZES.width, "n_layer": SIZES.layers, "n_head": SIZES.heads, "n_positions": longest}
    config = GPT2Config(
        vocab_size=SIZES.vocab, **sizes, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=None, eos_token_id=None
    )
    theirs = GPT2LMHeadModel(config)
    ours = load(
        GPT,
        theirs.state_dict(),
        GPTConfig(
            vocab_size=SIZES.vocab,
            max_len=longest,
            d_model=SIZES.width,
            num_heads=SIZES.heads,
            num_layers=SIZES.layers,
            dropout=0.0,
        ),
    )
    decoder = Decoder(
        dim=SIZES.width, depth=SIZES.layers, heads=SIZES.heads, attn_flash=True, ff_custom_activation=GPT2_GELU
    )
    other = TransformerWrapper(num_tokens=SIZES.vocab, max_seq_len=longest, tie_embedding=True, attn_layers=decoder)
    return ours, PlainGPT(), other, theirs


def training(rounds: int) -> Comparison:
    """One training step: forward, loss, backward, fused AdamW."""
    ours, plain, other, theirs = build()
    tokens, targets = torch.randint(SIZES.vocab, (2, SIZES.batch, SIZES.context))

    def step(model: nn.Module, logits: Callable[[], Tensor]) -> Callable[[], None]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def run() -> None:
            loss = F.cross_entropy(logits().flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        return run

    ways = {
        "lecturelib": step(ours, lambda: ours(tokens)),
        "nanoGPT-style": step(plain, lambda: plain(tokens)),
        "x-transformers": step(other, lambda: other(tokens)),
        "transformers": step(theirs, lambda: theirs(tokens, use_cache=False).logits),
    }
    shape = f"{SIZES.layers} × {SIZES.width}, {SIZES.heads} heads, context {SIZES.context}, batch {SIZES.batch}"
    return compare(f"GPT training step, {shape}", ways, baseline="lecturelib", rounds=rounds, warmup=2)


def generation(rounds: int, new: int) -> Comparison:
    """Greedy text, one row, from a prompt of one token, each with its own cache and its own loop."""
    ours, plain, other, theirs = (model.eval() for model in build())
    prompt = torch.zeros(1, 1, dtype=torch.long)
    wrapper = AutoregressiveWrapper(other)

    def run_theirs() -> Tensor:
        return theirs.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),  # else it takes the prompt for padding, having the same id
            max_new_tokens=new,
            do_sample=False,
            pad_token_id=0,
        )

    ways = {
        "lecturelib": lambda: generate(ours, prompt, max_new_tokens=new),
        "bare cached loop": lambda: plain.generate(prompt, new),
        "x-transformers": lambda: wrapper.generate(prompt, new, temperature=0.0, cache_kv=True),
        "transformers": run_theirs,
    }
    if not torch.equal(ways["lecturelib"](), run_theirs()):
        raise RuntimeError("lecturelib and transformers have the same weights but wrote different texts")
    return compare(f"generate {new} tokens, batch 1", ways, baseline="lecturelib", rounds=rounds, warmup=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="turns each way gets (default 9)")
    parser.add_argument("--tokens", type=int, default=256, help="tokens to generate (default 256)")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 16 tokens: does it run? No numbers to quote")
    arguments = parser.parse_args()
    rounds, tokens = (2, 16) if arguments.quick else (arguments.rounds, arguments.tokens)
    torch.manual_seed(0)
    print(report("gpt_quick" if arguments.quick else "gpt", [training(rounds), generation(rounds, tokens)]))


if __name__ == "__main__":
    main()
