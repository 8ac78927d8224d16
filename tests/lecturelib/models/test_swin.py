"""Swin and Swin V2 against transformers and timm, on grids that windows tile and others, and their published sizes."""

import dataclasses

import pytest
import torch
from torch.testing import assert_close

from lecturelib.evaluation.cost import count_flops, count_parameters
from lecturelib.layers import MultiHeadAttention, WindowBias, attention_weights
from lecturelib.models import load
from lecturelib.models.swin import SWIN_BASE, SWIN_LARGE, SWIN_SMALL, SWIN_TINY, Swin, SwinConfig
from lecturelib.models.swin_v2 import SWIN_V2_TINY, CosineWindowBias, SwinV2, SwinV2Config, log_offsets

from .parity import assert_same_gradients, moved

SIZES = [
    {"image_size": 32, "patch_size": 2, "d_model": 6, "num_layers": (2, 2), "num_heads": (1, 2), "window": 4},
    {
        "image_size": 24,
        "patch_size": 2,
        "d_model": 8,
        "num_layers": (2, 3, 1),
        "num_heads": (2, 4, 2),
        "window": 3,
        "mlp_ratio": 2.0,
    },
]
KINDS = {
    "swin": (Swin, SwinConfig, "SwinForImageClassification", "SwinConfig", "swin_transformer", "SwinTransformer"),
    "swin-v2": (
        SwinV2,
        SwinV2Config,
        "Swinv2ForImageClassification",
        "Swinv2Config",
        "swin_transformer_v2",
        "SwinTransformerV2",
    ),
}


@pytest.fixture(params=list(KINDS))
def kind(request):
    return request.param


def ours_and_config(kind, sizes, **more):
    model, config = KINDS[kind][:2]
    return model, config(**sizes, num_classes=5, **more)


def huggingface(kind, sizes, **more):
    transformers = pytest.importorskip("transformers")
    _, _, model, config, _, _ = KINDS[kind]
    settings = getattr(transformers, config)(
        image_size=sizes["image_size"],
        patch_size=sizes["patch_size"],
        num_labels=5,
        embed_dim=sizes["d_model"],
        depths=list(sizes["num_layers"]),
        num_heads=list(sizes["num_heads"]),
        window_size=sizes["window"],
        mlp_ratio=sizes.get("mlp_ratio", 4.0),
        drop_path_rate=0.0,
        **more,
    )
    return moved(getattr(transformers, model)(settings))


def timm_model(timm, kind, sizes, **more):
    *_, module, model = KINDS[kind]
    arguments = {
        "img_size": sizes["image_size"],
        "patch_size": sizes["patch_size"],
        "num_classes": 5,
        "embed_dim": sizes["d_model"],
        "depths": sizes["num_layers"],
        "num_heads": sizes["num_heads"],
        "window_size": sizes["window"],
        "mlp_ratio": sizes.get("mlp_ratio", 4.0),
    }
    return moved(getattr(getattr(timm.models, module), model)(**arguments | more))


@pytest.mark.parametrize("sizes", SIZES)
def test_swin_matches_transformers_in_logits_and_gradients(kind, sizes):
    theirs, (model, config) = huggingface(kind, sizes), ours_and_config(kind, sizes)
    ours = load(model, theirs.state_dict(), config).eval()
    images = torch.randn(2, 3, sizes["image_size"], sizes["image_size"])
    assert_same_gradients(ours, theirs, lambda grads: load(model, grads, config), images)


@pytest.mark.parametrize("size", [(24, 40), (35, 33), (41, 26)])  # tiled by windows; odd pixels; padded windows
def test_swin_matches_transformers_at_other_sizes_of_picture(kind, size):
    theirs, (model, config) = huggingface(kind, SIZES[0]), ours_and_config(kind, SIZES[0])
    ours = load(model, theirs.state_dict(), config).eval()
    images = torch.randn(2, 3, *size)
    assert_close(ours(images), theirs(images).logits, atol=1e-4, rtol=1e-4)


