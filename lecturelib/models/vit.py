"""ViT: a picture is 16 × 16 words. An encoder over patches, with a class token that collects what they say."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PreNorm
from lecturelib.layers.checks import check_config, check_heads
from lecturelib.layers.initialisation import initialise, truncated_normal_
from lecturelib.layers.patches import GridPositions, PatchEmbedding, Size, check_divisible, pair
from lecturelib.layers.residual import StochasticDepth, depth_rates
from lecturelib.models.huggingface import Entry, Source, copy_weights, read_checkpoint, require_settings


@dataclass(frozen=True, kw_only=True)
class ViTConfig:
    """The sizes of a ViT or DeiT; `d_ff` is 4 · d_model when left out.

    `image_size` is the one that the table of positions is made for; pictures of other sizes interpolate it.
    """

    image_size: Size = 224
    patch_size: int = 16
    num_channels: int = 3
    num_classes: int = 1000
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int | None = None
    dropout: float = 0.0
    drop_path: float = 0.0
    eps: float = 1e-6

    def __post_init__(self) -> None:
        sizes = ("patch_size", "num_channels", "num_classes", "d_model", "num_heads", "num_layers")
        check_config(self, sizes=sizes if self.d_ff is None else (*sizes, "d_ff"), dropout=("dropout", "drop_path"))
        check_heads(self.d_model, self.num_heads, "ViTConfig")
        check_divisible(self.image_size, self.patch_size, "ViTConfig: an image_size")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches in a picture of `image_size`."""
        height, width = pair(self.image_size)
        return height // self.patch_size, width // self.patch_size


VIT_TINY = ViTConfig(d_model=192, num_heads=3, num_layers=12)
VIT_SMALL = ViTConfig(d_model=384, num_heads=6, num_layers=12)
VIT_BASE = ViTConfig(d_model=768, num_heads=12, num_layers=12)
VIT_LARGE = ViTConfig(d_model=1024, num_heads=16, num_layers=24)
VIT_HUGE = ViTConfig(patch_size=14, d_model=1280, num_heads=16, num_layers=32)


class ViTEncoder(nn.Module):
    """What ViT and DeiT share: patches and prefix tokens with positions, pre-norm blocks, and a last norm.

    Paper: Dosovitskiy et al. 2021 [dosovitskiy2021image], Equations 1 to 3.
    Differs: stochastic depth, growing with the layer, as in DeiT; none at `drop_path` 0.

    Args:
        config: the sizes
        num_prefix: learned tokens before the patches: a class token, and for DeiT a distillation token
    """

    def __init__(self, config: ViTConfig, *, num_prefix: int = 1) -> None:
        super().__init__()
        d_model, dropout = config.d_model, config.dropout
        self.patches = PatchEmbedding(config.num_channels, d_model, config.patch_size)
        self.prefix_tokens = nn.ParameterList(torch.zeros(1, 1, d_model) for _ in range(num_prefix))
        self.positions = GridPositions(config.grid, d_model, num_prefix=num_prefix)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(
                MultiHeadAttention(d_model, config.num_heads),
                FeedForward(d_model, config.d_ff or 4 * d_model, activation=F.gelu, dropout=dropout),
                partial(_wiring, d_model, dropout, config.eps, rate),
            )
            for rate in depth_rates(config.drop_path, config.num_layers)
        )
        self.norm = nn.LayerNorm(d_model, eps=config.eps)
        self.apply(initialise)
        for parameter in (*self.prefix_tokens, self.positions.weight):
            truncated_normal_(parameter)

    def forward(self, images: Tensor) -> Tensor:
        """Encode pictures of any height and width that patches cover.

        Shapes: (B, channels, height, width) -> tokens (B, prefix + N, D)
        """
        grid = self.patches(images)  # (B, rows, columns, D)
        rows, columns = grid.shape[1:3]
        prefix = [token.expand(len(images), -1, -1) for token in self.prefix_tokens]  # (B, 1, D) each
        x = torch.cat((*prefix, grid.flatten(1, 2)), dim=1)  # (B, prefix + N, D)
        x = self.dropout(x + self.positions((rows, columns)))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def _wiring(d_model: int, dropout: float, eps: float, rate: float) -> PreNorm:
    return PreNorm(d_model, dropout=dropout, eps=eps, branch=StochasticDepth(rate) if rate else None)


class ViT(nn.Module):
    """Classify pictures by their class token.

    Paper: Dosovitskiy et al. 2021 [dosovitskiy2021image], Section 3.1; Tiny and Small are DeiT's sizes.
    Differs: the head is one matrix, as in the paper's fine-tuning; its pre-training head has a hidden layer.
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = ViTEncoder(config)
        self.head = nn.Linear(config.d_model, config.num_classes)
        self.head.apply(initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the classes.

        Shapes: images (B, channels, height, width) -> (B, classes)
        """
        return self.head(self.encoder(images)[:, 0])

    def set_image_size(self, image_size: Size) -> Self:
        """Interpolate the positions to another size once and for all, for fine-tuning there, and return self."""
        self.config = replace(self.config, image_size=image_size)
        self.encoder.positions.resize_(self.config.grid)
        return self

    @classmethod
    def from_huggingface(cls, source: Source, config: ViTConfig | None = None) -> Self:
        """Build a ViT with the weights of a `ViTForImageClassification` in the layout of the Hugging Face hub.

        Args:
            source: a state dict, a local `.safetensors` file or folder, or a name on the hub
                ("google/vit-base-patch16-224")
            config: the sizes; read from `config.json` when left out and there is one
        """
        tensors, settings = read_checkpoint(source)
        model = cls(huggingface_config(config, settings, "vit"))
        entries = huggingface_entries(model.encoder) | named("head", "classifier")
        copy_weights(model, tensors, entries, rename=huggingface_name)
        return model

    @classmethod
    def from_timm(cls, source: Source, config: ViTConfig) -> Self:
        """Build a ViT with the weights of a timm `VisionTransformer`: a state dict or a `.safetensors` file."""
        model = cls(config)
        copy_weights(model, read_checkpoint(source).tensors, timm_entries(model.encoder) | named("head", "head"))
        return model


