"""ViViT against transformers (the joint model), two encoders by hand (the factorised one), and the paper's table."""

import pytest
import torch
from torch.testing import assert_close

from lecturelib.evaluation.cost import count_flops, count_parameters
from lecturelib.layers import attention_weights
from lecturelib.models.vivit import VIVIT_BASE, FactorisedEncoder, JointEncoder, ViViT, ViViTConfig

from .parity import moved

SIZES = [
    {"image_size": (12, 8), "num_frames": 6, "patch_size": 4, "tubelet": 2, "num_channels": 3, "num_classes": 5},
    {"image_size": (10, 15), "num_frames": 9, "patch_size": 5, "tubelet": 3, "num_channels": 1, "num_classes": 7},
]
WIDTHS = [
    {"d_model": 12, "num_heads": 2, "num_layers": 2, "d_ff": 20},
    {"d_model": 20, "num_heads": 5, "num_layers": 3, "d_ff": 31},
]


def videos(config, batch=2):
    shape = (batch, config.num_frames, config.num_channels, *config.image_size)
    return torch.randn(*shape, dtype=torch.float64)


def huggingface(config, activation):
    """transformers' ViViT with random weights, which has no factorised encoder."""
    transformers = pytest.importorskip("transformers")
    settings = transformers.VivitConfig(
        image_size=config.image_size,
        num_frames=config.num_frames,
        tubelet_size=(config.tubelet, config.patch_size, config.patch_size),
        num_channels=config.num_channels,
        hidden_size=config.d_model,
        num_attention_heads=config.num_heads,
        num_hidden_layers=config.num_layers,
        intermediate_size=config.d_ff,
        hidden_act=activation,
        num_labels=config.num_classes,
        attn_implementation="eager",
    )
    return moved(transformers.VivitForVideoClassification(settings)).double()


PARTS = {
    "mixer.query_proj": "attention.q_proj",
    "mixer.key_proj": "attention.k_proj",
    "mixer.value_proj": "attention.v_proj",
    "mixer.out_proj": "attention.o_proj",
    "mixer_wiring.norm": "layernorm_before",
    "feed_forward_wiring.norm": "layernorm_after",
    "feed_forward.widen": "mlp.fc1",
    "feed_forward.narrow": "mlp.fc2",
}


def their_names(config):
    """Our name of every parameter, and theirs."""
    names = {
        "encoder.encoder.class_token": "vivit.embeddings.cls_token",
        "encoder.encoder.positions": "vivit.embeddings.position_embeddings",
    }
    pairs = {
        "tubelets.project": "vivit.embeddings.patch_embeddings.projection",
        "encoder.encoder.norm": "vivit.layernorm",
        "head": "classifier",
    }
    for layer in range(config.num_layers):
        pairs |= {f"encoder.encoder.blocks.{layer}.{a}": f"vivit.layers.{layer}.{b}" for a, b in PARTS.items()}
    return names | {f"{a}.{end}": f"{b}.{end}" for a, b in pairs.items() for end in ("weight", "bias")}


@pytest.mark.parametrize(("ours_activation", "theirs_activation"), [("gelu", "gelu"), ("gelu_tanh", "gelu_fast")])
@pytest.mark.parametrize(("sizes", "widths"), list(zip(SIZES, WIDTHS, strict=True)))
def test_joint_vivit_matches_transformers_in_logits_weights_and_gradients(
    sizes, widths, ours_activation, theirs_activation
):
    config = ViViTConfig(**sizes, **widths, activation=ours_activation)
    theirs = huggingface(config, theirs_activation)
    ours = ViViT(config, JointEncoder(config)).double().eval()
    names, state = their_names(config), theirs.state_dict()
    assert set(names.values()) == set(state), "a weight of theirs has no place in ours"
    ours.load_state_dict({name: state[other] for name, other in names.items()})
    inputs = videos(config)
    want = theirs(inputs, output_attentions=True)
    with attention_weights(ours) as seen:
        logits = ours(inputs)
    # their gelu_fast has a constant of ten digits, and their eager softmax is in 32 bits
    close = {"atol": 1e-6, "rtol": 1e-5}
    assert_close(logits, want.logits, **close)
    assert_close(list(seen.values()), list(want.attentions), **close)
    theirs.set_attn_implementation("sdpa")
    want = theirs(inputs).logits
    close = {"atol": 1e-12, "rtol": 1e-12} if ours_activation == "gelu" else {"atol": 1e-9, "rtol": 1e-9}
    got = ours(inputs)
    assert_close(got, want, **close)
    weight = torch.randn_like(got)
    (got * weight).sum().backward()
    (want * weight).sum().backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        assert_close(parameter.grad, gradients[names[name]], **close, msg=lambda m, name=name: f"{name}: {m}")
        assert parameter.grad.any(), name


