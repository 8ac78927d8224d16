"""Make of a model an equivalent that is quicker at inference, or say why not."""

from functools import partial
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as hooks_of_all

from lecturelib.fast.decoding import OneTokenBlocks, PreparedGPT
from lecturelib.fast.llama import OneTokenLlama, PreparedLlama
from lecturelib.fast.modules import (
    FUSE_UP_TO,
    InPlaceGELU,
    OneProjection,
    PreparedWindows,
    joined_projections,
    row_head,
)
from lecturelib.layers.attention import Attention, MultiHeadAttention
from lecturelib.layers.block import FeedForward
from lecturelib.layers.switch import SwitchFFN
from lecturelib.layers.windows import WindowAttention
from lecturelib.models.gpt import GPT
from lecturelib.models.llama import Llama

Model = TypeVar("Model")


class CannotPrepare(ValueError):
    """A model that does more than its layers say, which a prepared one would leave out; the message says what."""


def fast(model: nn.Module) -> Any:
    """An equivalent of a model in eval mode, for inference only: called, started and stepped as the model is.

    It shares the model's parameters but may keep copies of some, put together: change a weight, add a hook or an
    adapter, and prepare anew. Whatever it does not know how to prepare runs as it is.

    Raises:
        CannotPrepare: if the model trains, or is hooked, watched or wrapped: it would not be an equivalent
    """
    for name, part in model.named_modules():
        if reason := _why_not(part):
            raise CannotPrepare(f"{name or type(model).__name__} {reason}")
    if hooks_of_all._global_forward_hooks or hooks_of_all._global_forward_pre_hooks:
        raise CannotPrepare("a forward hook is registered for all modules; remove it first")
    prepared = _prepare(model, {})
    prepared.__dict__["forward"] = torch.no_grad()(prepared.forward)
    return prepared


def fast_if_possible(model: Model) -> Model | Any:
    """`fast(model)`, or the model itself where that cannot be, as a decoder wants it, which takes any model."""
    if not isinstance(model, nn.Module):
        return model
    try:
        return fast(model)
    except CannotPrepare:
        return model


def _why_not(part: nn.Module) -> str | None:
    if part.training:
        return "is in training mode; call model.eval() first"
    if part._forward_hooks or part._forward_pre_hooks:
        return "has a forward hook, which a prepared model would not call; remove it first"
    if "forward" in part.__dict__:
        return "has had its forward replaced, by a compiler or a wrapper; prepare the model inside"
    if type(part).__module__.startswith(("torch.nn.parallel", "torch.distributed", "torch._dynamo")):
        return f"is a {type(part).__name__}; prepare the model inside"
    if isinstance(part, Attention | SwitchFFN) and part.watchers:
        return "is being watched by attention_weights or routings; leave its block first"
    for name, parameter in part._parameters.items():
        if parameter is not None and (type(parameter) is not nn.Parameter or parameter.layout is not torch.strided):
            return f"has a {name} that is no plain matrix but a {type(parameter).__name__}"
    return None


def _prepare(part: nn.Module, done: dict[nn.Module, nn.Module]) -> nn.Module:
    """A copy of the tree of modules, its parameters shared, in which known parts are of a quicker kind."""
    if part in done:
        return done[part]
    copy = object.__new__(type(part))
    copy.__dict__.update(part.__dict__)
    copy.__dict__["_modules"] = {
        name: None if child is None else _prepare(child, done) for name, child in part._modules.items()
    }
    done[part] = copy
    if type(part) is MultiHeadAttention and part.d_model <= FUSE_UP_TO and _can_join(part):
        copy.__class__ = OneProjection
        copy.__dict__["joined"] = joined_projections(part)
    elif type(part) is FeedForward and _is_gelu(part.activation) and type(part.widen) is nn.Linear:
        copy.__class__ = InPlaceGELU
    elif type(part) is WindowAttention:
        copy.__class__ = PreparedWindows
        copy.__dict__["plans"] = {}
    elif type(part) is GPT and (one_token := OneTokenBlocks.prepare(copy.get_submodule("blocks"))):
        copy.__class__ = PreparedGPT
        copy.__dict__ |= {"one_token": one_token, "row_head": row_head(copy, part.token_embedding)}
    elif type(part) is Llama and (one_llama := OneTokenLlama.prepare(copy)):
        copy.__class__ = PreparedLlama
        copy.__dict__["one_token"] = one_llama
    return copy


def _can_join(attention: MultiHeadAttention) -> bool:
    projections = (attention.query_proj, attention.key_proj, attention.value_proj)
    return attention.kv_dim == attention.d_model and all(type(linear) is nn.Linear for linear in projections)


def _is_gelu(activation: Any) -> bool:
    return activation is F.gelu or (isinstance(activation, partial) and activation.func is F.gelu)
