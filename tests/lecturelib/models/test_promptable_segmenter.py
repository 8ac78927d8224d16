"""The segmenter by prompt: equal to the reference on random weights, its sizes, and what prompts and masks promise."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from lecturelib.models.conv_encoder import ConvEncoderConfig
from lecturelib.models.promptable_segmenter import (
    BACKGROUND,
    CORNER,
    FOREGROUND,
    NOTHING,
    OPPOSITE,
    SAM,
    FourierPositions,
    MaskDecoder,
    PromptableSegmenter,
    PromptableSegmenterConfig,
    PromptEncoder,
)

SMALL = PromptableSegmenterConfig(
    image=ConvEncoderConfig(num_channels=2, widths=(4, 6, 5), layers=(1, 1, 1)),
    d_model=24,
    num_heads=3,
    num_layers=3,
    d_ff=17,
    num_masks=5,
)


@pytest.fixture
def sam():
    """transformers' reference."""
    return pytest.importorskip("transformers.models.sam")


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def copy_linears(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        one.load_state_dict(other.state_dict())


def attention_parts(ours, theirs):
    names = ("query_proj", "q_proj"), ("key_proj", "k_proj"), ("value_proj", "v_proj"), ("out_proj", "out_proj")
    return [(getattr(ours, mine), getattr(theirs, yours)) for mine, yours in names]


def mlp_parts(ours, theirs):
    linears = [layer for layer in ours.layers if isinstance(layer, nn.Linear)]
    return list(zip(linears, (theirs.proj_in, *theirs.layers, theirs.proj_out), strict=True))


def decoder_parts(ours, theirs):
    """Every module of ours that has weights, with the one of theirs that plays its part."""
    found = [(ours.widen, theirs.upscale_conv1), (ours.widen_again, theirs.upscale_conv2)]
    found += [(ours.widen_norm, theirs.upscale_layer_norm), *mlp_parts(ours.quality_head, theirs.iou_prediction_head)]
    for mine, yours in zip(ours.hypernetworks, theirs.output_hypernetworks_mlps, strict=True):
        found += mlp_parts(mine, yours)
    found += attention_parts(ours.last_look, theirs.transformer.final_attn_token_to_image)
    found += [(ours.last_wiring.norm, theirs.transformer.layer_norm_final_attn)]
    for mine, yours in zip(ours.blocks, theirs.transformer.layers, strict=True):
        found += attention_parts(mine.among, yours.self_attn)
        found += attention_parts(mine.look, yours.cross_attn_token_to_image)
        found += attention_parts(mine.answer, yours.cross_attn_image_to_token)
        found += [(mine.feed_forward.widen, yours.mlp.lin1), (mine.feed_forward.narrow, yours.mlp.lin2)]
        wirings = (mine.among_wiring, mine.look_wiring, mine.feed_forward_wiring, mine.answer_wiring)
        norms = (yours.layer_norm1, yours.layer_norm2, yours.layer_norm3, yours.layer_norm4)
        found += [(wiring.norm, norm) for wiring, norm in zip(wirings, norms, strict=True)]
    return found


def reference_decoder(sam, config):
    sizes = sam.SamMaskDecoderConfig(
        hidden_size=config.d_model,
        mlp_dim=config.d_ff,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        attention_downsample_rate=config.narrowing,
        num_multimask_outputs=config.num_masks - 1,
        iou_head_hidden_dim=config.d_model,
        layer_norm_eps=1e-5,
    )
    sizes._attn_implementation = "sdpa"  # the eager one softens in float32
    return sam.modeling_sam.SamMaskDecoder(sizes)


def test_mask_decoder_matches_transformers(sam):
    torch.manual_seed(0)
    ours, theirs = MaskDecoder(SMALL).double(), reference_decoder(sam, SMALL).double()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    for mine, yours in decoder_parts(ours, theirs):
        mine.load_state_dict(yours.state_dict())
    with torch.no_grad():
        ours.quality_token.copy_(theirs.iou_token.weight)
        ours.mask_tokens.copy_(theirs.mask_tokens.weight)
    assert count(ours) == count(theirs)
    image = torch.randn(2, 24, 7, 9, dtype=torch.double)
    places, prompt = torch.randn(63, 24, dtype=torch.double), torch.randn(2, 4, 24, dtype=torch.double)
    logits, quality = ours(image, places, prompt)
    grid = places.T.unflatten(1, (7, 9)).expand(2, -1, -1, -1)
    for several, which in ((True, slice(1, None)), (False, slice(0, 1))):
        dense = torch.zeros_like(image)
        want, want_quality = theirs(image, grid, prompt.unsqueeze(1), dense, several)[:2]
        torch.testing.assert_close(logits[:, which], want.squeeze(1), atol=1e-12, rtol=1e-12)
        torch.testing.assert_close(quality[:, which], want_quality.squeeze(1), atol=1e-12, rtol=1e-12)
    assert logits.shape == (2, 5, 28, 36)
    assert logits.std() > 0.1


def test_prompt_encoder_matches_transformers(sam):
    torch.manual_seed(1)
    config = sam.SamConfig(
        prompt_encoder_config={"hidden_size": 24, "image_size": 44, "patch_size": 4},
        vision_config={"hidden_size": 24, "num_pos_feats": 12, "num_hidden_layers": 1, "num_attention_heads": 2},
    )
    theirs, ours = sam.modeling_sam.SamPromptEncoder(config).double(), PromptEncoder(24).double()
    ours.positions.directions.copy_(nn.init.normal_(theirs.shared_embedding.positional_embedding.data))
    kinds = [theirs.not_a_point_embed, *theirs.point_embed]
    ours.kinds.weight.data.copy_(torch.cat([embedding.weight for embedding in kinds]))
    points = torch.rand(3, 5, 2, dtype=torch.double) * 44
    labels = torch.randint(2, (3, 5))
    want, _ = theirs(points.unsqueeze(1), labels.unsqueeze(1), None, None)
    ended = nn.functional.pad(points, (0, 0, 0, 1)), nn.functional.pad(labels, (0, 1), value=NOTHING)
    torch.testing.assert_close(ours(*ended, 44, 44), want.squeeze(1), atol=1e-12, rtol=1e-12)
    corners = torch.rand(3, 2, 2, dtype=torch.double) * 44
    want, _ = theirs(points.unsqueeze(1), labels.unsqueeze(1), corners.flatten(1).unsqueeze(1), None)
    boxed = torch.cat((labels, torch.tensor([[CORNER, OPPOSITE]] * 3)), dim=1)
    torch.testing.assert_close(
        ours(torch.cat((points, corners), dim=1), boxed, 44, 44), want.squeeze(1), atol=1e-12, rtol=1e-12
    )


def test_image_positions_match_transformers(sam):
    torch.manual_seed(2)
    config = sam.SamConfig(
        prompt_encoder_config={"hidden_size": 24, "image_size": 44, "patch_size": 4},
        vision_config={
            "hidden_size": 24,
            "num_pos_feats": 12,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "output_channels": 24,
            "image_size": 44,
            "patch_size": 4,
            "global_attn_indexes": (0,),
        },
        mask_decoder_config={"hidden_size": 24, "num_attention_heads": 3, "iou_head_hidden_dim": 24},
    )
    theirs, ours = sam.modeling_sam.SamModel(config).double(), FourierPositions(24).double()
    ours.directions.copy_(nn.init.normal_(theirs.shared_image_embedding.positional_embedding.data))
    want = theirs.get_image_wide_positional_embeddings()  # (1, D, rows, columns)
    torch.testing.assert_close(ours.grid(11, 11), want[0].flatten(1).T, atol=1e-12, rtol=1e-12)


def test_sam_preset_has_the_published_sizes(sam):
    with torch.device("meta"):
        decoder, prompt = MaskDecoder(SAM), PromptEncoder(SAM.d_model)
        published = sam.modeling_sam.SamMaskDecoder(sam.SamMaskDecoderConfig())
    assert count(decoder) == count(published) == 4_058_340
    assert count(prompt) == 5 * 256
    assert round((count(decoder) + count(prompt)) / 1e6) == 4  # "4M parameters"


def build(seed=0, **changes):
    torch.manual_seed(seed)
    return PromptableSegmenter(replace(SMALL, **changes)).eval()


def prompts(batch=3):
    generator = torch.Generator().manual_seed(5)
    points = torch.rand(batch, 4, 2, generator=generator) * 12
    return points, torch.tensor([[FOREGROUND, BACKGROUND, FOREGROUND, NOTHING]] * batch)


def test_image_is_read_once_for_many_prompts():
    model = build()
    images = torch.randn(3, 2, 12, 20)
    points, kinds = prompts()
    image = model.encode(images)
    assert image.shape == (3, 24, 3, 5)
    for row in range(3):
        want = model(images[row : row + 1], points[:1], kinds[:1])
        got = model.decode(image[row : row + 1], points[:1], kinds[:1])
        torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-5)
    assert want.logits.shape == (1, 5, 12, 20)


