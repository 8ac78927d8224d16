"""`load`: checkpoints as strangers save them, heads that are missing or another, and layers from `torch.nn`."""

import dataclasses
import json

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lecturelib.layers import Block, DecoderBlock, MultiHeadAttention, Recurrent
from lecturelib.models import BERT, GPT, BERTPretraining, DeiT, Swin, SwinV2, ViT, load
from lecturelib.models.mlp import MLP

transformers = pytest.importorskip("transformers")

TEXT = {"vocab_size": 17, "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 20}
TEXT |= {"max_position_embeddings": 11}
GPT2 = {"vocab_size": 17, "n_positions": 11, "n_embd": 12, "n_head": 3, "n_layer": 2}
PATCHES = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 20}
PATCHES |= {"image_size": 26, "patch_size": 13}
WINDOWS = {"image_size": 24, "patch_size": 2, "embed_dim": 6, "depths": [2, 1], "num_heads": [1, 2], "window_size": 3}
VISION = {
    "vit": (ViT, "ViT", PATCHES),
    "swin": (Swin, "Swin", WINDOWS),
    "swin-v2": (SwinV2, "Swinv2", WINDOWS),
}


@pytest.fixture(params=list(VISION))
def vision(request):
    return VISION[request.param]


def theirs(kind, name, **settings):
    """A model of transformers, every parameter moved from its initial value."""
    model = getattr(transformers, name)(getattr(transformers, f"{kind}Config")(**settings))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def images(settings):
    return torch.randn(2, 3, settings["image_size"], settings["image_size"])


def tokens():
    return torch.randint(17, (2, 7))


def assert_equals(ours, peer, inputs):
    with torch.no_grad():
        want = peer(inputs)
        assert_close(ours.eval()(inputs), getattr(want, "logits", want), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("num_labels", [2, 3])
def test_load_reads_a_folder_with_few_labels(vision, num_labels, tmp_path):
    ours, kind, settings = vision
    peer = theirs(kind, f"{kind}ForImageClassification", **settings, num_labels=num_labels)
    peer.save_pretrained(tmp_path)
    assert ("id2label" in json.loads((tmp_path / "config.json").read_text())) == (
        num_labels != 2
    )  # two are not written
    model = load(ours, tmp_path)
    assert model.config.num_classes == num_labels
    assert_equals(model, peer, images(settings))


@pytest.mark.parametrize("activation", ["gelu_pytorch_tanh", "gelu_new", "relu"])
def test_load_understands_sides_written_twice_and_other_nonlinearities(vision, activation, tmp_path):
    ours, kind, settings = vision
    peer = theirs(kind, f"{kind}ForImageClassification", **settings, hidden_act=activation, num_labels=5)
    peer.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    twice = {name: [settings[name]] * 2 for name in ("image_size", "patch_size")}
    (tmp_path / "config.json").write_text(json.dumps(written | twice))
    assert_equals(load(ours, tmp_path), peer, images(settings))


def test_load_refuses_oblong_patches_and_unknown_nonlinearities(tmp_path):
    peer = theirs("ViT", "ViTForImageClassification", **PATCHES)
    peer.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    for name, value, words in (
        ("patch_size", [13, 2], r"patch_size=\[13, 2\].*square patches only"),
        ("hidden_act", "quick_gelu", r"hidden_act='quick_gelu'.*one of \['gelu'"),
        ("model_type", "clip", "model_type must be 'vit' or 'deit', got 'clip'"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(written | {name: value}))
        with pytest.raises(ValueError, match=words):
            load(ViT, tmp_path)


def test_load_takes_texts_with_gelu_by_tanh():
    peer = theirs("Bert", "BertForPreTraining", **TEXT, hidden_act="gelu_pytorch_tanh")
    inputs = tokens()
    words, follows = load(BERTPretraining, peer).eval()(inputs)
    want = peer(inputs)
    assert_close((words, follows), (want.prediction_logits, want.seq_relationship_logits), atol=1e-4, rtol=1e-4)
    peer = theirs("GPT2", "GPT2LMHeadModel", **GPT2, activation_function="gelu_pytorch_tanh")
    assert_equals(load(GPT, peer), peer, inputs)


def test_swin_v2_works_under_another_default_dtype(vision):
    ours, kind, settings = vision
    torch.set_default_dtype(torch.float64)
    try:
        peer = theirs(kind, f"{kind}ForImageClassification", **settings).double()
        model, inputs = load(ours, peer).eval(), images(settings)
        with torch.no_grad():
            assert_close(model(inputs), peer(inputs).logits, atol=1e-10, rtol=1e-8)
    finally:
        torch.set_default_dtype(torch.float32)


# Files that are pickles ---------------------------------------------------------------------------------------------


def test_load_reads_pytorch_model_bin(tmp_path):
    peer = theirs("GPT2", "GPT2LMHeadModel", **GPT2)
    (tmp_path / "config.json").write_text(json.dumps(peer.config.to_dict()))
    state = peer.state_dict()
    torch.save(state, tmp_path / "pytorch_model.bin")
    inputs = tokens()
    for source in (tmp_path, str(tmp_path / "pytorch_model.bin")):
        assert_equals(load(GPT, source), peer, inputs)
    names = list(state)
    shards = {name: f"part{i % 2}.bin" for i, name in enumerate(names)}
    for file in set(shards.values()):
        torch.save({name: state[name] for name in names if shards[name] == file}, tmp_path / file)
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "other.bin")
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": shards}))
    assert_equals(load(GPT, tmp_path), peer, inputs)


class Trap:
    """What a pickle can do: call anything when it is opened."""

    def __reduce__(self):
        return (print, ("the trap was run",))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"w": Trap()}, r"model\.bin is damaged, or holds more than tensors.*not run here"),
        ({"model": {"w": torch.ones(2)}}, r"holds the names 'model'.*give the state dict in it"),
        ([torch.ones(2)], "holds a list"),
    ],
)
def test_load_refuses_pickles_of_anything_but_tensors(tmp_path, content, words, capfd):
    torch.save(content, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match=words):
        load(GPT, tmp_path)
    assert "trap" not in capfd.readouterr().out