def test_swin_matches_transformers_on_pictures_larger_than_its_own(kind):
    sizes = SIZES[0] | {"image_size": 16}  # grids of 8 × 8 and 4 × 4: the second is one window
    theirs, (model, config) = huggingface(kind, sizes), ours_and_config(kind, sizes)
    ours = load(model, theirs.state_dict(), config).eval()
    images = torch.randn(2, 3, 32, 40)
    assert_close(ours(images), theirs(images).logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sizes", SIZES)
def test_swin_matches_timm_in_logits_and_gradients(timm, kind, sizes):
    theirs, (model, config) = timm_model(timm, kind, sizes), ours_and_config(kind, sizes)
    ours = load(model, theirs.state_dict(), config).eval()
    images = torch.randn(2, 3, sizes["image_size"], sizes["image_size"])
    assert_same_gradients(ours, theirs, lambda grads: load(model, grads, config), images)


@pytest.mark.parametrize("size", [(16, 16), (16, 32)])  # grids of 8 × 8 and 4 × 4, of 8 × 16 and 4 × 8
def test_swin_windows_shrink_to_the_grid_as_in_timm(timm, kind, size):
    sizes = SIZES[0] | {"image_size": size, "window": 8}
    theirs, (model, config) = timm_model(timm, kind, sizes), ours_and_config(kind, sizes)
    assert config.stage_window(1) == (4, size[1] // 4)
    ours = load(model, theirs.state_dict(), config).eval()
    images = torch.randn(2, 3, *size)
    assert_close(ours(images), theirs(images), atol=1e-4, rtol=1e-4)


def test_swin_v2_measures_offsets_in_the_window_of_pretraining(timm):
    sizes = SIZES[0]
    theirs = timm_model(timm, "swin-v2", sizes, pretrained_window_sizes=(3, 2))
    _, config = ours_and_config("swin-v2", sizes, pretrained_window=(3, 2))
    ours = load(SwinV2, theirs.state_dict(), config).eval()
    images = torch.randn(2, 3, 32, 32)
    assert_close(ours(images), theirs(images), atol=1e-4, rtol=1e-4)
    other = load(SwinV2, theirs.state_dict(), dataclasses.replace(config, pretrained_window=None)).eval()
    assert not torch.allclose(other(images), theirs(images), atol=1e-3)


def test_swin_reads_sizes_from_a_folder(kind, tmp_path):
    theirs, (model, config) = huggingface(kind, SIZES[1]), ours_and_config(kind, SIZES[1])
    theirs.save_pretrained(tmp_path)
    ours = load(model, tmp_path).eval()
    assert ours.config == config
    images = torch.randn(2, 3, 24, 24)
    assert_close(ours(images), theirs(images).logits, atol=1e-4, rtol=1e-4)


def test_swin_names_what_does_not_fit(kind):
    state, (model, config) = dict(huggingface(kind, SIZES[0]).state_dict()), ours_and_config(kind, SIZES[0])
    state["classifier.extra"] = state.pop("classifier.bias")
    with pytest.raises(ValueError, match=r"missing .*: classifier\.bias; not known .*: classifier\.extra"):
        load(model, state, config)
    with pytest.raises(ValueError, match="pass config="):
        load(model, state)


@pytest.mark.parametrize(
    ("config", "parameters", "gmacs"),
    [
        (SWIN_TINY, 28_288_354, 4.491),
        (SWIN_SMALL, 49_606_258, 8.741),
        (SWIN_BASE, 87_768_224, 15.431),
        (SWIN_LARGE, 196_532_476, 34.476),
    ],
)
def test_swin_presets_have_the_published_sizes_and_costs(config, parameters, gmacs):
    with torch.device("meta"):
        model, images = Swin(config).eval(), torch.empty(1, 3, 224, 224)
    assert count_parameters(model) == parameters
    assert count_flops(model, images) / 2e9 == pytest.approx(gmacs, abs=6e-4)


def test_swin_v2_tiny_has_the_published_size():
    with torch.device("meta"):
        model = SwinV2(SWIN_V2_TINY)
    assert count_parameters(model) == 28_347_154  # the paper's 28M; the same in timm and transformers


def test_swin_costs_grow_in_proportion_to_the_picture():
    costs = {}
    for size in (112, 224, 448):
        with torch.device("meta"):
            model, images = Swin(dataclasses.replace(SWIN_TINY, num_classes=1)).eval(), torch.empty(1, 3, size, size)
        costs[size] = count_flops(model, images)
    assert costs[448] / costs[224] == pytest.approx(4, rel=1e-6)


def test_swin_gives_weights_of_every_block(kind):
    model, config = ours_and_config(kind, SIZES[0])
    swin, images = moved(model(config)), torch.randn(2, 3, 32, 32)
    with attention_weights(swin) as seen:
        logits = swin(images)
    assert_close(logits, swin(images), atol=1e-5, rtol=1e-4)
    weights = list(seen.values())
    assert [tuple(w.shape) for w in weights] == [(32, 1, 16, 16)] * 2 + [(8, 2, 16, 16)] * 2
    assert all(torch.allclose(w.sum(-1), torch.ones(()), atol=1e-5) for w in weights)
    assert (weights[1] == 0).any()
    assert not (weights[0] == 0).any()


def test_window_bias_depends_on_the_offset_alone():
    bias = WindowBias(2, (2, 3)).bias()  # (H, 6, 6)
    assert_close(bias[:, 0, 1], bias[:, 4, 5])  # one step to the right, in the first row and in the second
    assert_close(bias[:, 0, 4], bias[:, 1, 5])
    assert bias[0].unique().numel() == 3 * 5


def test_cosine_scores_ignore_the_length_of_queries_and_keys():
    attention = MultiHeadAttention(10, 2, positions=(part := CosineWindowBias(2, (2, 3))))
    q, k, v = torch.randn(3, 4, 2, 6, 5)
    where = torch.arange(6)
    options = {"is_causal": False, "need_weights": True}
    out, weights = attention.attend(part.turn(q, where), part.turn(k, where), v, None, **options)
    assert_close(
        attention.attend(part.turn(9 * q, where), part.turn(0.1 * k, where), v, None, **options), (out, weights)
    )
    cosine = torch.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1)
    assert_close(weights, (10 * cosine + part.bias()).softmax(-1))
    assert part.bias().min() > 0
    assert part.bias().max() < 16


def test_log_offsets_are_even_in_the_logarithm_and_reach_past_one_beyond_pretraining():
    offsets = log_offsets((4, 4)).view(7, 7, 2)
    assert_close(offsets, -offsets.flip(0, 1))
    assert offsets[3, 3].tolist() == [0, 0]
    assert offsets.max().item() == pytest.approx(torch.log2(torch.tensor(9.0)).item() / 3)
    larger = log_offsets((8, 8), pretrained_window=4).view(15, 15, 2)
    assert_close(larger[4:11, 4:11], offsets)  # what the small window knew stays where it was
    assert larger.max() < 1.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": (1,)}, r"every stage, got \(2, 2\) and \(1,\)"),
        ({"num_heads": (1, 5)}, "stage 1: num_heads must divide d_model, got d_model=12 and num_heads=5"),
        ({"image_size": 3}, "image_size 3 leaves nothing for the last of 2 stages; use 4 pixels or more"),
        ({"window": 0}, "window must be at least 1, got 0"),
    ],
)
def test_swin_says_what_is_wrong_with_its_sizes(kind, change, message):
    with pytest.raises(ValueError, match=message):
        ours_and_config(kind, SIZES[0] | change)
