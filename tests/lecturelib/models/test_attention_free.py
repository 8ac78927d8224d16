"""FNet against transformers, MLP-Mixer against timm, Perceiver against transformers, and the papers' sizes."""

import pytest
import torch
from torch.testing import assert_close

from lecturelib.evaluation.cost import count_parameters
from lecturelib.models.fnet import FNET_BASE, FNET_LARGE, FNetConfig, FNetPretraining
from lecturelib.models.mlp_mixer import MIXER_BASE, MIXER_LARGE, MLPMixer, MLPMixerConfig
from lecturelib.models.perceiver import Perceiver, PerceiverConfig

CLOSE = {"atol": 1e-4, "rtol": 1e-4}


def renamed(state, *pairs):
    """A state dict with parts of its names replaced, in this order."""
    out = {}
    for name, tensor in state.items():
        for old, new in pairs:
            name = name.replace(old, new)
        out[name] = tensor
    return out


@pytest.mark.parametrize(
    ("build", "config", "parameters"),
    [
        (FNetPretraining, FNET_BASE, 83_486_722),
        (FNetPretraining, FNET_LARGE, 238_031_106),
        (MLPMixer, MIXER_BASE, 59_880_472),
        (MLPMixer, MIXER_LARGE, 208_196_168),
    ],
    ids=["fnet-base", "fnet-large", "mixer-base", "mixer-large"],
)
def test_presets_have_the_published_sizes(build, config, parameters):
    with torch.device("meta"):
        assert count_parameters(build(config)) == parameters


def test_fnet_matches_transformers():
    peer = pytest.importorskip("transformers")
    config = peer.FNetConfig(
        vocab_size=19,
        hidden_size=12,
        num_hidden_layers=2,
        intermediate_size=20,
        max_position_embeddings=9,
        hidden_dropout_prob=0.0,
    )
    theirs = peer.FNetForPreTraining(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    ours = FNetPretraining(FNetConfig(vocab_size=19, max_len=9, d_model=12, num_layers=2, d_ff=20, dropout=0.0))
    state = renamed(
        theirs.state_dict(),
        ("embeddings.word_embeddings", "token_embedding"),
        ("embeddings.token_type_embeddings", "type_embedding"),
        ("embeddings.position_embeddings", "positions"),
        ("embeddings.LayerNorm", "norm"),
        ("embeddings.projection", "projection"),
        ("encoder.layer", "blocks"),
        ("fourier.output.LayerNorm", "mixer_wiring.norm"),
        ("intermediate.dense", "feed_forward.widen"),
        ("output.dense", "feed_forward.narrow"),
        ("output.LayerNorm", "feed_forward_wiring.norm"),
        ("pooler.dense", "pooler"),
        ("cls.predictions.transform.dense", "transform"),
        ("cls.predictions.transform.LayerNorm", "norm"),
        ("cls.predictions.bias", "token_bias"),
        ("cls.seq_relationship", "next_sentence"),
    )
    ours.load_state_dict({name: tensor for name, tensor in state.items() if "decoder" not in name})
    tokens, types = torch.randint(19, (3, 7)), torch.randint(4, (3, 7))
    got, want = ours(tokens, types), theirs(tokens, token_type_ids=types)
    assert_close(got[0], want.prediction_logits, **CLOSE)
    assert_close(got[1], want.seq_relationship_logits, **CLOSE)


def test_mlp_mixer_matches_timm(timm):
    theirs = timm.models.MlpMixer(
        num_classes=5, img_size=12, in_chans=2, patch_size=4, num_blocks=2, embed_dim=10, mlp_ratio=(0.5, 2.0)
    )
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    sizes = {"d_model": 10, "num_layers": 2, "d_tokens": 5, "d_ff": 20}
    ours = MLPMixer(MLPMixerConfig(image_size=12, patch_size=4, num_channels=2, num_classes=5, **sizes))
    state = renamed(
        theirs.state_dict(),
        ("stem.proj", "patches.project"),
        ("norm1", "mixer_wiring.norm"),
        ("norm2", "feed_forward_wiring.norm"),
        ("mlp_tokens.fc1", "mixer.net.widen"),
        ("mlp_tokens.fc2", "mixer.net.narrow"),
        ("mlp_channels.fc1", "feed_forward.widen"),
        ("mlp_channels.fc2", "feed_forward.narrow"),
    )
    names = {name.partition(".")[0] for name in ours.state_dict()}
    assert names == {"patches", "blocks", "norm", "head"}
    ours.load_state_dict(state)
    images = torch.randn(3, 2, 12, 12)
    assert_close(ours(images), theirs.eval()(images), **CLOSE)


def test_perceiver_matches_transformers():
    peer = pytest.importorskip("transformers")
    config = peer.PerceiverConfig(
        num_latents=7,
        d_latents=12,
        d_model=5,
        num_blocks=2,
        num_self_attends_per_block=2,
        num_self_attention_heads=4,
        num_cross_attention_heads=3,
        self_attention_widening_factor=2,
        cross_attention_widening_factor=2,
        attention_probs_dropout_prob=0.0,
        cross_attention_shape_for_attention="q",
    )
    theirs = peer.PerceiverModel(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    sizes = {"d_model": 12, "num_latents": 7, "num_heads": 4, "num_layers": 2, "num_blocks": 2}
    ours = Perceiver(PerceiverConfig(input_dim=5, num_classes=3, **sizes, cross_heads=3, widening=2))
    shared = (
        ("self.query", "query_proj"),
        ("self.key", "key_proj"),
        ("self.value", "value_proj"),
        ("output.dense", "out_proj"),
        ("mlp.dense1", "feed_forward.widen"),
        ("mlp.dense2", "feed_forward.narrow"),
        ("layernorm.", "feed_forward_wiring.norm."),
    )
    state = {}
    for name, tensor in theirs.state_dict().items():
        if name == "embeddings.latents":
            state["latents"] = tensor
        elif name.startswith("encoder.cross_attention"):
            pairs = (
                ("attention.self.layernorm1", "attention_wiring.norm"),
                ("attention.self.layernorm2", "source_norm"),
            )
            state |= renamed({name.replace("encoder.cross_attention", "read"): tensor}, *pairs, *shared)
        else:
            inside = name.replace("encoder.self_attends", "blocks").replace(".attention.", ".mixer.")
            state |= renamed({inside: tensor}, ("mixer.self.layernorm1", "mixer_wiring.norm"), *shared)
    ours.load_state_dict(state | {name: tensor for name, tensor in ours.state_dict().items() if "head." in name})
    inputs = torch.randn(2, 9, 5)
    assert_close(ours.features(inputs), theirs(inputs).last_hidden_state, **CLOSE)
    mask = torch.arange(9) < torch.tensor([9, 4])[:, None]
    want = theirs(inputs, attention_mask=mask.float()).last_hidden_state
    assert_close(ours.features(inputs, mask[:, None]), want, **CLOSE)
