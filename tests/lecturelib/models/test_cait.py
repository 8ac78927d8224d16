"""CaiT against timm, its published sizes, and what talking heads and class attention mean."""

import pytest
import torch
from torch.testing import assert_close

from lecturelib.evaluation.cost import count_flops, count_parameters
from lecturelib.layers import MultiHeadAttention, attention_weights
from lecturelib.models import load
from lecturelib.models.cait import CAIT_S24, CAIT_XXS24, CaiT, CaiTConfig, LayerScale, TalkingHeads

SIZES = [
    {"image_size": 12, "patch_size": 4, "d_model": 12, "num_heads": 2, "num_layers": 2, "num_classes": 5},
    {"image_size": 6, "patch_size": 3, "d_model": 20, "num_heads": 5, "num_layers": 3, "num_classes": 7},
]


def reference(timm, sizes):
    """A timm model of these sizes, in evaluation, every parameter moved from its initial value."""
    model = timm.models.cait.Cait(
        img_size=sizes["image_size"],
        patch_size=sizes["patch_size"],
        num_classes=sizes["num_classes"],
        embed_dim=sizes["d_model"],
        num_heads=sizes["num_heads"],
        depth=sizes["num_layers"],
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


@pytest.mark.parametrize("sizes", SIZES)
def test_cait_matches_timm_in_logits_and_gradients(timm, sizes):
    theirs, config = reference(timm, sizes), CaiTConfig(**sizes)
    ours = load(CaiT, theirs.state_dict(), config).eval()
    images = torch.randn(2, 3, *(2 * [sizes["image_size"]]))
    got, want = ours(images), theirs(images)
    assert_close(got, want, atol=1e-5, rtol=1e-4)
    weight = torch.randn_like(got)
    (got * weight).sum().backward()
    (want * weight).sum().backward()
    copy = load(CaiT, {name: parameter.grad for name, parameter in theirs.named_parameters()}, config)
    for (name, parameter), gradient in zip(ours.named_parameters(), copy.parameters(), strict=True):
        assert_close(parameter.grad, gradient, atol=1e-4, rtol=1e-3, msg=lambda m, name=name: f"{name}: {m}")


def test_cait_names_what_does_not_fit(timm):
    state = dict(reference(timm, SIZES[0]).state_dict())
    state["blocks.0.gamma_3"] = state.pop("blocks.0.gamma_1")
    with pytest.raises(ValueError, match=r"missing .*: blocks\.0\.gamma_1; not known .*: blocks\.0\.gamma_3"):
        load(CaiT, state, CaiTConfig(**SIZES[0]))


@pytest.mark.parametrize(
    ("config", "parameters", "gmacs"), [(CAIT_S24, 46_916_200, 9.327), (CAIT_XXS24, 11_956_264, 2.523)]
)
def test_cait_presets_have_the_published_sizes_and_costs(config, parameters, gmacs):
    with torch.device("meta"):
        model, images = CaiT(config).eval(), torch.empty(1, 3, 224, 224)
    assert count_parameters(model) == parameters
    assert count_flops(model, images) / 2e9 == pytest.approx(gmacs, abs=6e-4)


def test_talking_heads_that_only_listen_are_plain_attention():
    plain = MultiHeadAttention(12, 3)
    talking = TalkingHeads(12, 3)
    talking.load_state_dict(plain.state_dict(), strict=False)
    with torch.no_grad():
        for mixing in (talking.before, talking.after):
            mixing.weight.copy_(torch.eye(3))
            mixing.bias.zero_()
    x, mask = torch.randn(2, 5, 12), torch.rand(2, 5, 5) > 0.4
    mask[0, 1] = False  # a row that may attend to nothing
    assert_close(talking(x, mask=mask, need_weights=True), plain(x, mask=mask, need_weights=True))
    assert_close(talking(x, is_causal=True), plain(x, is_causal=True))


def test_talking_heads_keep_masked_keys_out():
    talking = TalkingHeads(12, 3)
    x, mask = torch.randn(2, 5, 12), torch.ones(5, 5, dtype=torch.bool)
    mask[:, 3] = False
    changed = x.clone()
    changed[:, 3] += 1.0
    kept = torch.tensor([0, 1, 2, 4])
    assert_close(talking(changed, mask=mask)[:, kept], talking(x, mask=mask)[:, kept])


def test_cait_class_token_never_reaches_the_patches():
    model = CaiT(CaiTConfig(**SIZES[0], layer_scale=0.5)).eval()
    images, seen = torch.randn(2, 3, 12, 12), []
    model.class_blocks[0].register_forward_pre_hook(lambda m, a, k: seen.append(k["memory"]), with_kwargs=True)
    model.class_blocks[1].register_forward_pre_hook(lambda m, a, k: seen.append(k["memory"]), with_kwargs=True)
    with attention_weights(model) as watched:
        before = model(images)
    weights = [watched[f"class_blocks.{layer}.mixer"] for layer in range(2)]
    with torch.no_grad():
        model.class_token.add_(torch.randn_like(model.class_token))
    assert not torch.allclose(model(images), before)
    assert all(torch.equal(patches, seen[0]) for patches in seen)
    assert [tuple(w.shape) for w in weights] == [(2, 2, 1, 10)] * 2
    assert_close(weights[0].sum(-1), torch.ones(2, 2, 1))


def test_layer_scale_multiplies_each_feature():
    layer, x = LayerScale(3, start=1e-4), torch.randn(2, 5, 3)
    assert torch.equal(layer(x), 1e-4 * x)
    with torch.no_grad():
        layer.scale.copy_(torch.tensor([1.0, 2.0, 0.0]))
    assert torch.equal(layer(x), torch.stack((x[..., 0], 2 * x[..., 1], 0 * x[..., 2]), dim=-1))


def test_cait_starts_near_the_identity():
    model = CaiT(CaiTConfig(**SIZES[0])).eval()
    x = torch.randn(2, 9, 12)
    moved = max((block(x) - x).abs().max() for block in model.blocks)
    assert 0 < moved < 1e-5


def test_cait_reads_other_sizes_with_interpolated_positions():
    model = CaiT(CaiTConfig(**SIZES[0], layer_scale=0.5)).eval()
    images = torch.randn(2, 3, 8, 20)
    before = model(images)
    assert_close(model.set_image_size((8, 20))(images), before)
    assert model.positions.weight.shape == (1, 10, 12)