def test_order_of_clicks_does_not_matter_but_their_kind_and_position_do():
    model = build()
    images = torch.randn(3, 2, 12, 20)
    points, kinds = prompts()
    want = model(images, points, kinds).logits
    order = torch.tensor([2, 3, 0, 1])
    torch.testing.assert_close(model(images, points[:, order], kinds[:, order]).logits, want, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(model(images, points, kinds.roll(1, 1)).logits, want, atol=1e-3)
    moved = points.clone()
    moved[:, 0] += 5
    assert not torch.allclose(model(images, moved, kinds).logits, want, atol=1e-3)
    nowhere = points.clone()
    nowhere[:, 3] += 5  # a NOTHING has no position
    assert torch.equal(model(images, nowhere, kinds).logits, want)


def test_fourier_positions_compare_points_by_their_distance_alone():
    torch.manual_seed(3)
    positions = FourierPositions(4096)
    start = torch.tensor([[0.2, 0.3], [0.6, 0.1]])
    first, second = positions(start), positions(start + torch.tensor([0.05, -0.02]))
    dots = (first * second).sum(dim=-1)
    assert dots[0].item() == pytest.approx(dots[1].item(), rel=1e-4)  # the same shift, elsewhere
    # E cos(2π g · 2δ) for g of standard deviation 1 is exp(-8 π² |δ|²)
    want = math.exp(-8 * math.pi**2 * (0.05**2 + 0.02**2))
    assert dots[0].item() / 2048 == pytest.approx(want, abs=0.05)


def test_one_click_is_offered_all_masks_but_the_first_and_more_points_the_first_alone():
    kinds = torch.tensor(
        [[FOREGROUND, NOTHING, NOTHING], [FOREGROUND, BACKGROUND, NOTHING], [CORNER, OPPOSITE, NOTHING]]
    )
    rest = [False, True, True, True, True]
    assert build().offered(kinds).tolist() == [rest, [not one for one in rest], [not one for one in rest]]
    assert build(num_masks=1).offered(kinds).tolist() == [[True]] * 3


def test_prompts_that_make_no_sense_are_explained():
    model = build()
    images = torch.randn(3, 2, 12, 20)
    points, kinds = prompts()
    with pytest.raises(ValueError, match=r"\(batch, points, 2\).*got \(3, 4, 2\) and \(3, 3\)"):
        model(images, points, kinds[:, :3])
    with pytest.raises(ValueError, match="kinds must be from -1"):
        model(images, points, kinds + 3)
    with pytest.raises(ValueError, match="one prompt for each image, got 2 for 3"):
        model(images, points[:2], kinds[:2])
    with pytest.raises(ValueError, match="d_model=20, narrowing=2 and num_heads=5"):
        PromptableSegmenterConfig(d_model=20, num_heads=5)
