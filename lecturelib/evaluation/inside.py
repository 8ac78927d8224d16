"""Look inside a decoder-only model: the stream after every layer, what heads attend to, and what happens without them.

These take any model with `token_embedding`, `blocks` whose mixers are `MultiHeadAttention`, `final_norm` and `head`: a
GPT or a Llama. Nothing in the model changes: what is switched off or patched is so within a `with` block.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from lecturelib.layers import attention_weights

Head = tuple[int, int]
"""A head by its layer and its number in it, both from 0."""


@torch.no_grad()
def residual_stream(model: Any, tokens: Tensor) -> Tensor:
    """The residual stream after the embedding and after every block. Shapes: tokens (B, T) -> (1 + L, B, T, D)"""
    states: list[Tensor] = []
    with ExitStack() as hooks:
        first = model.blocks[0].register_forward_pre_hook(lambda _, inputs: states.append(inputs[0]))
        hooks.callback(first.remove)
        for block in model.blocks:
            hooks.callback(block.register_forward_hook(lambda _, __, output: states.append(output)).remove)
        model(tokens)
    return torch.stack(states)


@torch.no_grad()
def logit_lens(model: Any, tokens: Tensor) -> Tensor:
    """What the model would say if it stopped after each layer: its final norm and head on the stream as it is then.

    Paper: nostalgebraist 2020 [nostalgebraist2020logit].
    Differs: nothing.

    Shapes: tokens (B, T) -> logits (1 + L, B, T, V)
    """
    return model.head(model.final_norm(residual_stream(model, tokens)))


@torch.no_grad()
def attention_of(model: Any, tokens: Tensor) -> Tensor:
    """The attention weights of every layer and head. Shapes: tokens (B, T) -> (L, H, B, T, T)"""
    with attention_weights(model) as seen:
        model(tokens)
    return torch.stack(list(seen.values())).transpose(1, 2)


def previous_token_scores(weights: Tensor) -> Tensor:
    """The mean weight from each token but the first to the one before it. Shapes: (L, H, B, T, T) -> (L, H)"""
    return weights.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=(-2, -1))


def induction_scores(weights: Tensor, *, period: int) -> Tensor:
    """The mean weight, in the second copy of a block, to the token after the same token in the first copy.

    The last 2 · period tokens are the block and its copy; what comes before them, such as a begin symbol, is free.

    Paper: Olsson et al. 2022 [olsson2022context], "prefix matching".
    Differs: a single repetition of random tokens.

    Shapes: (L, H, B, T, T) -> (L, H)
    """
    length = weights.shape[-1]
    if not 1 <= period <= length // 2:
        raise ValueError(f"a block of {period} tokens is not read twice in {length} tokens")
    asking = torch.arange(length - period, length, device=weights.device)
    return weights[..., asking, asking - period + 1].mean(dim=(-2, -1))


@torch.no_grad()
def head_averages(model: Any, tokens: Tensor) -> Tensor:
    """What each head has averaged, before the output projection mixes heads. Shapes: (B, T) -> (L, B, T, H, Dh)"""
    seen: list[Tensor] = []
    with ExitStack() as hooks:
        for block in model.blocks:
            mixer = block.mixer
            hook = mixer.out_proj.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
            hooks.callback(hook.remove)
        model(tokens)
    return torch.stack(seen).unflatten(-1, (model.blocks[0].mixer.num_heads, -1))


@contextmanager
def patched(model: Any, heads: Mapping[Head, Tensor | float]) -> Iterator[None]:
    """Within the block, give heads other averages: a tensor (B, T, Dh), as `head_averages` has them, or 0.0.

    Paper: Wang et al. 2023 [wang2023interpretability], Section 3, who patch paths from head to head as well.
    Differs: whole heads only.
    """
    with ExitStack() as hooks:
        for layer in sorted({layer for layer, _ in heads}):
            if not 0 <= layer < len(model.blocks):
                raise ValueError(f"there is no layer {layer}; this model has {len(model.blocks)}, counted from 0")
            mixer = model.blocks[layer].mixer
            chosen = {head: value for (at, head), value in heads.items() if at == layer}
            wrong = [head for head in chosen if not 0 <= head < mixer.num_heads]
            if wrong:
                raise ValueError(f"there is no head {wrong[0]}; a layer here has {mixer.num_heads}, counted from 0")
            hooks.callback(mixer.out_proj.register_forward_pre_hook(_replace(chosen, mixer.num_heads)).remove)
        yield


@contextmanager
def switched_off(model: Any, heads: Iterable[Head]) -> Iterator[None]:
    """Within the block, these heads add nothing to the stream."""
    with patched(model, dict.fromkeys(heads, 0.0)):
        yield


def _replace(chosen: Mapping[int, Tensor | float], num_heads: int) -> Any:
    def hook(_: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        heads = inputs[0].unflatten(-1, (num_heads, -1)).clone()  # (B, T, H, Dh)
        for head, value in chosen.items():
            heads[:, :, head] = value
        return (heads.flatten(-2),)

    return hook
