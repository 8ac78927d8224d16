import math

import pytest
import torch
from torch.testing import assert_close

from lecturelib.layers import attention_weights
from lecturelib.models import DETR, ConvEncoderConfig, DETRConfig
from lecturelib.models.detr import CARION2020_COCO, SineGrid

from .parity import moved

B, ROWS, COLUMNS, Q, CLASSES, L = 2, 3, 5, 7, 4, 3
SIZES = {"num_queries": Q, "d_model": 24, "num_heads": 2, "encoder_layers": 2, "decoder_layers": L, "d_ff": 29}
IMAGE = ConvEncoderConfig(num_channels=2, widths=(6, 10), layers=(1, 1))


def build(**changes):
    torch.manual_seed(0)
    return moved(DETR(DETRConfig(num_classes=CLASSES, image=IMAGE, dropout=0.0, **SIZES | changes))).double()


def regions(seed=1):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(B, ROWS * COLUMNS, 24, generator=generator, dtype=torch.float64)
    return x, SineGrid(24)(ROWS, COLUMNS).double()


PARTS = {"self_attn": "mixer", "encoder_attn": "cross"}
RENAMED = {
    **{"q_proj": "query_proj", "k_proj": "key_proj", "v_proj": "value_proj", "o_proj": "out_proj"},
    **{"mlp.fc1": "feed_forward.widen", "mlp.fc2": "feed_forward.narrow"},
    **{"final_layer_norm": "feed_forward_wiring.norm", "layers.": ""},
}


def our_name(name):
    """The name of a parameter of transformers' encoder or decoder, in ours."""
    for part, ours in PARTS.items():
        name = name.replace(f"{part}_layer_norm", f"{ours}.wiring.norm").replace(f".{part}.", f".{ours}.attention.")
    for theirs, ours in RENAMED.items():
        name = name.replace(theirs, ours)
    return name


