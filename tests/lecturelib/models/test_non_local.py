"""Non-local blocks against their equations, the attention layer and the paper's counts; how far a VideoNet sees."""

import math

import pytest
import torch
from torch.testing import assert_close

from lecturelib.evaluation.cost import count_flops, count_parameters
from lecturelib.layers import MultiHeadAttention, attention_weights
from lecturelib.models.non_local import (
    NonLocalBlock,
    ResidualConvolution,
    VideoNet,
    VideoNetConfig,
    dot_product,
    embedded_gaussian,
)

from .parity import moved

CLOSE = {"atol": 1e-12, "rtol": 1e-12}


@pytest.mark.parametrize("similarity", [embedded_gaussian, dot_product])
@pytest.mark.parametrize("places", [(7,), (4, 3), (3, 2, 5)])
def test_block_matches_the_paper_position_by_position(similarity, places):
    block = moved(NonLocalBlock(6, 4, similarity=similarity)).double()
    x = torch.randn(2, 6, *places, dtype=torch.float64)
    theta, phi, g, last = (
        lambda v, m=m: v @ m.weight.T + m.bias
        for m in (block.query_proj, block.key_proj, block.value_proj, block.out_proj)
    )
    got = block(x).flatten(2)
    for row, video in enumerate(x.flatten(2)):
        columns = list(video.T)  # one vector for each position
        for i, x_i in enumerate(columns):
            if similarity is embedded_gaussian:
                f = [torch.exp(theta(x_i) @ phi(x_j) / math.sqrt(4)) for x_j in columns]
                total = sum(f)
            else:
                f = [theta(x_i) @ phi(x_j) for x_j in columns]
                total = len(columns)
            y_i = sum(f_ij * g(x_j) for f_ij, x_j in zip(f, columns, strict=True)) / total
            assert_close(got[row, :, i], last(y_i) + x_i, **CLOSE)


def test_block_is_self_attention_with_one_head_over_all_pixels_of_all_frames():
    block = moved(NonLocalBlock(6, 6)).double()
    layer = MultiHeadAttention(6, 1).double()
    layer.load_state_dict(block.state_dict())  # the same names
    x = torch.randn(2, 6, 3, 4, 5, dtype=torch.float64)  # (B, D, frames, rows, columns)
    tokens = x.flatten(2).mT  # (B, N, D)
    with attention_weights(block) as seen, torch.no_grad():
        got = block(x)
    with torch.no_grad():
        out, weights = layer(tokens, need_weights=True)
    assert_close(got.flatten(2).mT, tokens + out, **CLOSE)
    assert_close(seen[""], weights, **CLOSE)


def test_fresh_block_changes_nothing_and_learns():
    block = NonLocalBlock(6)
    x = torch.randn(2, 6, 3, 4, 5)
    assert torch.equal(block(x), x)
    assert block.query_proj.out_features == 3
    block(x).square().sum().backward()
    assert block.out_proj.weight.grad.any()


def test_block_does_not_know_where_positions_are():
    block = moved(NonLocalBlock(6))
    x, order = torch.randn(2, 6, 20), torch.randperm(20)
    assert_close(block(x[..., order]), block(x)[..., order])


def test_dot_product_weights_are_scores_and_not_a_distribution():
    query, key = torch.randn(2, 2, 7, 4)
    weights = dot_product(query, key)
    assert_close(weights * 7, query @ key.mT)
    assert (weights < 0).any()
    assert_close(embedded_gaussian(query, key).sum(dim=-1), torch.ones(2, 7))


def test_five_blocks_cost_what_the_paper_says():
    """Table 2e: 5 blocks, of 1024 channels in res4 (3) and 512 in res3 (2), make 1.2 × of ResNet-101's 43.2 million."""
    with torch.device("meta"):
        blocks = [NonLocalBlock(width) for width in (1024, 1024, 1024, 512, 512)]
    added = sum(count_parameters(block) for block in blocks)
    assert round((43.2e6 + added) / 43.2e6, 1) == 1.2
    assert round((24.3e6 + added) / 43.2e6, 1) == 0.7  # and of ResNet-50 "∼70%" of that


def test_block_flops_are_four_maps_and_two_products():
    tokens, width, inner = 3 * 4 * 5, 6, 4
    counted = count_flops(NonLocalBlock(width, inner), torch.randn(1, width, 3, 4, 5))
    assert counted == 2 * (4 * tokens * width * inner + 2 * tokens**2 * inner)


def seen_from_the_middle(layers, frames=9, rows=3, columns=13):
    """Which (frame, row, column) of a video can change the feature in its middle."""
    model = VideoNet(VideoNetConfig(num_channels=1, patch_size=1, d_model=6), layers)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.abs_()  # so that no ReLU is closed
    video = torch.rand(1, frames, 1, rows, columns, requires_grad=True)
    x = model.patches(video).movedim(-1, 1)
    for layer in model.layers:
        x = layer(x)
    middle = x[0, :, frames // 2, rows // 2, columns // 2]
    (gradient,) = torch.autograd.grad(middle.square().sum(), video)
    return gradient[0, :, 0] != 0  # (frames, rows, columns)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_convolutions_reach_one_step_further_per_layer(count):
    seen = seen_from_the_middle([ResidualConvolution(6) for _ in range(count)])
    want = torch.zeros(9, 3, 13, dtype=torch.bool)
    want[4 - count : 5 + count, :, 6 - count : 7 + count] = True
    assert torch.equal(seen, want)


def test_dilated_convolutions_and_non_local_blocks_reach_everything():
    dilated = [ResidualConvolution(6, dilation=step) for step in (1, 2, 4)]
    assert seen_from_the_middle(dilated, columns=15).all()
    with torch.no_grad():
        (block := NonLocalBlock(6)).out_proj.weight.normal_()
    assert seen_from_the_middle([block]).all()


def test_far_events_only_add_up_in_a_network_of_convolutions():
    """Beyond its reach, a change here and a change there change the logits by the sum of what each does alone."""
    model = VideoNet(VideoNetConfig(num_channels=1, patch_size=1, d_model=6), [ResidualConvolution(6)] * 2).double()
    videos = torch.rand(4, 3, 1, 2, 12, dtype=torch.float64)
    videos[:] = videos[:1].clone()
    videos[1::2, 0, 0, 0, 1] += 1.0
    videos[2:, 2, 0, 1, 9] += 1.0  # 8 columns away: no position within 2 of both
    plain, here, there, both = model(videos)
    assert_close(both - plain, (here - plain) + (there - plain), **CLOSE)
    near = videos.clone()
    near[2:, 2, 0, 1, 9] -= 1.0
    near[2:, 2, 0, 1, 4] += 1.0
    plain, here, there, both = model(near)
    assert not torch.allclose(both - plain, (here - plain) + (there - plain))


def test_non_local_and_video_net_say_what_is_wrong():
    with pytest.raises(ValueError, match=r"\(batch, 6, positions, \.\.\.\), got \(2, 5, 7\)"):
        NonLocalBlock(6)(torch.randn(2, 5, 7))
    with pytest.raises(ValueError, match="d_model=1 and d_inner=0"):
        NonLocalBlock(1)
    with pytest.raises(ValueError, match="patch_size must be at least 1, got 0"):
        VideoNetConfig(patch_size=0)
    with pytest.raises(ValueError, match=r"frames of 9 × 8 pixels cannot be cut"):
        VideoNet(VideoNetConfig(), [])(torch.randn(2, 3, 3, 9, 8))