def named(ours: str, theirs: str, *kinds: str) -> dict[str, Entry]:
    """The weight and the bias of one module, there and here."""
    return {f"{ours}.{kind}": Entry(f"{theirs}.{kind}") for kind in kinds or ("weight", "bias")}


def huggingface_config(config: ViTConfig | None, settings: dict[str, Any] | None, kind: str) -> ViTConfig:
    """The config that was given, or what a `config.json` says."""
    if config is not None:
        return config
    if settings is None:
        raise ValueError("the sizes are not in the weights alone; pass config=, such as config=VIT_BASE")
    require_settings(settings, {"model_type": kind, "hidden_act": "gelu", "qkv_bias": True})
    return ViTConfig(
        image_size=settings["image_size"],
        patch_size=settings["patch_size"],
        num_channels=settings["num_channels"],
        num_classes=len(settings.get("id2label") or range(settings.get("num_labels", 1000))),
        d_model=settings["hidden_size"],
        num_heads=settings["num_attention_heads"],
        num_layers=settings["num_hidden_layers"],
        d_ff=settings["intermediate_size"],
        dropout=settings.get("hidden_dropout_prob", 0.0),
        eps=settings.get("layer_norm_eps", 1e-12),
    )


def huggingface_name(name: str) -> str:
    """The name that a running model has, from the one that checkpoints on the hub have."""
    for prefix in ("vit.", "deit."):
        name = name.removeprefix(prefix)
    name = name.replace("encoder.layer.", "layers.")
    for old, new in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj")):
        name = name.replace(f"attention.attention.{old}", f"attention.{new}")
    name = name.replace("attention.output.dense", "attention.o_proj")
    return name.replace("intermediate.dense", "mlp.fc1").replace("output.dense", "mlp.fc2")


def huggingface_entries(encoder: ViTEncoder) -> dict[str, Entry]:
    """Where an encoder's weights are in a Hugging Face model."""
    tokens = ("embeddings.cls_token", "embeddings.distillation_token")
    entries = {f"encoder.prefix_tokens.{i}": Entry(tokens[i]) for i in range(len(encoder.prefix_tokens))}
    entries["encoder.positions.weight"] = Entry("embeddings.position_embeddings")
    entries |= named("encoder.patches.project", "embeddings.patch_embeddings.projection")
    entries |= named("encoder.norm", "layernorm")
    parts = {
        "mixer.query_proj": "attention.q_proj",
        "mixer.key_proj": "attention.k_proj",
        "mixer.value_proj": "attention.v_proj",
        "mixer.out_proj": "attention.o_proj",
        "mixer_wiring.norm": "layernorm_before",
        "feed_forward.widen": "mlp.fc1",
        "feed_forward.narrow": "mlp.fc2",
        "feed_forward_wiring.norm": "layernorm_after",
    }
    for layer in range(len(encoder.blocks)):
        for ours, theirs in parts.items():
            entries |= named(f"encoder.blocks.{layer}.{ours}", f"layers.{layer}.{theirs}")
    return entries


def timm_entries(encoder: ViTEncoder) -> dict[str, Entry]:
    """Where an encoder's weights are in a timm model."""
    tokens = ("cls_token", "dist_token")
    entries = {f"encoder.prefix_tokens.{i}": Entry(tokens[i]) for i in range(len(encoder.prefix_tokens))}
    entries["encoder.positions.weight"] = Entry("pos_embed")
    entries |= named("encoder.patches.project", "patch_embed.proj") | named("encoder.norm", "norm")
    for layer in range(len(encoder.blocks)):
        entries |= timm_block(f"encoder.blocks.{layer}", f"blocks.{layer}")
    return entries


def timm_block(ours: str, theirs: str) -> dict[str, Entry]:
    """One block in timm's names, its queries, keys and values being thirds of one matrix."""
    entries = {
        f"{ours}.mixer.{name}_proj.{kind}": Entry(f"{theirs}.attn.qkv.{kind}", third)
        for third, name in enumerate(("query", "key", "value"))
        for kind in ("weight", "bias")
    }
    for part, name in (
        ("mixer.out_proj", "attn.proj"),
        ("mixer_wiring.norm", "norm1"),
        ("feed_forward.widen", "mlp.fc1"),
        ("feed_forward.narrow", "mlp.fc2"),
        ("feed_forward_wiring.norm", "norm2"),
    ):
        entries |= named(f"{ours}.{part}", f"{theirs}.{name}")
    return entries
