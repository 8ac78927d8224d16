"""Write small GGUF files, as llama.cpp lays them out, so that reading them needs no download."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lecturelib.models.llama import Llama
from lecturelib.tokens.bpe import byte_characters

TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8}


def packed(tensor: Tensor, kind: str) -> bytes:
    """The bytes of a tensor in one of the types, quantised as llama.cpp does."""
    values = tensor.detach().float().numpy()
    if kind in ("F32", "F16"):
        return values.astype("<f4" if kind == "F32" else "<f2").tobytes()
    blocks = values.reshape(-1, 32)
    if kind == "Q8_0":
        scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
        codes = np.round(blocks / np.where(scale > 0, scale, 1)).astype(np.int8).view(np.uint8)
        return np.concatenate((scale.astype("<f2").view(np.uint8), codes), axis=1).tobytes()
    if kind == "Q4_0":
        extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
        scale = extreme / -8
        codes = np.clip(np.floor(blocks / np.where(scale != 0, scale, 1) + 8.5), 0, 15).astype(np.uint8)
        head = [scale.astype("<f2").view(np.uint8)]
    else:
        least = blocks.min(axis=1, keepdims=True)
        scale = (blocks.max(axis=1, keepdims=True) - least) / 15
        codes = np.clip(np.floor((blocks - least) / np.where(scale > 0, scale, 1) + 0.5), 0, 15).astype(np.uint8)
        head = [scale.astype("<f2").view(np.uint8), least.astype("<f2").view(np.uint8)]
    return np.concatenate([*head, codes[:, :16] | codes[:, 16:] << 4], axis=1).tobytes()


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    """A setting: the number of its type, and its bytes."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    items = [_value(item) for item in value]
    return struct.pack("<I", 9) + items[0][:4] + struct.pack("<Q", len(items)) + b"".join(item[4:] for item in items)


def write_gguf(path: Path, settings: dict[str, Any], tensors: dict[str, tuple[tuple[int, ...], int, bytes]]) -> Path:
    """Write settings and tensors, each its shape, the number of its type and its bytes."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(settings))
    head += b"".join(_text(name) + _value(value) for name, value in settings.items())
    body = b""
    for name, (shape, kind, content) in tensors.items():
        head += _text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
        head += struct.pack("<IQ", kind, len(body))
        body += content + bytes(-len(content) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + body)
    return path


TOKENIZER = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *byte_characters(), "Ġt", "he", "Ġthe"],
    "tokenizer.ggml.token_type": [3, 3, 3] + [1] * 259,
    "tokenizer.ggml.merges": ["Ġ t", "h e", "Ġt he"],
}
NAMES = {
    "token_embedding": "token_embd",
    "final_norm": "output_norm",
    "output": "output",
    "mixer.query_proj": "attn_q",
    "mixer.key_proj": "attn_k",
    "mixer.value_proj": "attn_v",
    "mixer.out_proj": "attn_output",
    "mixer_wiring.norm": "attn_norm",
    "feed_forward.gate": "ffn_gate",
    "feed_forward.widen": "ffn_up",
    "feed_forward.narrow": "ffn_down",
    "feed_forward_wiring.norm": "ffn_norm",
}


def write_llama(path: Path, model: Llama, kind: str = "F32", **changed: Any) -> Path:
    """Write a model with a small tokenizer: matrices in the type asked for, norms in F32."""
    config = model.config
    settings: dict[str, Any] = {
        "general.architecture": "llama",
        "llama.block_count": config.num_layers,
        "llama.context_length": config.max_len,
        "llama.embedding_length": config.d_model,
        "llama.feed_forward_length": config.hidden,
        "llama.attention.head_count": config.num_heads,
        "llama.attention.head_count_kv": config.key_heads,
        "llama.attention.layer_norm_rms_epsilon": config.eps,
        "llama.rope.freq_base": config.rope_base,
        "llama.rope.dimension_count": config.d_model // config.num_heads,
        "llama.vocab_size": config.vocab_size,
    }
    tensors = {}
    for name, parameter in model.named_parameters():
        module = name.removesuffix(".weight")
        if module.startswith("blocks."):
            _, layer, rest = module.split(".", 2)
            theirs = f"blk.{layer}.{NAMES[rest]}.weight"
        else:
            theirs = f"{NAMES[module]}.weight"
        chosen = kind if parameter.dim() == 2 else "F32"
        tensors[theirs] = (tuple(parameter.shape), TYPES[chosen], packed(parameter, chosen))
    return write_gguf(path, settings | TOKENIZER | changed, tensors)


def small_llama(**sizes: Any) -> Llama:
    """A Llama with moved parameters whose rows are whole blocks, for the tokenizer above."""
    from lecturelib.models.llama import LlamaConfig

    torch.manual_seed(0)
    shape = {"vocab_size": 262, "max_len": 96, "d_model": 64, "num_heads": 8, "num_kv_heads": 2, "num_layers": 2}
    model = Llama(LlamaConfig(**shape | {"d_ff": 96, "rope_base": 500.0} | sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model
