"""What a model costs: parameters, floating-point operations, memory for training, memory for generation.

Two ways, which agree. `measure` runs a model and counts; within `imagined()` tensors have a shape and no content, so
that GPT-2 XL costs nothing. `decoder_parameters`, `decoder_flops`, `decoder_activation_bytes`, `kv_cache_bytes` and
`state_bytes` compute the same from sizes alone.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one forward pass takes.

    A multiplication and an addition are two operations (so a MAC is two), counted for matrix products only.
    Activations are what the pass keeps for its backward pass, parameters not included.
    """

    parameters: int
    flops: int
    activation_bytes: int

    @property
    def training_flops(self) -> int:
        """A step's operations: the backward pass does two products for each one of the forward pass."""
        return 3 * self.flops

    @property
    def optimizer_bytes(self) -> int:
        """What AdamW keeps of a model in 32 bits, all of whose parameters learn: two moments of each."""
        return 2 * 4 * self.parameters


def count_parameters(model: nn.Module, *, trainable: bool = False) -> int:
    """Count parameters, each once however many layers share it; with `trainable`, only those that learn."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trainable)


def count_flops(function: Callable[..., Any], *inputs: Any) -> int:
    """Count the operations of calling a function or model, with torch's own counter.

    Attention and recurrent nets run as plain matrix products meanwhile, because the counter does not see the fused
    kernels of the CPU.
    """
    with sdpa_kernel(SDPBackend.MATH), _without_mkldnn(), FlopCounterMode(display=False) as counter, torch.no_grad():
        function(*inputs)
    return int(counter.get_total_flops())


def count_activation_bytes(model: nn.Module, *inputs: Any) -> int:
    """Count the bytes that a forward pass keeps for the backward pass, shared memory once, without parameters."""
    weights = {_storage(tensor) for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, tuple[int, Tensor]] = {}  # holding on to the tensors keeps their memory from being used again

    def keep(tensor: Tensor) -> Tensor:
        if _storage(tensor) not in weights:
            kept[_storage(tensor)] = (tensor.untyped_storage().nbytes(), tensor)
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = model(*inputs)
    del output
    return sum(size for size, _ in kept.values())


def measure(model: nn.Module, *inputs: Any) -> Cost:
    """Measure one forward pass of a model on these inputs."""
    return Cost(
        parameters=count_parameters(model),
        flops=count_flops(model, *inputs),
        activation_bytes=count_activation_bytes(model, *inputs),
    )


def imagined() -> contextlib.AbstractContextManager[Any]:
    """Within this, tensors have a shape and no content, so that a model of any size can be built and measured::

        with imagined():
            cost = measure(GPT(GPT2_XL), torch.zeros(1, 1024, dtype=torch.int64))

    The counts are those of the real model on a CPU.
    """
    return FakeTensorMode()


def kv_cache_bytes(
    *, num_layers: int, num_heads: int, head_dim: int, batch: int, length: int, dtype: torch.dtype = torch.float32
) -> int:
    """Count the bytes of the keys and values that a decoder keeps for texts of this length.

    Paper: Pope et al. 2023 [pope2023efficiently], Section 3.3.
    Differs: nothing; with grouped queries, `num_heads` is the number of key-value heads.
    """
    return 2 * num_layers * num_heads * head_dim * batch * length * dtype.itemsize


def cache_bytes_of(config: Any, *, batch: int, length: int, dtype: torch.dtype = torch.float32) -> int:
    """Count the same from a model's config, such as a `GPTConfig` or, with fewer key-value heads, a `LlamaConfig`."""
    missing = [name for name in ("num_layers", "num_heads", "d_model") if not hasattr(config, name)]
    if missing:
        raise ValueError(
            f"{type(config).__name__} has no {', '.join(missing)}: what keeps keys and values has them all"
        )
    return kv_cache_bytes(
        num_layers=config.num_layers,
        num_heads=getattr(config, "key_heads", config.num_heads),  # fewer where queries share them
        head_dim=config.d_model // config.num_heads,
        batch=batch,
        length=length,
        dtype=dtype,
    )