def test_factorised_vivit_is_an_encoder_for_each_time_and_one_over_their_class_tokens():
    config = ViViTConfig(**SIZES[0], **WIDTHS[0])
    model = moved(ViViT(config, FactorisedEncoder(config, 3))).double()
    inputs = videos(config)
    tubelets = model.tubelets(inputs)
    summaries = [model.encoder.spatial(tubelets[:, t].flatten(1, 2))[:, 0] for t in range(3)]
    last = model.encoder.temporal(torch.stack(summaries, dim=1))[:, 0]
    assert_close(model(inputs), model.head(last), atol=1e-12, rtol=1e-12)
    assert len(model.encoder.temporal.blocks) == 3
    with attention_weights(model) as seen:
        model(inputs)
    shapes = {name: tuple(weights.shape) for name, weights in seen.items()}
    assert shapes["encoder.spatial.blocks.1.mixer"] == (2 * 3, 2, 1 + 6, 1 + 6)
    assert shapes["encoder.temporal.blocks.2.mixer"] == (2, 2, 1 + 3, 1 + 3)


def test_spatial_encoder_sees_its_own_time_only_and_the_joint_one_all():
    config = ViViTConfig(**SIZES[0], **WIDTHS[0])
    for encoder in (FactorisedEncoder(config), JointEncoder(config)):
        model = moved(ViViT(config, encoder)).double()
        seen = []
        part = model.encoder.spatial if isinstance(encoder, FactorisedEncoder) else model.encoder.encoder
        part.register_forward_hook(lambda module, args, out, seen=seen: seen.append(out))
        inputs = videos(config, batch=1)
        changed = inputs.clone()
        changed[:, -1] += 1.0  # the last frame
        model(inputs), model(changed)
        before, after = (out.reshape(-1, config.d_model) for out in seen)
        same = (before == after).all(dim=1)
        if isinstance(encoder, FactorisedEncoder):
            assert same[:14].all()  # two times of 1 + 6 tokens
            assert not same[14:].any()
        else:
            assert not same.any()


@pytest.mark.parametrize(
    ("encoder", "parameters", "gmacs"), [(JointEncoder, 88.9e6, 455.2), (FactorisedEncoder, 115.1e6, 284.4)]
)
def test_vivit_base_has_the_published_size_and_cost(encoder, parameters, gmacs):
    """Table 2; its operations are multiply-adds, and within one percent of the products that we count."""
    with torch.device("meta"):
        model, inputs = ViViT(VIVIT_BASE, encoder(VIVIT_BASE)).eval(), torch.empty(1, 32, 3, 224, 224)
    assert count_parameters(model) == pytest.approx(parameters, abs=0.06e6)
    assert count_flops(model, inputs) / 2e9 == pytest.approx(gmacs, rel=0.01)


def test_tubelets_are_boxes_of_pixels_times_one_matrix():
    config = ViViTConfig(**SIZES[1], **WIDTHS[1])
    embed = ViViT(config).double().tubelets
    inputs = videos(config)
    box = inputs[1, 3:6, :, 5:10, 10:15]  # time 1, row 1, column 2: (frames, channels, 5, 5)
    want = embed.project.weight.flatten(1) @ box.transpose(0, 1).flatten() + embed.project.bias
    assert_close(embed(inputs)[1, 1, 1, 2], want, atol=1e-12, rtol=1e-12)


def test_vivit_knows_the_order_of_frames():
    config = ViViTConfig(**SIZES[0], **WIDTHS[0])
    for encoder in (FactorisedEncoder(config), JointEncoder(config)):
        model = moved(ViViT(config, encoder)).double()
        inputs = videos(config)
        assert not torch.allclose(model(inputs.flip(1)), model(inputs))


def test_vivit_says_what_is_wrong():
    config = ViViTConfig(**SIZES[0], **WIDTHS[0])
    model = ViViT(config)
    with pytest.raises(ValueError, match=r"5 frames cannot be cut into whole tubelets of 2; drop or repeat"):
        model(torch.randn(2, 5, 3, 12, 8))
    with pytest.raises(ValueError, match=r"for 6 frames of \(12, 8\) pixels, got \(2, 4, 3, 12, 8\)"):
        model(torch.randn(2, 4, 3, 12, 8))
    with pytest.raises(ValueError, match=r"real numbers, got torch.uint8"):
        model(torch.zeros(2, 6, 3, 12, 8, dtype=torch.uint8))
    with pytest.raises(ValueError, match="tubelet must divide num_frames, got tubelet=4 and num_frames=6"):
        ViViTConfig(**SIZES[0] | {"tubelet": 4}, **WIDTHS[0])
    with pytest.raises(ValueError, match="num_temporal_layers must be at least 1, got 0"):
        FactorisedEncoder(config, 0)
