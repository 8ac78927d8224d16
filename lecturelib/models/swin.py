"""Swin: a pyramid of windows. Attention stays inside a window, and every other layer moves the windows."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PreNorm
from lecturelib.layers.checks import check_config, check_heads
from lecturelib.layers.initialisation import initialise
from lecturelib.layers.patches import PatchEmbedding, Size, check_images, pad_to_patches, pair
from lecturelib.layers.positions.window import WindowBias
from lecturelib.layers.residual import StochasticDepth, depth_rates
from lecturelib.layers.windows import Stage, Window, WindowAttention, join_neighbours
from lecturelib.models.huggingface import Entry, Source, copy_weights, read_checkpoint, require_settings
from lecturelib.models.vit import named, timm_block


@dataclass(frozen=True, kw_only=True)
class SwinConfig:
    """The sizes of a Swin: layers and heads of each stage, the width of the first, which doubles with every stage.

    `image_size` decides one thing only: where a stage's grid would be smaller than a window, the window shrinks to it.
    """

    image_size: Size = 224
    patch_size: int = 4
    num_channels: int = 3
    num_classes: int = 1000
    d_model: int
    num_heads: tuple[int, ...]
    num_layers: tuple[int, ...]
    window: int = 7
    mlp_ratio: float = 4.0
    drop_path: float = 0.0

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_config(
            self, sizes=("patch_size", "num_channels", "num_classes", "d_model", "window"), dropout=("drop_path",)
        )
        if len(self.num_heads) != len(self.num_layers) or not self.num_layers or min(self.num_layers) < 1:
            raise ValueError(
                f"{name}: num_layers and num_heads need a number of at least 1 for every stage, got "
                f"{self.num_layers} and {self.num_heads}"
            )
        for stage, heads in enumerate(self.num_heads):
            check_heads(self.width(stage), heads, f"{name}: stage {stage}")
        smallest = self.patch_size * 2 ** (len(self.num_layers) - 1)
        if min(pair(self.image_size)) < smallest:
            raise ValueError(
                f"{name}: image_size {self.image_size} leaves nothing for the last of {len(self.num_layers)} stages; "
                f"use {smallest} pixels or more, fewer stages or smaller patches"
            )

    def width(self, stage: int) -> int:
        """The width of a stage's tokens."""
        return self.d_model * 2**stage

    def stage_grid(self, stage: int) -> tuple[int, int]:
        """Rows and columns of a stage, in a picture of `image_size`."""
        height, width = pair(self.image_size)
        return height // self.patch_size // 2**stage, width // self.patch_size // 2**stage

    def stage_window(self, stage: int) -> Window:
        """A stage's window: no larger than the grid that it has in a picture of `image_size`."""
        rows, columns = self.stage_grid(stage)
        return min(self.window, rows), min(self.window, columns)


SWIN_TINY = SwinConfig(d_model=96, num_layers=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), drop_path=0.2)
SWIN_SMALL = SwinConfig(d_model=96, num_layers=(2, 2, 18, 2), num_heads=(3, 6, 12, 24), drop_path=0.3)
SWIN_BASE = SwinConfig(d_model=128, num_layers=(2, 2, 18, 2), num_heads=(4, 8, 16, 32), drop_path=0.5)
SWIN_LARGE = SwinConfig(d_model=192, num_layers=(2, 2, 18, 2), num_heads=(6, 12, 24, 48), drop_path=0.2)


class PatchMerging(nn.Module):
    """Join each 2 × 2 patches into one of twice the width: norm, then one matrix.

    Paper: Liu et al. 2021 [liu2021swin], Section 3.1.
    Differs: nothing; the norm is in the authors' code. An odd side is padded with zeros.

    Args:
        d_model: width of the patches that come in

    Shapes: (B, rows, columns, D) -> (B, rows / 2, columns / 2, 2 · D)
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * d_model)
        self.reduce = nn.Linear(4 * d_model, 2 * d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Half the sides, twice the width."""
        return self.reduce(self.norm(join_neighbours(x)))


