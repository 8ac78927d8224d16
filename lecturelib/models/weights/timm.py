"""Layouts of timm: where it keeps what our vision models learn. Its files hold no sizes, so a config is needed."""

from collections.abc import Mapping

from torch import Tensor, nn

from lecturelib.models.cait import CaiT
from lecturelib.models.deit import DeiT
from lecturelib.models.swin import Swin
from lecturelib.models.swin_v2 import SwinV2
from lecturelib.models.vit import ViT, ViTConfig
from lecturelib.models.weights.layout import Entries, Entry, Layout, modules, stage_blocks

BLOCK = {
    "mixer.out_proj": "attn.proj",
    "mixer_wiring.norm": "norm1",
    "feed_forward.widen": "mlp.fc1",
    "feed_forward.narrow": "mlp.fc2",
    "feed_forward_wiring.norm": "norm2",
}
TOKENS = ("cls_token", "dist_token")
ENDS = {"patches.project": "patch_embed.proj", "norm": "norm", "head": "head"}
SWIN_ENDS = {"patches.project": "patch_embed.proj", "patch_norm": "patch_embed.norm", "norm": "norm", "head": "head.fc"}


def _block(ours: str, theirs: str) -> Entries:
    """One block, its queries, keys and values being thirds of one matrix."""
    thirds = {
        f"{ours}mixer.{name}_proj.{kind}": Entry(f"{theirs}attn.qkv.{kind}", third)
        for third, name in enumerate(("query", "key", "value"))
        for kind in ("weight", "bias")
    }
    return thirds | modules(BLOCK, ours, theirs)


def _encoder_entries(model: ViT | DeiT) -> Entries:
    encoder = model.encoder
    entries = {f"encoder.prefix_tokens.{i}": Entry(TOKENS[i]) for i in range(len(encoder.prefix_tokens))}
    entries["encoder.positions.weight"] = Entry("pos_embed")
    for layer in range(len(encoder.blocks)):
        entries |= _block(f"encoder.blocks.{layer}.", f"blocks.{layer}.")
    return entries | modules({"encoder.patches.project": "patch_embed.proj", "encoder.norm": "norm", "head": "head"})


def _deit_entries(model: DeiT) -> Entries:
    second = {} if model.distillation_head is None else {"distillation_head": "head_dist"}
    return _encoder_entries(model) | modules(second)


def _build_deit(model: type[DeiT], config: ViTConfig, tensors: Mapping[str, Tensor]) -> DeiT:
    return model.distilled(config) if "dist_token" in tensors else model(config)


def _cait_entries(model: CaiT) -> Entries:
    entries = modules(ENDS) | {"class_token": Entry("cls_token"), "positions.weight": Entry("pos_embed")}
    for layer in range(len(model.blocks)):
        ours = theirs = f"blocks.{layer}."
        entries |= _block(ours, theirs) | _scales(ours, theirs)
        entries |= modules({"before": "proj_l", "after": "proj_w"}, f"{ours}mixer.", f"{theirs}attn.")
    for layer in range(len(model.class_blocks)):
        ours, theirs = f"class_blocks.{layer}.", f"blocks_token_only.{layer}."
        entries |= _block(ours, theirs) | _scales(ours, theirs)
        # Not thirds of one matrix here: the query is for one token only.
        entries |= modules({"query_proj": "q", "key_proj": "k", "value_proj": "v"}, f"{ours}mixer.", f"{theirs}attn.")
    return entries


def _scales(ours: str, theirs: str) -> Entries:
    return {
        f"{ours}mixer_wiring.branch.0.scale": Entry(f"{theirs}gamma_1"),
        f"{ours}feed_forward_wiring.branch.0.scale": Entry(f"{theirs}gamma_2"),
    }


def _swin_trunk(model: Swin | SwinV2) -> Entries:
    """All but what biases the scores."""
    entries = modules(SWIN_ENDS)
    for i in range(1, len(model.config.num_layers)):
        entries |= modules({f"stages.{i}.merging.norm": f"layers.{i}.downsample.norm"})
        entries[f"stages.{i}.merging.reduce.weight"] = Entry(f"layers.{i}.downsample.reduction.weight")
    for ours, theirs in stage_blocks(model.config.num_layers, "layers"):
        block = _block(ours, theirs)
        entries |= {name.replace(".mixer.", ".mixer.attention."): entry for name, entry in block.items()}
    return entries


def _swin_entries(model: Swin) -> Entries:
    entries = _swin_trunk(model)
    for ours, theirs in stage_blocks(model.config.num_layers, "layers"):
        entries[f"{ours}mixer.attention.positions.table"] = Entry(f"{theirs}attn.relative_position_bias_table")
    return entries


def _swin_v2_entries(model: SwinV2) -> Entries:
    entries = _swin_trunk(model)
    for block, their_block in stage_blocks(model.config.num_layers, "layers"):
        ours, theirs = f"{block}mixer.attention.", f"{their_block}attn."
        entries |= modules({"positions.net.0": "cpb_mlp.0", "positions.net.2": "cpb_mlp.2"}, ours, theirs)
        entries[f"{ours}query_proj.bias"] = Entry(f"{theirs}q_bias")
        entries[f"{ours}value_proj.bias"] = Entry(f"{theirs}v_bias")
        entries[f"{ours}positions.log_sharpness"] = Entry(f"{theirs}logit_scale")
        del entries[f"{ours}key_proj.bias"], entries[f"{ours}positions.net.2.bias"]  # neither has one
    return entries


MARK = "patch_embed.proj."

TIMM: dict[type[nn.Module], Layout] = {
    ViT: Layout(entries=_encoder_entries, preset="VIT_BASE", mark=MARK),
    DeiT: Layout(
        entries=_deit_entries, preset="DEIT_BASE", mark=MARK, build=_build_deit, head=("head.", "distillation_head.")
    ),
    CaiT: Layout(entries=_cait_entries, preset="CAIT_S24", mark=MARK),
    Swin: Layout(
        entries=_swin_entries, preset="SWIN_TINY", mark=MARK, ignored=r".*\.(relative_position_index|attn_mask)"
    ),
    SwinV2: Layout(
        entries=_swin_v2_entries,
        preset="SWIN_V2_TINY",
        mark=MARK,
        ignored=r".*\.(relative_position_index|relative_coords_table|attn_mask|k_bias)",
    ),
}