@pytest.fixture
def reference():
    """transformers' encoder, decoder and heads with random weights, and our DETR with the same ones."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.detr import modeling_detr as theirs

    sizes = {"d_model": 24, "encoder_layers": 2, "decoder_layers": L, "encoder_ffn_dim": 29, "decoder_ffn_dim": 29}
    config = transformers.DetrConfig(
        **sizes, encoder_attention_heads=2, decoder_attention_heads=2, num_queries=Q, attn_implementation="eager"
    )
    torch.manual_seed(3)
    encoder, decoder = (moved(part(config)).double() for part in (theirs.DetrEncoder, theirs.DetrDecoder))
    box_head = moved(theirs.DetrMLPPredictionHead(24, 24, 4, num_layers=3)).double()
    ours = build()
    ours.encoder.load_state_dict({our_name(name): value for name, value in encoder.state_dict().items()})
    weights = {our_name(name): value for name, value in decoder.state_dict().items()}
    ours.decoder_norm.load_state_dict({name: weights.pop(f"layernorm.{name}") for name in ("weight", "bias")})
    ours.decoder.load_state_dict(weights)
    for place, layer in enumerate(box_head.layers):
        ours.box_head[2 * place].load_state_dict(layer.state_dict())
    return ours, encoder, decoder, box_head


def test_detr_matches_transformers(reference):
    ours, encoder, decoder, box_head = reference
    x, where = regions()
    after = []
    for layer in decoder.layers:
        layer.register_forward_hook(lambda module, args, output: after.append(output))
    with torch.no_grad():
        memory = encoder(inputs_embeds=x, spatial_position_embeddings=where).last_hidden_state
        want = decoder(
            inputs_embeds=torch.zeros(B, Q, 24, dtype=torch.float64),
            encoder_hidden_states=memory,
            spatial_position_embeddings=where,
            object_queries_position_embeddings=ours.queries.expand(B, -1, -1),
        ).last_hidden_state
        got = ours.detect(x, where)
        slots = torch.stack([decoder.layernorm(state) for state in after], dim=1)  # (B, L, Q, D)
        assert_close(got.logits[:, -1], ours.class_head(want), atol=1e-12, rtol=1e-12)
        assert_close(got.logits, ours.class_head(slots), atol=1e-12, rtol=1e-12)
        assert_close(got.boxes, box_head(slots).sigmoid(), atol=1e-12, rtol=1e-12)
    assert (got.boxes[:, 0] - got.boxes[:, -1]).abs().max() > 1e-3  # the layers do differ


def test_sine_grid_matches_transformers():
    pytest.importorskip("transformers")
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding

    theirs = DetrSinePositionEmbedding(12, normalize=True)
    want = theirs(torch.Size((1, 24, ROWS, COLUMNS)), device="cpu", dtype=torch.float64)  # (1, D, rows, columns)
    got = SineGrid(24)(ROWS, COLUMNS)
    assert_close(got.double(), want[0].flatten(1).T, atol=2e-5, rtol=0)  # they divide by side + 1e-6
    last = SineGrid(8)(2, 3)[-1]  # sin(2π), cos(2π) come first, for down and then for across
    assert_close(last[[0, 1, 4, 5]], torch.tensor([0.0, 1.0, 0.0, 1.0]), atol=1e-6, rtol=0)


def test_detr_has_the_size_of_the_papers_transformer():
    """All but the convolutions and their projection: 6 + 6 layers, 100 queries, and heads for 91 classes and none."""
    with torch.device("meta"):
        ours = DETR(CARION2020_COCO)
    got = sum(p.numel() for name, p in ours.named_parameters() if not name.startswith(("backbone", "project")))
    attention, feed_forward, norm = 4 * (256**2 + 256), 2 * 256 * 2048 + 2048 + 256, 2 * 256
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    assert 6 * (encoder + decoder) + norm == 17_363_456
    assert got == 17_363_456 + 100 * 256 + 257 * 92 + 2 * (256**2 + 256) + 257 * 4
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("timm")
    config = transformers.DetrConfig(num_labels=91)
    with torch.device("meta"):
        theirs = transformers.DetrForObjectDetection(config)
    rest = ("model.backbone", "model.input_projection")
    assert got == sum(p.numel() for name, p in theirs.named_parameters() if not name.startswith(rest))


def test_detr_adds_positions_to_queries_and_keys_but_not_to_values():
    """The first cross-attention by hand, from what goes in."""
    model, (x, where) = build(), regions()
    cross, seen = model.decoder[0].cross, []
    cross.register_forward_pre_hook(lambda module, args: seen.append(args))
    with attention_weights(model) as weights, torch.no_grad():
        model.detect(x, where)
    slots, queries, memory, memory_where = seen[0]
    assert queries is model.queries
    assert memory_where is where
    layer = cross.attention
    with torch.no_grad():
        q = layer.query_proj(slots + queries).unflatten(-1, (2, 12)).transpose(1, 2)  # (B, H, Q, Dh)
        k = layer.key_proj(memory + where).unflatten(-1, (2, 12)).transpose(1, 2)
        v = layer.value_proj(memory).unflatten(-1, (2, 12)).transpose(1, 2)
        by_hand = (q @ k.transpose(2, 3) / math.sqrt(12)).softmax(dim=-1)
        out = layer.out_proj((by_hand @ v).transpose(1, 2).flatten(2))
        assert_close(weights["decoder.0.cross.attention"], by_hand)
        assert_close(cross(*seen[0]), cross.wiring.norm(slots + out))


def test_detr_answers_follow_their_queries_and_not_their_order():
    """Queries in another order give the same answers in that order: a set has none of its own."""
    model, (x, where) = build(), regions()
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    with torch.no_grad():
        want = model.detect(x, where)
        model.queries.copy_(model.queries[order])
        got = model.detect(x, where)
    assert_close(got.logits, want.logits[:, :, order])
    assert_close(got.boxes, want.boxes[:, :, order])
    assert (want.boxes[:, :, 0] - want.boxes[:, :, 1]).abs().max() > 1e-3


def test_detr_without_positions_does_not_know_where_regions_lie():
    model, (x, where) = build(), regions()
    order = torch.randperm(ROWS * COLUMNS, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        nowhere = torch.zeros_like(where)
        assert_close(model.detect(x[:, order], nowhere).boxes, model.detect(x, nowhere).boxes)
        moved_boxes, boxes = model.detect(x[:, order], where).boxes, model.detect(x, where).boxes
    assert (moved_boxes - boxes).abs().max() > 1e-3


def test_detr_config_is_checked():
    with pytest.raises(ValueError, match=r"d_model must be divisible by 4, .* got d_model=18"):
        build(d_model=18)
    with pytest.raises(ValueError, match="num_heads must divide d_model"):
        build(num_heads=5)
    with pytest.raises(ValueError, match="num_queries must be at least 1"):
        build(num_queries=0)
