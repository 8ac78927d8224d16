"""Llama in the names of GGUF files, and its sizes from their settings."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from lecturelib.models.llama import Llama, LlamaConfig
from lecturelib.models.weights.layout import Entries, Layout, require_settings, weights

BLOCK = {
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


def _config(settings: dict[str, Any]) -> LlamaConfig:
    require_settings(settings, {"general.architecture": "llama"})
    sizes = {name.removeprefix("llama."): value for name, value in settings.items() if name.startswith("llama.")}
    require_settings(sizes, {"rope.scaling.type": "none"})
    width = sizes["embedding_length"] // sizes["attention.head_count"]
    require_settings(sizes, {"rope.dimension_count": width, "attention.key_length": width})
    return LlamaConfig(
        vocab_size=sizes.get("vocab_size") or len(settings["tokenizer.ggml.tokens"]),
        max_len=sizes["context_length"],
        d_model=sizes["embedding_length"],
        num_heads=sizes["attention.head_count"],
        num_kv_heads=sizes.get("attention.head_count_kv"),
        num_layers=sizes["block_count"],
        d_ff=sizes["feed_forward_length"],
        rope_base=sizes.get("rope.freq_base", 10_000.0),
        eps=sizes["attention.layer_norm_rms_epsilon"],
    )


def _build(model: type[Llama], config: LlamaConfig, tensors: Mapping[str, Tensor]) -> nn.Module:
    return model(replace(config, tied="output.weight" not in tensors))


def _entries(model: Llama) -> Entries:
    """Rotary pairs are neighbours here and there: llama.cpp reorders the hub's rows when it writes the file."""
    entries = weights({"token_embedding": "token_embd", "final_norm": "output_norm"})
    entries |= {} if model.config.tied else weights({"output": "output"})
    for layer in range(len(model.blocks)):
        entries |= weights(BLOCK, f"blocks.{layer}.", f"blk.{layer}.")
    return entries


GGUF_LAYOUTS: dict[type[nn.Module], Layout] = {
    Llama: Layout(entries=_entries, config=_config, preset="SMOLLM2_135M", mark="token_embd.", build=_build),
}