class Swin(nn.Module):
    """Classify pictures by the mean of the last stage's patches.

    Paper: Liu et al. 2021 [liu2021swin], Section 3.
    Differs: nothing. Pictures may have any height and width: what patches, windows and merging do not cover is padded
    with zeros, as in the authors' detection code.
    """

    def __init__(self, config: SwinConfig) -> None:
        super().__init__()
        self.config = config
        rates = iter(depth_rates(config.drop_path, sum(config.num_layers)))
        self.patches = PatchEmbedding(config.num_channels, config.d_model, config.patch_size)
        self.patch_norm = nn.LayerNorm(config.d_model)
        self.stages = nn.ModuleList(
            Stage(
                PatchMerging(config.width(stage - 1)) if stage else None,
                [_block(config, stage, shifted=layer % 2 == 1, rate=next(rates)) for layer in range(depth)],
            )
            for stage, depth in enumerate(config.num_layers)
        )
        last = config.width(len(config.num_layers) - 1)
        self.norm = nn.LayerNorm(last)
        self.head = nn.Linear(last, config.num_classes)
        self.apply(initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the classes.

        Shapes: images (B, channels, height, width) -> (B, classes)
        """
        check_images(images, self.config.num_channels)
        x = self.patch_norm(self.patches(pad_to_patches(images, self.config.patch_size)))  # (B, rows, columns, D)
        for stage in self.stages:
            x = stage(x)
        return self.head(self.norm(x).mean(dim=(1, 2)))

    @classmethod
    def from_huggingface(cls, source: Source, config: SwinConfig | None = None) -> Self:
        """Build a Swin with the weights of a `SwinForImageClassification` in the layout of the Hugging Face hub.

        Args:
            source: a state dict, a local `.safetensors` file or folder, or a name on the hub
                ("microsoft/swin-tiny-patch4-window7-224")
            config: the sizes; read from `config.json` when left out and there is one
        """
        tensors, settings = read_checkpoint(source)
        model = cls(_config(config, settings))
        ignored = r".*\.relative_position_index"
        copy_weights(model, tensors, _huggingface_entries(model), ignored=ignored, rename=_huggingface_name)
        return model

    @classmethod
    def from_timm(cls, source: Source, config: SwinConfig) -> Self:
        """Build a Swin with the weights of a timm `SwinTransformer`: a state dict or a `.safetensors` file."""
        model = cls(config)
        ignored = r".*\.(relative_position_index|attn_mask)"
        copy_weights(model, read_checkpoint(source).tensors, _timm_entries(model), ignored=ignored)
        return model


def _block(config: SwinConfig, stage: int, *, shifted: bool, rate: float) -> Block:
    width, num_heads, window = config.width(stage), config.num_heads[stage], config.stage_window(stage)
    attention = MultiHeadAttention(width, num_heads, positions=WindowBias(num_heads, window))
    shift = (window[0] // 2, window[1] // 2) if shifted else (0, 0)
    return Block(
        WindowAttention(attention, window, shift),
        FeedForward(width, int(config.mlp_ratio * width), activation=F.gelu),
        partial(_wiring, width, rate),
    )


def _wiring(d_model: int, rate: float) -> PreNorm:
    return PreNorm(d_model, branch=StochasticDepth(rate) if rate else None)


def _config(config: SwinConfig | None, settings: dict[str, Any] | None) -> SwinConfig:
    if config is not None:
        return config
    if settings is None:
        raise ValueError("the sizes are not in the weights alone; pass config=, such as config=SWIN_TINY")
    expected = {"model_type": "swin", "hidden_act": "gelu", "layer_norm_eps": 1e-5, "qkv_bias": True}
    require_settings(settings, expected | {"use_absolute_embeddings": False})
    return SwinConfig(**huggingface_sizes(settings))


def huggingface_sizes(settings: dict[str, Any]) -> dict[str, Any]:
    """The fields of a config that `config.json` holds, under the names that they have here."""
    return {
        "image_size": settings["image_size"],
        "patch_size": settings["patch_size"],
        "num_channels": settings["num_channels"],
        "num_classes": len(settings.get("id2label") or range(settings.get("num_labels", 1000))),
        "d_model": settings["embed_dim"],
        "num_layers": tuple(settings["depths"]),
        "num_heads": tuple(settings["num_heads"]),
        "window": settings["window_size"],
        "mlp_ratio": settings.get("mlp_ratio", 4.0),
        "drop_path": settings.get("drop_path_rate", 0.0),
    }


def _huggingface_name(name: str) -> str:
    """The name that a checkpoint on the hub has, from the one that a running model has since transformers 5."""
    name = name.removeprefix("swin.")
    for new, old in (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value")):
        name = name.replace(f"attention.{new}", f"attention.self.{old}")
    name = name.replace("attention.o_proj", "attention.output.dense")
    name = name.replace("attention.relative_position_bias.", "attention.self.")
    return name.replace("mlp.fc1", "intermediate.dense").replace("mlp.fc2", "output.dense")


def huggingface_block(ours: str, theirs: str) -> dict[str, Entry]:
    """One block's matrices and norms in the names of the hub; what biases the scores is not among them."""
    entries: dict[str, Entry] = {}
    for part, name in (
        ("mixer.attention.query_proj", "attention.self.query"),
        ("mixer.attention.key_proj", "attention.self.key"),
        ("mixer.attention.value_proj", "attention.self.value"),
        ("mixer.attention.out_proj", "attention.output.dense"),
        ("mixer_wiring.norm", "layernorm_before"),
        ("feed_forward.widen", "intermediate.dense"),
        ("feed_forward.narrow", "output.dense"),
        ("feed_forward_wiring.norm", "layernorm_after"),
    ):
        entries |= named(f"{ours}.{part}", f"{theirs}.{name}")
    return entries


def _huggingface_entries(model: Swin) -> dict[str, Entry]:
    entries = named("patches.project", "embeddings.patch_embeddings.projection")
    entries |= named("patch_norm", "embeddings.norm") | named("norm", "layernorm") | named("head", "classifier")
    for i, stage in enumerate(model.config.num_layers):
        if i:  # there, merging ends the stage before
            entries |= named(f"stages.{i}.merging.norm", f"encoder.layers.{i - 1}.downsample.norm")
            entries |= named(f"stages.{i}.merging.reduce", f"encoder.layers.{i - 1}.downsample.reduction", "weight")
        for j in range(stage):
            ours, theirs = f"stages.{i}.blocks.{j}", f"encoder.layers.{i}.blocks.{j}"
            entries |= huggingface_block(ours, theirs)
            table = Entry(f"{theirs}.attention.self.relative_position_bias_table")
            entries[f"{ours}.mixer.attention.positions.table"] = table
    return entries


def _timm_entries(model: Swin) -> dict[str, Entry]:
    entries = named("patches.project", "patch_embed.proj") | named("patch_norm", "patch_embed.norm")
    entries |= named("norm", "norm") | named("head", "head.fc")
    for i, stage in enumerate(model.config.num_layers):
        if i:
            entries |= named(f"stages.{i}.merging.norm", f"layers.{i}.downsample.norm")
            entries |= named(f"stages.{i}.merging.reduce", f"layers.{i}.downsample.reduction", "weight")
        for j in range(stage):
            ours, theirs = f"stages.{i}.blocks.{j}", f"layers.{i}.blocks.{j}"
            block = timm_block(ours, theirs)
            entries |= {name.replace(".mixer.", ".mixer.attention."): entry for name, entry in block.items()}
            entries[f"{ours}.mixer.attention.positions.table"] = Entry(f"{theirs}.attn.relative_position_bias_table")
    return entries
