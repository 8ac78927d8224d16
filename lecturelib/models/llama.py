"""Llama: a GPT after five changes, the architecture of today's open language models."""

from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from lecturelib.layers.block import Block, PreNorm
from lecturelib.layers.grouped import GroupedQueryAttention, check_groups
from lecturelib.layers.positions.rotary import RotaryPositions
from lecturelib.layers.rms_norm import RMSNorm
from lecturelib.layers.swiglu import SwiGLU
from lecturelib.models.gpt import GPT, GPTConfig


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(GPTConfig):
    """The sizes of a Llama; `d_ff` is 8/3 · d_model when left out, `num_kv_heads` is num_heads.

    `tied` says that the head is the embedding matrix. `wiring` is always "pre_norm".
    """

    num_kv_heads: int | None = None
    dropout: float = 0.0
    rope_base: float = 10_000.0
    eps: float = 1e-5
    tied: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_groups(self.num_heads, self.key_heads, "LlamaConfig")
        if self.wiring != "pre_norm":
            raise ValueError(f"LlamaConfig: a Llama is wired pre_norm, got wiring={self.wiring!r}")
        if self.d_model // self.num_heads % 2:
            raise ValueError(
                f"LlamaConfig: heads must have an even width for rotary positions, got d_model={self.d_model} and "
                f"num_heads={self.num_heads}"
            )
        if not (self.eps > 0 and self.rope_base > 1):
            raise ValueError(f"LlamaConfig: eps={self.eps} must be above 0, rope_base={self.rope_base} above 1")

    @property
    def key_heads(self) -> int:
        """How many heads of keys and values there are."""
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    @property
    def hidden(self) -> int:
        """The width inside the feed-forward nets."""
        return 8 * self.d_model // 3 if self.d_ff is None else self.d_ff


SMOLLM2_135M = LlamaConfig(
    vocab_size=49_152,
    max_len=8192,
    d_model=576,
    num_heads=9,
    num_kv_heads=3,
    num_layers=30,
    d_ff=1536,
    rope_base=100_000.0,
)
SMOLLM2_360M = LlamaConfig(
    vocab_size=49_152,
    max_len=8192,
    d_model=960,
    num_heads=15,
    num_kv_heads=5,
    num_layers=32,
    d_ff=2560,
    rope_base=100_000.0,
)
SMOLLM2_1_7B = LlamaConfig(
    vocab_size=49_152,
    max_len=8192,
    d_model=2048,
    num_heads=32,
    num_kv_heads=32,
    num_layers=24,
    d_ff=8192,
    rope_base=130_000.0,
)


class Llama(GPT):
    """Predict each next token, as a GPT does and by its methods, but built of other parts.

    1. RMS norm in place of layer norm; 2. rotary positions (RoPE) in attention in place of a learned table; 3. SwiGLU
    in place of two matrices with a GELU; 4. grouped queries in place of a head of keys for each head of queries;
    5. no biases anywhere.

    Paper: Touvron et al. 2023 [touvron2023llama], Section 2.2; grouped queries came with Llama 2. SmolLM2's sizes are
    those of Allal et al. 2025 [allal2025smollm2].
    Differs: nothing in the network. Rotary pairs are neighbouring features, as in the paper of RoPE and in GGUF files;
    `load` reorders the rows of checkpoints from the hub, which pair the two halves of a head. All matrices start from
    a normal distribution of standard deviation 0.02.

    Args:
        config: sizes, or a preset such as SMOLLM2_135M
    """

    config: LlamaConfig

    def __init__(self, config: LlamaConfig) -> None:
        super(GPT, self).__init__()  # none of GPT's parts; what stays is how it reads a text: forward, start and step
        self.config = config
        d_model = config.d_model
        self.token_embedding = nn.Embedding(config.vocab_size, d_model)
        self.positions = None  # nothing is added to the embeddings
        self.dropout = nn.Dropout(config.dropout)
        rotary = RotaryPositions(d_model // config.num_heads, base=config.rope_base)
        self.blocks = nn.ModuleList(
            Block(
                GroupedQueryAttention(
                    d_model, config.num_heads, config.key_heads, dropout=config.dropout, positions=rotary
                ),
                SwiGLU(d_model, config.hidden),
                partial(PreNorm, d_model, dropout=config.dropout, eps=config.eps, norm=RMSNorm),
            )
            for _ in range(config.num_layers)
        )
        self.final_norm = RMSNorm(d_model, eps=config.eps)
        self.output = None if config.tied else nn.Linear(d_model, config.vocab_size, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    @property
    def max_len(self) -> int:
        """The longest text it is made for; rotary positions themselves know no end."""
        return self.config.max_len

    def head(self, x: Tensor) -> Tensor:
        """Compare with every token's embedding, or with a matrix of its own: (..., D) -> (..., V)."""
        return super().head(x) if self.output is None else self.output(x)
