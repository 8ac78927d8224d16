"""The decision transformer in the names of the Hugging Face hub."""

from typing import Any

from torch import nn

from lecturelib.models.decision_transformer import DecisionTransformer, DecisionTransformerConfig
from lecturelib.models.weights.huggingface.language import gpt_blocks
from lecturelib.models.weights.layout import Entries, Entry, Layout, activation, modules, require_settings

PARTS = {
    "return_embedding": "embed_return",
    "state_embedding": "embed_state",
    "action_embedding": "embed_action",
    "embedding_norm": "embed_ln",
    "final_norm": "encoder.ln_f",
    "head": "predict_action.0",
}


def _config(settings: dict[str, Any]) -> DecisionTransformerConfig:
    expected = {"model_type": "decision_transformer", "layer_norm_epsilon": 1e-5, "scale_attn_weights": True}
    require_settings(settings, expected | {"scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False})
    return DecisionTransformerConfig(
        state_dim=settings["state_dim"],
        action_dim=settings["act_dim"],
        max_steps=settings["max_ep_len"],
        d_model=settings["hidden_size"],
        num_heads=settings["n_head"],
        num_layers=settings["n_layer"],
        d_ff=settings.get("n_inner"),
        dropout=settings.get("resid_pdrop", 0.1),
        activation=activation(settings, "activation_function"),
        bounded=settings.get("action_tanh", True),
    )


def _entries(model: DecisionTransformer) -> Entries:
    """transformers adds the first row of a position table to all tokens, where the authors removed that table."""
    entries = modules(PARTS) | {"time_embedding.weight": Entry("embed_timestep.weight")}
    entries["embedding_norm.bias"] = entries["embedding_norm.bias"]._replace(plus="encoder.wpe.weight")
    return entries | gpt_blocks(len(model.blocks), "encoder.")


CONTROL: dict[type[nn.Module], Layout] = {
    DecisionTransformer: Layout(
        entries=_entries,
        config=_config,
        preset="DECISION_TRANSFORMER_HOPPER",
        ignored=r"encoder\.wte\.weight|predict_(state|return)\.(weight|bias)",
    )
}
