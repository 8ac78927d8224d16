"""ViT and DeiT against transformers and timm, at several sizes of picture, their published sizes, and their loaders."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from lecturelib.evaluation.cost import count_flops, count_parameters
from lecturelib.layers import attention_weights
from lecturelib.models import load
from lecturelib.models.deit import (
    DEIT_BASE,
    DEIT_SMALL,
    DEIT_TINY,
    DeiT,
    hard_distillation_loss,
    soft_distillation_loss,
)
from lecturelib.models.vit import VIT_BASE, VIT_HUGE, VIT_LARGE, VIT_SMALL, VIT_TINY, ViT, ViTConfig

from .parity import assert_same_gradients, moved

SIZES = [
    {
        "image_size": 12,
        "patch_size": 4,
        "num_channels": 3,
        "num_classes": 5,
        "d_model": 12,
        "num_heads": 2,
        "num_layers": 2,
        "d_ff": 20,
    },
    {
        "image_size": 10,
        "patch_size": 5,
        "num_channels": 1,
        "num_classes": 7,
        "d_model": 20,
        "num_heads": 5,
        "num_layers": 3,
        "d_ff": 31,
    },
]


def images(sizes, *size, batch=2):
    return torch.randn(batch, sizes["num_channels"], *(size or (sizes["image_size"],) * 2))


def huggingface(sizes, model, config, **more):
    transformers = pytest.importorskip("transformers")
    settings = getattr(transformers, config)(
        image_size=sizes["image_size"],
        patch_size=sizes["patch_size"],
        num_channels=sizes["num_channels"],
        num_labels=sizes["num_classes"],
        hidden_size=sizes["d_model"],
        num_attention_heads=sizes["num_heads"],
        num_hidden_layers=sizes["num_layers"],
        intermediate_size=sizes["d_ff"],
        **more,
    )
    return moved(getattr(transformers, model)(settings))


def timm_model(timm, name, sizes):
    module = {"VisionTransformer": "vision_transformer", "VisionTransformerDistilled": "deit"}[name]
    return moved(
        getattr(getattr(timm.models, module), name)(
            img_size=sizes["image_size"],
            patch_size=sizes["patch_size"],
            in_chans=sizes["num_channels"],
            num_classes=sizes["num_classes"],
            embed_dim=sizes["d_model"],
            num_heads=sizes["num_heads"],
            depth=sizes["num_layers"],
            mlp_ratio=sizes["d_ff"] / sizes["d_model"],
        )
    )


@pytest.mark.parametrize("sizes", SIZES)
def test_vit_matches_transformers_in_logits_and_gradients(sizes):
    theirs = huggingface(sizes, "ViTForImageClassification", "ViTConfig")
    config = ViTConfig(**sizes, eps=1e-12)
    ours = load(ViT, theirs.state_dict(), config).eval()
    assert_same_gradients(ours, theirs, lambda grads: load(ViT, grads, config), images(sizes))


@pytest.mark.parametrize("size", [(16, 8), (20, 20), (8, 24)])
def test_vit_matches_transformers_at_other_sizes_of_picture(size):
    theirs = huggingface(SIZES[0], "ViTForImageClassification", "ViTConfig")
    ours = load(ViT, theirs.state_dict(), ViTConfig(**SIZES[0], eps=1e-12)).eval()
    inputs = images(SIZES[0], *size)
    want = theirs(inputs, interpolate_pos_encoding=True).logits
    assert_close(ours(inputs), want, atol=1e-5, rtol=1e-4)
    assert_close(ours.set_image_size(size)(inputs), want, atol=1e-5, rtol=1e-4)
    assert ours.config.grid == (size[0] // 4, size[1] // 4)


def test_vit_reads_sizes_from_a_folder_and_gives_the_weights_of_transformers(tmp_path):
    theirs = huggingface(SIZES[1], "ViTForImageClassification", "ViTConfig", layer_norm_eps=1e-3)
    theirs.save_pretrained(tmp_path)
    ours = load(ViT, tmp_path).eval()
    assert ours.config == ViTConfig(**SIZES[1], eps=1e-3)
    theirs.set_attn_implementation("eager")
    inputs = images(SIZES[1])
    want = theirs(inputs, output_attentions=True)
    with attention_weights(ours) as seen:
        logits = ours(inputs)
    assert_close(logits, want.logits, atol=1e-5, rtol=1e-4)
    assert_close(list(seen.values()), list(want.attentions), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("sizes", SIZES)
def test_vit_matches_timm_in_logits_and_gradients(timm, sizes):
    theirs = timm_model(timm, "VisionTransformer", sizes)
    config = ViTConfig(**sizes)
    ours = load(ViT, theirs.state_dict(), config).eval()
    assert_same_gradients(ours, theirs, lambda grads: load(ViT, grads, config), images(sizes))


@pytest.mark.parametrize("sizes", SIZES)
def test_distilled_deit_matches_transformers(sizes):
    theirs = huggingface(sizes, "DeiTForImageClassificationWithTeacher", "DeiTConfig")
    config = ViTConfig(**sizes, eps=1e-12)
    ours = load(DeiT, theirs.state_dict(), config).eval()
    inputs = images(sizes)
    want = theirs(inputs)
    assert_close(ours.both_heads(inputs), (want.cls_logits, want.distillation_logits), atol=1e-5, rtol=1e-4)
    assert_same_gradients(ours, theirs, lambda grads: load(DeiT, grads, config), inputs)
    larger = images(sizes, 15 * sizes["patch_size"], 2 * sizes["patch_size"])
    want = theirs(larger, interpolate_pos_encoding=True).logits
    assert_close(ours(larger), want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("sizes", SIZES)
def test_plain_deit_matches_transformers(sizes, tmp_path):
    theirs = huggingface(sizes, "ViTForImageClassification", "ViTConfig")  # how the hub stores plain DeiTs
    config = ViTConfig(**sizes, eps=1e-12)
    ours = load(DeiT, theirs.state_dict(), config).eval()
    assert ours.distillation_head is None
    assert_same_gradients(ours, theirs, lambda grads: load(DeiT, grads, config), images(sizes))
    theirs.save_pretrained(tmp_path)
    from_folder = load(DeiT, tmp_path).eval()
    assert from_folder.config == config
    inputs = images(sizes)
    assert_close(from_folder(inputs), theirs(inputs).logits, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["VisionTransformer", "VisionTransformerDistilled"])
def test_deit_matches_timm(timm, name):
    theirs = timm_model(timm, name, SIZES[0])
    config = ViTConfig(**SIZES[0])
    ours = load(DeiT, theirs.state_dict(), config).eval()
    assert (ours.distillation_head is not None) == name.endswith("Distilled")
    assert_same_gradients(ours, theirs, lambda grads: load(DeiT, grads, config), images(SIZES[0]))


@pytest.mark.parametrize(
    ("build", "config", "parameters", "gmacs"),
    [
        (ViT, VIT_TINY, 5_717_416, 1.254),
        (ViT, VIT_SMALL, 22_050_664, 4.599),
        (ViT, VIT_BASE, 86_567_656, 17.564),
        (ViT, VIT_LARGE, 304_326_632, 61.555),
        (ViT, VIT_HUGE, 632_045_800, None),  # the paper's 632M
        (DeiT, DEIT_TINY, 5_717_416, 1.254),
        (DeiT, DEIT_SMALL, 22_050_664, 4.599),
        (DeiT.distilled, DEIT_TINY, 5_910_800, 1.261),
        (DeiT.distilled, DEIT_SMALL, 22_436_432, 4.624),
        (DeiT.distilled, DEIT_BASE, 87_338_192, 17.657),
    ],
)
def test_presets_have_the_published_sizes_and_costs(build, config, parameters, gmacs):
    with torch.device("meta"):
        model, inputs = build(config).eval(), torch.empty(1, 3, 224, 224)
    assert count_parameters(model) == parameters
    if gmacs is not None:
        assert count_flops(model, inputs) / 2e9 == pytest.approx(gmacs, abs=6e-4)


def test_vit_class_token_sees_patches_in_any_order_when_positions_are_equal():
    model = moved(ViT(ViTConfig(**SIZES[0])))
    with torch.no_grad():
        model.encoder.positions.weight.zero_()
    inputs = images(SIZES[0])
    patches = inputs.unflatten(2, (3, 4)).unflatten(4, (3, 4)).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    mixed = patches[:, torch.randperm(9)].unflatten(1, (3, 3)).permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)
    assert not torch.equal(mixed, inputs)
    assert_close(model(mixed), model(inputs), atol=1e-5, rtol=1e-4)


def test_vit_starts_as_published():
    model = ViT(ViTConfig(**SIZES[1]))
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            assert parameter.abs().max() <= 0.04, name
            assert parameter.std().item() == pytest.approx(0.0176, rel=0.4), name  # 0.02, cut at two deviations
        elif "norm" not in name:
            assert parameter.count_nonzero() == 0, name


def test_vit_drop_path_grows_with_the_layer_and_is_off_in_evaluation():
    config = ViTConfig(**SIZES[1], drop_path=0.5)
    model = ViT(config)
    assert [getattr(block.mixer_wiring.branch, "rate", 0.0) for block in model.encoder.blocks] == [0.0, 0.25, 0.5]
    inputs = images(SIZES[1], batch=30)
    assert not torch.equal(model(inputs), model(inputs))
    model.eval()
    assert torch.equal(model(inputs), model(inputs))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s: s.pop("vit.embeddings.cls_token"), r"missing from the checkpoint: embeddings\.cls_token"),
        (lambda s: s.update({"vit.extra": torch.zeros(1)}), r"not known to this model: vit\.extra"),
        (lambda s: s.update({"classifier.bias": torch.zeros(6)}), r"classifier\.bias has shape \(6,\), needed \(5,\)"),
    ],
)
def test_vit_names_what_does_not_fit(spoil, message):
    state = dict(huggingface(SIZES[0], "ViTForImageClassification", "ViTConfig").state_dict())
    spoil(state)
    with pytest.raises(ValueError, match=message):
        load(ViT, state, ViTConfig(**SIZES[0]))


def test_vit_says_what_is_wrong():
    model = ViT(ViTConfig(**SIZES[0]))
    with pytest.raises(ValueError, match=r"13 × 12 pixels cannot be cut .* 4 × 4; resize, crop or pad .* 12 × 12"):
        model(torch.randn(2, 3, 13, 12))
    with pytest.raises(ValueError, match=r"\(batch, 3, height, width\), got \(2, 1, 12, 12\)"):
        model(torch.randn(2, 1, 12, 12))
    with pytest.raises(ValueError, match=r"real numbers, .* got torch.uint8"):
        model(torch.zeros(2, 3, 12, 12, dtype=torch.uint8))
    with pytest.raises(ValueError, match="pass config="):
        load(ViT, {})
    with pytest.raises(ValueError, match="image_size of 13 × 13 pixels"):
        ViTConfig(**SIZES[0] | {"image_size": 13})
    with pytest.raises(ValueError, match=r"no distillation token; build it with DeiT\.distilled"):
        DeiT(ViTConfig(**SIZES[0])).both_heads(images(SIZES[0]))


def test_hard_distillation_is_the_mean_of_two_cross_entropies():
    by_label, by_teacher, teacher = torch.randn(3, 4, 6)
    targets = torch.tensor([0, 5, 2, 3])
    want = (F.cross_entropy(by_label, targets) + F.cross_entropy(by_teacher, teacher.argmax(1))) / 2
    assert_close(hard_distillation_loss((by_label, by_teacher), teacher, targets), want)
    assert_close(hard_distillation_loss((by_label, by_teacher), 9 * teacher, F.one_hot(targets, 6).float()), want)


def test_soft_distillation_is_the_label_alone_at_weight_zero_and_nothing_for_a_perfect_student():
    by_label, by_teacher, teacher = torch.randn(3, 4, 6)
    targets = torch.tensor([0, 5, 2, 3])
    plain = F.cross_entropy(by_label, targets)
    assert_close(soft_distillation_loss((by_label, by_teacher), teacher, targets, weight=0.0), plain)
    same = soft_distillation_loss((by_label, teacher + 3.0), teacher, targets, weight=0.25)
    assert_close(same, 0.75 * plain)
    p, q = (F.softmax(x / 2, dim=1) for x in (teacher, by_teacher))
    divergence = (p * (p / q).log()).sum(1).mean()
    got = soft_distillation_loss((by_label, by_teacher), teacher, targets, temperature=2.0, weight=0.25)
    assert_close(got, 0.75 * plain + 0.25 * 4 * divergence)


def test_distillation_never_trains_the_teacher_and_names_unequal_shapes():
    teacher = torch.randn(4, 6, requires_grad=True)
    student = torch.randn(4, 6, requires_grad=True)
    loss = soft_distillation_loss((student, student), teacher, torch.tensor([0, 1, 2, 3]))
    loss.backward()
    assert teacher.grad is None
    assert student.grad.any()
    with pytest.raises(ValueError, match=r"\(4, 6\), \(4, 6\) and \(4, 5\)"):
        hard_distillation_loss((student, student), torch.zeros(4, 5), torch.zeros(4, dtype=torch.long))