@pytest.mark.parametrize("damage", [lambda data: data[:-40], lambda data: b"", lambda data: b"not a file of torch"])
def test_load_names_a_damaged_bin_file(tmp_path, damage):
    path = tmp_path / "pytorch_model.bin"
    torch.save({"w": torch.ones(3)}, path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is damaged.*fetch it again"):
        load(GPT, tmp_path)


# Heads --------------------------------------------------------------------------------------------------------------


def test_load_refuses_a_checkpoint_without_a_head_and_says_how_to_start_one(vision, tmp_path):
    ours, kind, settings = vision
    peer = theirs(kind, f"{kind}Model", **settings)
    peer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"missing.*: classifier\.bias, classifier\.weight; .*pass new_head=True"):
        load(ours, tmp_path)
    model = load(ours, tmp_path, new_head=True).eval()
    inputs = images(settings)
    with torch.no_grad():
        want = peer(inputs).last_hidden_state
        want = want[:, 0] if ours is ViT else want.mean(dim=1)  # what the head reads
        assert_close(model(inputs), model.head(want), atol=1e-4, rtol=1e-4)


def test_load_starts_a_new_head_for_other_classes(vision):
    ours, kind, settings = vision
    peer = theirs(kind, f"{kind}ForImageClassification", **settings, num_labels=5)
    config = dataclasses.replace(load(ours, peer).config, num_classes=7)
    with pytest.raises(ValueError, match=r"classifier\.weight has shape \(5, \d+\), needed \(7, \d+\).*new_head=True"):
        load(ours, peer, config)
    model = load(ours, peer, config, new_head=True)
    assert model.head.out_features == 7
    assert_close(model.patches.project.weight if ours is not ViT else model.encoder.patches.project.weight,
                 next(p for n, p in peer.named_parameters() if n.endswith("projection.weight")))  # fmt: skip


def test_load_takes_a_trunk_from_under_any_head():
    inputs = tokens()
    for name in ("BertForSequenceClassification", "BertForPreTraining", "BertModel"):
        peer = theirs("Bert", name, **TEXT)
        want = getattr(peer, "bert", peer)(inputs)
        hidden, pooled, *_ = load(BERT, peer).eval()(inputs)
        assert_close((hidden, pooled), (want.last_hidden_state, want.pooler_output), atol=1e-4, rtol=1e-4)


def test_load_starts_a_pooler_where_there_is_none():
    peer = theirs("Bert", "BertForMaskedLM", **TEXT)
    with pytest.raises(ValueError, match=r"missing.*: pooler\.dense\.bias, pooler\.dense\.weight; .*new_head=True"):
        load(BERT, peer)
    inputs = tokens()
    words, _ = load(BERTPretraining, peer, new_head=True).eval()(inputs)
    assert_close(words, peer(inputs).logits, atol=1e-4, rtol=1e-4)


