"""ViT, DeiT, Swin and Swin V2 in the names of the Hugging Face hub."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from lecturelib.models.deit import DeiT
from lecturelib.models.swin import Swin, SwinConfig
from lecturelib.models.swin_v2 import SwinV2, SwinV2Config
from lecturelib.models.vit import ViT, ViTConfig
from lecturelib.models.weights.layout import Entries, Entry, Layout, activation, modules, require_settings, stage_blocks

# ViT and DeiT -------------------------------------------------------------------------------------------------------

VIT_BLOCK = {
    "mixer.query_proj": "attention.q_proj",
    "mixer.key_proj": "attention.k_proj",
    "mixer.value_proj": "attention.v_proj",
    "mixer.out_proj": "attention.o_proj",
    "mixer_wiring.norm": "layernorm_before",
    "feed_forward.widen": "mlp.fc1",
    "feed_forward.narrow": "mlp.fc2",
    "feed_forward_wiring.norm": "layernorm_after",
}
VIT_ENDS = {"encoder.patches.project": "embeddings.patch_embeddings.projection", "encoder.norm": "layernorm"}
VIT_TOKENS = ("embeddings.cls_token", "embeddings.distillation_token")


def _image_sizes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that all vision configs share; sides that are written twice are read once where they must be equal."""
    size, patch = settings["image_size"], settings["patch_size"]
    if isinstance(patch, list | tuple):
        if len(set(patch)) != 1:
            raise ValueError(f"the checkpoint has patch_size={patch!r}; this model is built for square patches only")
        patch = patch[0]
    return {
        "image_size": size if isinstance(size, int) else tuple(size),
        "patch_size": patch,
        "num_channels": settings["num_channels"],
        "num_classes": len(settings.get("id2label") or range(settings.get("num_labels", 2))),  # two are not written
        "activation": activation(settings),
    }


def _vit_config(settings: dict[str, Any]) -> ViTConfig:
    if settings.get("model_type") not in ("vit", "deit"):
        raise ValueError(f"model_type must be 'vit' or 'deit', got {settings.get('model_type')!r}")
    require_settings(settings, {"qkv_bias": True})
    return ViTConfig(
        **_image_sizes(settings),
        d_model=settings["hidden_size"],
        num_heads=settings["num_attention_heads"],
        num_layers=settings["num_hidden_layers"],
        d_ff=settings["intermediate_size"],
        dropout=settings.get("hidden_dropout_prob", 0.0),
        eps=settings.get("layer_norm_eps", 1e-12),
    )


def _vit_name(name: str) -> str:
    """The name that a running model has, from the one that checkpoints on the hub have."""
    for prefix in ("vit.", "deit."):
        name = name.removeprefix(prefix)
    name = name.replace("encoder.layer.", "layers.")
    for old, new in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj")):
        name = name.replace(f"attention.attention.{old}", f"attention.{new}")
    name = name.replace("attention.output.dense", "attention.o_proj")
    return name.replace("intermediate.dense", "mlp.fc1").replace("output.dense", "mlp.fc2")


def _encoder_entries(model: ViT | DeiT) -> Entries:
    encoder = model.encoder
    entries = {f"encoder.prefix_tokens.{i}": Entry(VIT_TOKENS[i]) for i in range(len(encoder.prefix_tokens))}
    entries["encoder.positions.weight"] = Entry("embeddings.position_embeddings")
    for layer in range(len(encoder.blocks)):
        entries |= modules(VIT_BLOCK, f"encoder.blocks.{layer}.", f"layers.{layer}.")
    return entries | modules(VIT_ENDS)


def _vit_entries(model: ViT) -> Entries:
    return _encoder_entries(model) | modules({"head": "classifier"})


def _deit_entries(model: DeiT) -> Entries:
    """A plain DeiT, without a distillation token, is stored on the hub as a ViT."""
    plain = {"head": "classifier"}
    distilled = {"head": "cls_classifier", "distillation_head": "distillation_classifier"}
    return _encoder_entries(model) | modules(plain if model.distillation_head is None else distilled)


def _build_deit(model: type[DeiT], config: ViTConfig, tensors: Mapping[str, Tensor]) -> DeiT:
    is_distilled = any(name.endswith("embeddings.distillation_token") for name in tensors)
    return model.distilled(config) if is_distilled else model(config)


# Swin and Swin V2 ---------------------------------------------------------------------------------------------------

SWIN_BLOCK = {
    "mixer.attention.query_proj": "attention.self.query",
    "mixer.attention.key_proj": "attention.self.key",
    "mixer.attention.value_proj": "attention.self.value",
    "mixer.attention.out_proj": "attention.output.dense",
    "mixer_wiring.norm": "layernorm_before",
    "feed_forward.widen": "intermediate.dense",
    "feed_forward.narrow": "output.dense",
    "feed_forward_wiring.norm": "layernorm_after",
}
SWIN_ENDS = {
    "patches.project": "embeddings.patch_embeddings.projection",
    "patch_norm": "embeddings.norm",
    "norm": "layernorm",
    "head": "classifier",
}


