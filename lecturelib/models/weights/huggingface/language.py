"""GPT-1, GPT-2, Llama and BERT in the names of the Hugging Face hub."""

from typing import Any

from torch import nn

from lecturelib.models.bert import BERT, EPS, BERTConfig, BERTPretraining
from lecturelib.models.gpt import GPT, GPTConfig
from lecturelib.models.llama import Llama, LlamaConfig
from lecturelib.models.weights.layout import Entries, Entry, Layout, activation, modules, require_settings, weights

# GPT ----------------------------------------------------------------------------------------------------------------

GPT_BLOCK = {
    "mixer.out_proj": "attn.c_proj",
    "feed_forward.widen": "mlp.c_fc",
    "feed_forward.narrow": "mlp.c_proj",
}
GPT_NORMS = {"mixer_wiring.norm": "ln_1", "feed_forward_wiring.norm": "ln_2"}


def _gpt_config(settings: dict[str, Any]) -> GPTConfig:
    wirings = {"gpt2": "pre_norm", "openai-gpt": "post_norm"}
    if settings.get("model_type") not in wirings:
        raise ValueError(f"model_type must be one of {sorted(wirings)}, got {settings.get('model_type')!r}")
    expected = {"layer_norm_epsilon": 1e-5, "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
    require_settings(settings, expected | {"afn": "gelu", "tie_word_embeddings": True})  # GPT-1's "gelu" is by tanh
    if settings.get("activation_function") != "gelu_pytorch_tanh":  # another name for the same
        require_settings(settings, {"activation_function": "gelu_new"})
    return GPTConfig(
        vocab_size=settings["vocab_size"],
        max_len=settings["n_positions"],
        d_model=settings["n_embd"],
        num_heads=settings["n_head"],
        num_layers=settings["n_layer"],
        d_ff=settings.get("n_inner"),
        dropout=settings.get("resid_pdrop", 0.1),
        wiring=wirings[settings["model_type"]],
    )


def _gpt_name(name: str) -> str:
    name = name.removeprefix("transformer.")
    return name.replace("tokens_embed.", "wte.").replace("positions_embed.", "wpe.")  # GPT-1's names


def _gpt_entries(model: GPT) -> Entries:
    """Their matrices are (in, out), and one of them holds queries, keys and values."""
    entries = {"token_embedding.weight": Entry("wte.weight"), "positions.weight": Entry("wpe.weight")}
    entries |= gpt_blocks(len(model.blocks))
    return entries | (modules({"final_norm": "ln_f"}) if isinstance(model.final_norm, nn.LayerNorm) else {})


def gpt_blocks(count: int, prefix: str = "") -> Entries:
    """The blocks of a stack that is GPT-2's."""
    entries: Entries = {}
    for layer in range(count):
        ours, theirs = f"blocks.{layer}.", f"{prefix}h.{layer}."
        matrices = modules(GPT_BLOCK, ours, theirs)
        for third, part in enumerate(("query", "key", "value")):
            for kind in ("weight", "bias"):
                matrices[f"{ours}mixer.{part}_proj.{kind}"] = Entry(f"{theirs}attn.c_attn.{kind}", third)
        entries |= {name: entry._replace(transposed=name.endswith("weight")) for name, entry in matrices.items()}
        entries |= modules(GPT_NORMS, ours, theirs)
    return entries


# Llama --------------------------------------------------------------------------------------------------------------

LLAMA_BLOCK = {
    "mixer.query_proj": "self_attn.q_proj",
    "mixer.key_proj": "self_attn.k_proj",
    "mixer.value_proj": "self_attn.v_proj",
    "mixer.out_proj": "self_attn.o_proj",
    "mixer_wiring.norm": "input_layernorm",
    "feed_forward.gate": "mlp.gate_proj",
    "feed_forward.widen": "mlp.up_proj",
    "feed_forward.narrow": "mlp.down_proj",
    "feed_forward_wiring.norm": "post_attention_layernorm",
}


def _llama_config(settings: dict[str, Any]) -> LlamaConfig:
    expected = {"model_type": "llama", "hidden_act": "silu", "attention_bias": False, "mlp_bias": False}
    require_settings(settings, expected | {"rope_scaling": None})
    rope = {"rope_theta": settings.get("rope_theta", 10_000.0)} | (settings.get("rope_parameters") or {})
    require_settings(rope, {"rope_type": "default"})
    if (settings.get("head_dim") or 0) * settings["num_attention_heads"] not in (0, settings["hidden_size"]):
        width = settings["hidden_size"] // settings["num_attention_heads"]
        require_settings(settings, {"head_dim": width})
    return LlamaConfig(
        vocab_size=settings["vocab_size"],
        max_len=settings["max_position_embeddings"],
        d_model=settings["hidden_size"],
        num_heads=settings["num_attention_heads"],
        num_kv_heads=settings.get("num_key_value_heads"),
        num_layers=settings["num_hidden_layers"],
        d_ff=settings["intermediate_size"],
        rope_base=rope["rope_theta"],
        eps=settings["rms_norm_eps"],
        tied=settings.get("tie_word_embeddings", False),
    )


def _llama_entries(model: Llama) -> Entries:
    """Their rotary pairs are the two halves of a head, ours are neighbours."""
    head_dim = model.config.d_model // model.config.num_heads
    entries = weights({"token_embedding": "embed_tokens", "final_norm": "norm"})
    entries |= {} if model.config.tied else weights({"output": "lm_head"})
    for layer in range(len(model.blocks)):
        ours = f"blocks.{layer}."
        entries |= weights(LLAMA_BLOCK, ours, f"layers.{layer}.")
        for name in (f"{ours}mixer.query_proj.weight", f"{ours}mixer.key_proj.weight"):
            entries[name] = entries[name]._replace(halves=head_dim)
    return entries


# BERT ---------------------------------------------------------------------------------------------------------------

BERT_BLOCK = {
    "mixer.query_proj": "attention.self.query",
    "mixer.key_proj": "attention.self.key",
    "mixer.value_proj": "attention.self.value",
    "mixer.out_proj": "attention.output.dense",
    "mixer_wiring.norm": "attention.output.LayerNorm",
    "feed_forward.widen": "intermediate.dense",
    "feed_forward.narrow": "output.dense",
    "feed_forward_wiring.norm": "output.LayerNorm",
}
BERT_HEADS = {
    "transform": "cls.predictions.transform.dense",
    "norm": "cls.predictions.transform.LayerNorm",
    "next_sentence": "cls.seq_relationship",
}
BERT_NO_WEIGHTS = r"embeddings\.(position_ids|token_type_ids)"


def _bert_config(settings: dict[str, Any]) -> BERTConfig:
    expected = {"model_type": "bert", "layer_norm_eps": EPS, "is_decoder": False}
    require_settings(settings, expected | {"position_embedding_type": "absolute", "tie_word_embeddings": True})
    return BERTConfig(
        vocab_size=settings["vocab_size"],
        max_len=settings["max_position_embeddings"],
        d_model=settings["hidden_size"],
        num_heads=settings["num_attention_heads"],
        num_layers=settings["num_hidden_layers"],
        d_ff=settings["intermediate_size"],
        num_token_types=settings.get("type_vocab_size", 2),
        dropout=settings.get("hidden_dropout_prob", 0.1),
        activation=activation(settings),
    )


def _bert_name(name: str) -> str:
    """Drop the prefix of models with a head, and bring old names of the norms up to date."""
    name = name.removeprefix("bert.")
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _bert_entries(model: BERT) -> Entries:
    entries = modules({"norm": "embeddings.LayerNorm", "pooler": "pooler.dense"})
    for layer in range(len(model.blocks)):
        entries |= modules(BERT_BLOCK, f"blocks.{layer}.", f"encoder.layer.{layer}.")
    return entries | {
        "token_embedding.weight": Entry("embeddings.word_embeddings.weight"),
        "type_embedding.weight": Entry("embeddings.token_type_embeddings.weight"),
        "positions.weight": Entry("embeddings.position_embeddings.weight"),
    }


def _bert_pretraining_entries(model: BERTPretraining) -> Entries:
    entries = {f"bert.{ours}": entry for ours, entry in _bert_entries(model.bert).items()}
    return entries | modules(BERT_HEADS) | {"token_bias": Entry("cls.predictions.bias")}


# All ------------------------------------------------------------------------------------------------------------------

LANGUAGE: dict[type[nn.Module], Layout] = {
    GPT: Layout(
        entries=_gpt_entries,
        config=_gpt_config,
        preset="GPT2_SMALL",
        rename=_gpt_name,
        tied={"lm_head.weight": "wte.weight"},
        ignored=r"h\.\d+\.attn\.(bias|masked_bias)|positions?_ids",
    ),
    Llama: Layout(
        entries=_llama_entries,
        config=_llama_config,
        preset="SMOLLM2_135M",
        rename=lambda name: name.removeprefix("model."),
        tied={"lm_head.weight": "embed_tokens.weight"},
        ignored=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
        head=("output.",),
    ),
    BERT: Layout(
        entries=_bert_entries,
        config=_bert_config,
        preset="BERT_BASE",
        rename=_bert_name,
        ignored=rf"{BERT_NO_WEIGHTS}|(cls|classifier|qa_outputs)\..*",
        head=("pooler.",),
    ),
    BERTPretraining: Layout(
        entries=_bert_pretraining_entries,
        config=_bert_config,
        preset="BERT_BASE",
        rename=_bert_name,
        tied={
            "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        ignored=BERT_NO_WEIGHTS,
        head=("bert.pooler.", "transform.", "norm.", "token_bias", "next_sentence."),
    ),
}
