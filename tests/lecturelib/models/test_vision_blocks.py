"""The LeViT and VOLO blocks against timm, and ResNet against torchvision and the paper's table."""

import pytest
import torch
from torch.testing import assert_close

from lecturelib.evaluation.cost import count_parameters
from lecturelib.models.levit import LeViTAttention, LeViTBlock, distance_index
from lecturelib.models.resnet import (
    RESNET20,
    RESNET32,
    RESNET44,
    RESNET56,
    RESNET110,
    ResidualBlock,
    ResNet,
)
from lecturelib.models.volo import OutlookAttention, Outlooker


def moved(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    for name, buffer in model.named_buffers():
        if "running" in name:
            buffer.add_(torch.rand_like(buffer))
    return model


def copy_rows(ours, theirs, rows):
    """Copy chosen outputs of a projection with its batch norm."""
    ours.linear.weight.data.copy_(theirs.linear.weight[rows])
    for name in ("weight", "bias", "running_mean", "running_var"):
        getattr(ours.norm, name).data.copy_(getattr(theirs.bn, name)[rows])


@pytest.mark.parametrize("training", [False, True])
def test_levit_attention_matches_timm(timm, training):
    theirs = timm.models.levit.Attention(
        12, key_dim=5, num_heads=3, attn_ratio=2, resolution=(2, 4), act_layer=torch.nn.Hardswish
    )
    moved(theirs)
    theirs.training = training  # their own train() returns nothing
    for module in theirs.modules():
        module.training = training
    ours = LeViTAttention(12, 3, key_dim=5, value_dim=10, grid=(2, 4)).train(training)
    rows = torch.arange(3 * 20).view(3, 20)  # there, each head has its queries, keys and values together
    copy_rows(ours.query_proj, theirs.qkv, rows[:, :5].flatten())
    copy_rows(ours.key_proj, theirs.qkv, rows[:, 5:10].flatten())
    copy_rows(ours.value_proj, theirs.qkv, rows[:, 10:].flatten())
    copy_rows(ours.out_proj, theirs.proj.ln, torch.arange(12))
    ours.bias_table.data.copy_(theirs.attention_biases)
    x = torch.randn(6, 8, 12)
    assert_close(ours(x), theirs(x), atol=1e-5, rtol=1e-4)


def test_levit_shrinking_attention_matches_timm(timm):
    options = {"key_dim": 5, "num_heads": 3, "attn_ratio": 2.0, "stride": 2, "resolution": (3, 4)}
    theirs = moved(timm.models.levit.AttentionDownsample(12, 14, **options, act_layer=torch.nn.Hardswish))
    for module in theirs.modules():
        module.training = False
    ours = LeViTAttention(12, 3, key_dim=5, value_dim=10, grid=(3, 4), d_out=14, stride=2).eval()
    rows = torch.arange(3 * 15).view(3, 15)
    copy_rows(ours.query_proj, theirs.q.ln, torch.arange(15))
    copy_rows(ours.key_proj, theirs.kv, rows[:, :5].flatten())
    copy_rows(ours.value_proj, theirs.kv, rows[:, 5:].flatten())
    copy_rows(ours.out_proj, theirs.proj.ln, torch.arange(14))
    ours.bias_table.data.copy_(theirs.attention_biases)
    x = torch.randn(6, 12, 12)
    assert ours(x).shape == (6, 2 * 2, 14)
    assert_close(ours(x), theirs(x), atol=1e-5, rtol=1e-4)


def test_levit_block_starts_as_the_identity_and_knows_its_grid():
    block = LeViTBlock(LeViTAttention(12, 3, key_dim=5, value_dim=7, grid=(2, 3)), 12)
    x = torch.randn(4, 6, 12)
    assert_close(block(x), x)
    with pytest.raises(ValueError, match=r"a grid of 2 × 3 is \(batch, 6, width\), got \(4, 5, 12\)"):
        block(x[:, :5])


def test_levit_distances_forget_direction():
    index = distance_index((3, 4))
    assert torch.equal(index, index.T)
    assert index.unique().tolist() == list(range(12))
    assert torch.equal(distance_index((3, 4), 2), index.view(3, 4, 12)[::2, ::2].flatten(0, 1))


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 2)])
def test_outlook_attention_matches_timm(timm, kernel, stride):
    theirs = moved(timm.models.volo.OutlookAttention(12, 3, kernel_size=kernel, padding=kernel // 2, stride=stride))
    ours = OutlookAttention(12, 3, kernel=kernel, stride=stride)
    for mine, yours in ((ours.value_proj, theirs.v), (ours.weight_proj, theirs.attn), (ours.out_proj, theirs.proj)):
        mine.load_state_dict(yours.state_dict())
    x = torch.randn(2, 5, 8, 12)
    assert_close(ours(x), theirs(x), atol=1e-5, rtol=1e-4)
    assert_close(ours.weights(x).sum(-1), torch.ones(()).expand(ours.weights(x).shape[:-1]))


def test_outlooker_reaches_neighbours_of_neighbours_and_no_further():
    block = Outlooker(OutlookAttention(12, 3), 12, 20)
    x = torch.randn(1, 7, 9, 12, requires_grad=True)
    (grad,) = torch.autograd.grad(block(x)[0, 3, 4].square().sum(), x)
    seen = grad[0].abs().sum(-1) > 0
    want = torch.zeros(7, 9, dtype=torch.bool)
    want[1:6, 2:7] = True  # values come from one step away from centres that are one step away
    assert torch.equal(seen, want)
    with pytest.raises(ValueError, match=r"kernel must be odd, to have a centre, .* got 4 and 1"):
        OutlookAttention(12, 3, kernel=4)


@pytest.mark.parametrize("training", [False, True])
def test_residual_block_matches_torchvision(training):
    torchvision = pytest.importorskip("torchvision")
    theirs = moved(torchvision.models.resnet.BasicBlock(6, 6)).train(training)
    ours = ResidualBlock(6, 6).train(training)
    ours.load_state_dict({name.replace("bn", "norm"): tensor for name, tensor in theirs.state_dict().items()})
    x = torch.randn(3, 6, 5, 7)
    assert_close(ours(x), theirs(x), atol=1e-5, rtol=1e-4)


def test_residual_block_with_silent_convolutions_is_its_shortcut():
    block, x = ResidualBlock(3, 5, stride=2), torch.rand(2, 3, 5, 7)
    torch.nn.init.zeros_(block.norm2.weight)
    out = block(x)
    assert torch.equal(out[:, :3], x[:, :, ::2, ::2])
    assert not out[:, 3:].any()


@pytest.mark.parametrize(
    ("config", "layers", "millions"),
    [(RESNET20, 20, 0.27), (RESNET32, 32, 0.46), (RESNET44, 44, 0.66), (RESNET56, 56, 0.85), (RESNET110, 110, 1.7)],
)
def test_resnet_presets_have_the_published_sizes(config, layers, millions):
    with torch.device("meta"):
        model = ResNet(config)
    weighted = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    assert len(weighted) == layers
    assert count_parameters(model) / 1e6 == pytest.approx(millions, abs=0.005 if millions < 1 else 0.05)