def _swin_sizes(settings: dict[str, Any], kind: str) -> dict[str, Any]:
    expected = {"model_type": kind, "layer_norm_eps": 1e-5, "qkv_bias": True, "use_absolute_embeddings": False}
    require_settings(settings, expected)
    return _image_sizes(settings) | {
        "d_model": settings["embed_dim"],
        "num_layers": tuple(settings["depths"]),
        "num_heads": tuple(settings["num_heads"]),
        "window": settings["window_size"],
        "mlp_ratio": settings.get("mlp_ratio", 4.0),
        "drop_path": settings.get("drop_path_rate", 0.0),
    }


def _swin_config(settings: dict[str, Any]) -> SwinConfig:
    return SwinConfig(**_swin_sizes(settings, "swin"))


def _swin_v2_config(settings: dict[str, Any]) -> SwinV2Config:
    sides = settings.get("pretrained_window_sizes") or []
    return SwinV2Config(**_swin_sizes(settings, "swinv2"), pretrained_window=tuple(sides) if any(sides) else None)


def _swin_name(name: str) -> str:
    """The name that a checkpoint on the hub has, from the one that a running model has since transformers 5."""
    name = name.removeprefix("swin.").removeprefix("swinv2.")
    for new, old in (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value")):
        name = name.replace(f"attention.{new}", f"attention.self.{old}")
    name = name.replace("attention.o_proj", "attention.output.dense")
    name = name.replace("attention.relative_position_bias.", "attention.self.")
    return name.replace("mlp.fc1", "intermediate.dense").replace("mlp.fc2", "output.dense")


def _swin_trunk(model: Swin | SwinV2) -> Entries:
    """All but what biases the scores."""
    entries = modules(SWIN_ENDS)
    for i in range(1, len(model.config.num_layers)):
        before = f"encoder.layers.{i - 1}.downsample"  # there, merging ends the stage before
        entries |= modules({f"stages.{i}.merging.norm": f"{before}.norm"})
        entries[f"stages.{i}.merging.reduce.weight"] = Entry(f"{before}.reduction.weight")
    for ours, theirs in stage_blocks(model.config.num_layers, "encoder.layers"):
        entries |= modules(SWIN_BLOCK, ours, theirs)
    return entries


def _swin_entries(model: Swin) -> Entries:
    entries = _swin_trunk(model)
    for ours, theirs in stage_blocks(model.config.num_layers, "encoder.layers"):
        table = Entry(f"{theirs}attention.self.relative_position_bias_table")
        entries[f"{ours}mixer.attention.positions.table"] = table
    return entries


def _swin_v2_entries(model: SwinV2) -> Entries:
    entries = _swin_trunk(model)
    for block, their_block in stage_blocks(model.config.num_layers, "encoder.layers"):
        ours, theirs = f"{block}mixer.attention.", f"{their_block}attention.self."
        entries |= modules({"net.0": "0", "net.2": "2"}, f"{ours}positions.", f"{theirs}continuous_position_bias_mlp.")
        entries[f"{ours}positions.log_sharpness"] = Entry(f"{theirs}logit_scale")
        del entries[f"{ours}key_proj.bias"], entries[f"{ours}positions.net.2.bias"]  # neither has one
    return entries


# All ------------------------------------------------------------------------------------------------------------------

HEADS = ("head.", "distillation_head.")
POOLER = r"pooler\..*"  # of models without a head; no part of ours

VISION: dict[type[nn.Module], Layout] = {
    ViT: Layout(
        entries=_vit_entries,
        config=_vit_config,
        preset="VIT_BASE",
        rename=_vit_name,
        ignored=POOLER,
        head=HEADS,
    ),
    DeiT: Layout(
        entries=_deit_entries,
        config=_vit_config,
        preset="DEIT_BASE",
        build=_build_deit,
        rename=_vit_name,
        ignored=POOLER,
        head=HEADS,
    ),
    Swin: Layout(
        entries=_swin_entries,
        config=_swin_config,
        preset="SWIN_TINY",
        rename=_swin_name,
        ignored=rf"{POOLER}|.*\.relative_position_index",
    ),
    SwinV2: Layout(
        entries=_swin_v2_entries,
        config=_swin_v2_config,
        preset="SWIN_V2_TINY",
        rename=_swin_name,
        ignored=rf"{POOLER}|.*\.(relative_position_index|relative_coords_table)",
    ),
}