def test_load_refuses_a_language_model_with_a_classifier_and_says_what_to_do():
    peer = theirs("GPT2", "GPT2ForSequenceClassification", **GPT2)
    with pytest.raises(ValueError, match=r"not known to this model: score\.weight; .*a state dict without them"):
        load(GPT, peer)
    trunk = {name: tensor for name, tensor in peer.state_dict().items() if name != "score.weight"}
    inputs = tokens()
    want = peer.transformer(inputs).last_hidden_state
    assert_close(load(GPT, trunk, load_config(peer)).eval().features(inputs), want, atol=1e-4, rtol=1e-4)


def load_config(peer):
    return load(GPT, transformers.GPT2LMHeadModel(peer.config)).config


def test_load_never_takes_a_part_of_a_head_for_another_part():
    peer = theirs("DeiT", "DeiTForImageClassificationWithTeacher", **PATCHES)
    state = {name: tensor for name, tensor in peer.state_dict().items() if "layernorm_before" not in name}
    config = load(DeiT, peer).config
    with pytest.raises(ValueError, match=r"missing.*layernorm_before"):
        load(DeiT, state, config, new_head=True)


# Models and layers at hand ------------------------------------------------------------------------------------------


def test_load_fills_a_model_that_is_built_and_returns_it():
    peer = theirs("GPT2", "GPT2LMHeadModel", **GPT2)
    ours = GPT(load(GPT, peer).config)
    assert load(ours, peer.state_dict()) is ours
    assert_equals(ours, peer, tokens())
    with pytest.raises(ValueError, match="this GPT is built already"):
        load(ours, peer.state_dict(), ours.config)


def test_load_names_the_parts_that_a_checkpoint_does_not_have():
    peer = theirs("GPT2", "GPT2LMHeadModel", **GPT2)
    ours = GPT(load(GPT, peer).config)
    ours.extra = nn.Linear(3, 2)
    with pytest.raises(ValueError, match=r"parts that the checkpoint knows nothing of: extra\.bias, extra\.weight"):
        load(ours, peer.state_dict())


def test_load_takes_subclasses_and_says_which_classes_it_knows():
    class Mine(GPT):
        pass

    assert type(load(Mine, theirs("GPT2", "GPT2LMHeadModel", **GPT2))) is Mine
    with pytest.raises(TypeError, match=r"no foreign layout for MLP; known are BERT, BERTPretraining, Block, CaiT"):
        load(MLP, {})


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_load_builds_blocks_from_torch(norm_first, activation):
    options = {"activation": activation, "norm_first": norm_first, "batch_first": True, "layer_norm_eps": 1e-3}
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 4, 12)
    encoder = nn.TransformerEncoderLayer(12, 3, 20, **options).eval()
    assert_close(load(Block, encoder).eval()(x), encoder(x), atol=1e-5, rtol=1e-4)
    decoder = nn.TransformerDecoderLayer(12, 3, 20, **options).eval()
    assert_close(load(DecoderBlock, decoder).eval()(x, memory), decoder(x, memory), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 7, "vdim": 7}])
def test_load_builds_attention_from_torch(options):
    peer = nn.MultiheadAttention(12, 3, batch_first=True, **options)
    query, key = torch.randn(2, 5, 12), torch.randn(2, 4, options.get("kdim", 12))
    assert_close(load(MultiHeadAttention, peer)(query, key), peer(query, key, key)[0])


@pytest.mark.parametrize("peer", [nn.RNN, nn.LSTM, nn.GRU, lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k)])
def test_load_builds_recurrent_nets_from_torch(peer):
    module = peer(4, 5, num_layers=2, bidirectional=True, batch_first=True)
    x = torch.randn(2, 7, 4)
    assert_close(load(Recurrent, module)(x)[0], module(x)[0])


def test_load_says_which_torch_module_a_layer_needs():
    with pytest.raises(TypeError, match=r"a Recurrent is loaded from a torch\.nn\.RNNBase module, got a dict"):
        load(Recurrent, {})
    with pytest.raises(ValueError, match="leave config out"):
        load(Recurrent, nn.GRU(4, 5), {"hidden_dim": 5})