class StateBytes(NamedTuple):
    """What one process holds of a model in training, in bytes, activations left out."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        """All three together."""
        return sum(self)


def state_bytes(
    parameters: int, *, processes: int = 1, stage: int = 0, each: tuple[int, int, int] = (2, 2, 12)
) -> StateBytes:
    """Count what each process holds, when stages of ZeRO share out the optimizer, then gradients, then weights.

    Paper: Rajbhandari et al. 2020 [rajbhandari2020zero], Section 3 and Figure 1.
    Differs: nothing.

    Args:
        parameters: of the whole model
        processes: that share the work
        stage: 0 shares nothing, 1 the optimizer's state, 2 gradients as well, 3 weights as well
        each: bytes for one parameter's weight, gradient and optimizer state. The paper's: half precision, and for Adam
            a 32-bit copy of the weight and two moments; all in 32 bits and without a copy it is (4, 4, 8)
    """
    if stage not in (0, 1, 2, 3) or processes < 1:
        raise ValueError(f"stage={stage} must be 0, 1, 2 or 3, and processes={processes} at least 1")
    shared = [processes if stage >= first else 1 for first in (3, 2, 1)]
    return StateBytes(*(parameters * size / among for size, among in zip(each, shared, strict=True)))


def decoder_parameters(*, vocab_size: int, max_len: int, d_model: int, num_layers: int, d_ff: int | None = None) -> int:
    """Count a GPT-2's parameters from its sizes: biases, learned positions, final norm, head tied to the embedding.

    Paper: Radford et al. 2019 [radford2019language].
    Differs: nothing.
    """
    d_ff = 4 * d_model if d_ff is None else d_ff
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    norms = 2 * 2 * d_model
    return (vocab_size + max_len) * d_model + num_layers * (attention + feed_forward + norms) + 2 * d_model


def decoder_flops(
    *, vocab_size: int, d_model: int, num_layers: int, batch: int, length: int, d_ff: int | None = None
) -> int:
    """Count a GPT's forward operations from its sizes: projections, scores and mixing over the full square, head.

    Paper: Kaplan et al. 2020 [kaplan2020scaling], Table 1.
    Differs: scores cost what the plain product does, over all T × T pairs, masked ones too; the head is counted.
    """
    d_ff = 4 * d_model if d_ff is None else d_ff
    projections = 2 * (4 * d_model * d_model + 2 * d_model * d_ff)  # a token, a layer
    pairs = 2 * 2 * length * d_model  # a token, a layer: scores, and the mixture of values
    return batch * length * (num_layers * (projections + pairs) + 2 * d_model * vocab_size)


def decoder_activation_bytes(
    *,
    d_model: int,
    num_layers: int,
    num_heads: int,
    batch: int,
    length: int,
    d_ff: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> int:
    """Count what a GPT's forward pass keeps for its backward pass, without dropout and with fused attention.

    Each layer keeps 8 vectors of a token: the stream before either norm and the two normalised ones, its query, key and
    value, and what attention gave; then the hidden features of the feed-forward net, before and after the nonlinearity.
    A norm keeps two numbers. Fused attention keeps one number a head, in 32 bits, instead of a row of the T × T map.

    Paper: Korthikanti et al. 2023 [korthikanti2023reducing], Section 4.
    Differs: theirs is without fused attention, with dropout, and in 16 bits: 34 D + 5 H T bytes a token and layer.
    """
    d_ff = 4 * d_model if d_ff is None else d_ff
    numbers = num_layers * (8 * d_model + 2 * d_ff + 4) + 2 * d_model + 2  # a token; the last norm is one more
    heads = 4 * num_layers * num_heads
    return batch * length * (numbers * dtype.itemsize + heads) + 8 * (batch * length + length)  # and ids, positions


@contextlib.contextmanager
def _without_mkldnn() -> Iterator[None]:
    before = torch.backends.mkldnn.set_flags(_enabled=False)
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(_enabled=before[0])


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
