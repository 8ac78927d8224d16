"""GPT against transformers' GPT-2 and GPT-1, its published sizes and initialisation, and its cache."""

import json
import math

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from lecturelib.layers import (
    ALiBi,
    RelativeBias,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    attention_weights,
)
from lecturelib.models import load
from lecturelib.models.gpt import GPT, GPT1, GPT2_LARGE, GPT2_MEDIUM, GPT2_SMALL, GPT2_XL, GPTConfig

SMALL = GPTConfig(vocab_size=23, max_len=32, d_model=12, num_heads=3, num_layers=2, dropout=0.0)
POSITIONS = {
    "learned": lambda: None,
    "sinusoidal": lambda: SinusoidalPositions(12),
    "rotary": lambda: RotaryPositions(4),
    "alibi": lambda: ALiBi(3),
    "t5": lambda: RelativeBias(3, bidirectional=False),
    "shaw": lambda: RelativePositions(4, 5),
}


def shaken(model):
    """The model in evaluation, every parameter moved, so that no bias is 0 and no norm is 1."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def hf_model(kind, **sizes):
    transformers = pytest.importorskip("transformers")
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    if kind == "gpt2":
        return shaken(transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **dropout)))
    return shaken(transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(**sizes, **dropout)))


SIZES = [
    {"vocab_size": 19, "n_positions": 13, "n_embd": 12, "n_layer": 1, "n_head": 2},
    {"vocab_size": 31, "n_positions": 9, "n_embd": 20, "n_layer": 3, "n_head": 5},
    {"vocab_size": 7, "n_positions": 21, "n_embd": 16, "n_layer": 2, "n_head": 1},
]


@pytest.mark.parametrize("kind", ["gpt2", "openai-gpt"])
@pytest.mark.parametrize("sizes", SIZES)
def test_gpt_matches_transformers_in_logits_and_gradients(kind, sizes):
    theirs = hf_model(kind, **sizes)
    ours = load(GPT, theirs.state_dict(), config=gpt_config(kind, sizes)).eval()
    tokens = torch.randint(sizes["vocab_size"], (3, 8))
    lengths = torch.tensor([8, 5, 2])
    real = torch.arange(8) < lengths[:, None]
    got, want = ours(tokens), theirs(tokens, attention_mask=real.long()).logits
    assert_close(got[real], want[real], atol=1e-5, rtol=1e-4)
    weight = torch.randn_like(got) * real[..., None]
    (got * weight).sum().backward()
    (want * weight).sum().backward()
    compared = 0
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    copy = load(GPT, gradients, config=gpt_config(kind, sizes))
    for (name, parameter), gradient in zip(ours.named_parameters(), copy.parameters(), strict=True):
        assert_close(parameter.grad, gradient, atol=1e-4, rtol=1e-3, msg=lambda m, name=name: f"{name}: {m}")
        compared += gradient.count_nonzero().item()
    assert compared > 100


def gpt_config(kind, sizes):
    return GPTConfig(
        vocab_size=sizes["vocab_size"],
        max_len=sizes["n_positions"],
        d_model=sizes["n_embd"],
        num_heads=sizes["n_head"],
        num_layers=sizes["n_layer"],
        d_ff=sizes.get("n_inner"),
        dropout=0.0,
        wiring="pre_norm" if kind == "gpt2" else "post_norm",
    )


@pytest.mark.parametrize("kind", ["gpt2", "openai-gpt"])
def test_gpt_loads_a_folder_and_a_file_that_transformers_saved(kind, tmp_path):
    theirs = hf_model(kind, **SIZES[1])
    theirs.save_pretrained(tmp_path)
    tokens = torch.randint(31, (2, 6))
    for source in (tmp_path, str(tmp_path), tmp_path / "model.safetensors"):
        model = load(GPT, source).eval()
        assert_close(model(tokens), theirs(tokens).logits, atol=1e-5, rtol=1e-4)
    (tmp_path / "config.json").unlink()
    with pytest.raises(ValueError, match="pass config="):
        load(GPT, tmp_path)
    model = load(GPT, tmp_path, config=gpt_config(kind, SIZES[1])).eval()
    assert_close(model(tokens), theirs(tokens).logits, atol=1e-5, rtol=1e-4)


def test_gpt_takes_the_buffers_that_old_checkpoints_hold():
    state = hf_model("gpt2", **SIZES[0]).transformer.state_dict()
    state |= {"h.0.attn.bias": torch.ones(1, 1, 13, 13), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    assert "wte.weight" in state
    model = load(GPT, state, config=gpt_config("gpt2", SIZES[0]))
    assert torch.equal(model.token_embedding.weight, state["wte.weight"])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s: s.pop("transformer.h.2.ln_2.bias"), r"missing from the checkpoint: h\.2\.ln_2\.bias"),
        (lambda s: s.update({"h.3.ln_1.bias": torch.zeros(20)}), r"not known to this model: h\.3\.ln_1\.bias"),
        (lambda s: s.update({"extra": torch.zeros(1)}), r"not known to this model: extra"),
        (
            lambda s: s.update({"transformer.h.0.attn.c_attn.weight": torch.zeros(60, 20)}),
            r"h\.0\.attn\.c_attn\.weight has shape \(60, 20\), needed \(20, 60\)",
        ),
        (
            lambda s: s.update({"transformer.wpe.weight": torch.zeros(8, 20)}),
            r"wpe\.weight has shape \(8, 20\), needed \(9, 20\)",
        ),
        (lambda s: s.update({"lm_head.weight": torch.zeros(31, 20)}), r"lm_head\.weight differs from transformer\.wte"),
    ],
)
def test_gpt_names_what_does_not_fit(spoil, message):
    state = dict(hf_model("gpt2", **SIZES[1]).state_dict())
    spoil(state)
    with pytest.raises(ValueError, match=message):
        load(GPT, state, config=gpt_config("gpt2", SIZES[1]))


def test_gpt_refuses_a_checkpoint_of_another_network(tmp_path):
    settings = hf_model("gpt2", **SIZES[0]).config.to_dict()
    save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    for change, message in [
        ({"activation_function": "relu"}, "activation_function='relu'.*'gelu_new'"),
        ({"model_type": "bert"}, "model_type.*'bert'"),
    ]:
        (tmp_path / "config.json").write_text(json.dumps(settings | change))
        with pytest.raises(ValueError, match=message):
            load(GPT, tmp_path)


def test_gpt_says_where_it_looked_for_a_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.safetensors"):
        load(GPT, tmp_path / "nothing.safetensors")


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (GPT1, 116_534_784),
        (GPT2_SMALL, 124_439_808),
        (GPT2_MEDIUM, 354_823_168),
        (GPT2_LARGE, 774_030_080),
        (GPT2_XL, 1_557_611_200),
    ],
)
def test_gpt_presets_have_the_published_sizes(config, parameters):
    with torch.device("meta"):
        model = GPT(config)
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("wiring", ["pre_norm", "post_norm"])
def test_gpt_starts_as_published(wiring):
    model = GPT(GPTConfig(vocab_size=300, max_len=200, d_model=96, num_heads=4, num_layers=8, wiring=wiring))
    narrow = 0.02 / math.sqrt(16) if wiring == "pre_norm" else 0.02
    spread = {
        "token_embedding.weight": 0.02,
        "positions.weight": 0.01 if wiring == "pre_norm" else 0.02,
        "blocks.5.mixer.query_proj.weight": 0.02,
        "blocks.5.mixer.out_proj.weight": narrow,
        "blocks.5.feed_forward.widen.weight": 0.02,
        "blocks.5.feed_forward.narrow.weight": narrow,
    }
    parameters = dict(model.named_parameters())
    for name, std in spread.items():
        assert parameters[name].std().item() == pytest.approx(std, rel=0.05), name
    biases = [p for name, p in parameters.items() if name.endswith("bias")]
    assert all(b.count_nonzero() == 0 for b in biases)
    loss = torch.nn.functional.cross_entropy(
        model(torch.randint(300, (4, 50))).flatten(0, 1), torch.randint(300, (200,))
    )
    assert loss.item() == pytest.approx(math.log(300), rel=0.05)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("wiring", ["pre_norm", "post_norm"])
def test_gpt_cached_equals_uncached(positions, wiring):
    config = GPTConfig(**{**vars(SMALL), "wiring": wiring})
    model = shaken(GPT(config, positions=POSITIONS[positions]()))
    tokens = torch.randint(23, (4, 11))
    with torch.no_grad():
        want = model(tokens)
    logits, state = model.start(tokens[:, :5])
    assert_close(logits, want[:, 4], atol=1e-5, rtol=1e-4)
    for t in range(5, 11):
        logits, state = model.step(tokens[:, t], state)
        assert_close(logits, want[:, t], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("positions", POSITIONS)
def test_gpt_cached_equals_uncached_for_prompts_of_different_lengths(positions):
    model = shaken(GPT(SMALL, positions=POSITIONS[positions]()))
    tokens, lengths = torch.randint(23, (4, 12)), torch.tensor([2, 6, 1, 4])
    logits, state = model.start(tokens[:, :6], lengths)
    for more in range(5):
        with torch.no_grad():
            want = torch.stack([model(tokens[b : b + 1, : lengths[b] + more])[0, -1] for b in range(4)])
        assert_close(logits, want, atol=1e-5, rtol=1e-4)
        logits, state = model.step(tokens[torch.arange(4), lengths + more], state)


@pytest.mark.parametrize("lengths", [None, torch.tensor([3, 5])])
def test_gpt_state_selects_rows_and_lets_a_search_branch(lengths):
    model = shaken(GPT(SMALL))
    prompt = torch.randint(23, (2, 5))
    _, state = model.start(prompt, lengths)
    first, after_first = model.step(torch.tensor([1, 2]), state)
    second, _ = model.step(torch.tensor([3, 4]), state)  # the same state once more: a branch
    index = torch.tensor([1, 0, 1])
    chosen, after_chosen = model.step(torch.tensor([2, 1, 4]), state.select(index))
    assert_close(chosen, torch.stack([first[1], first[0], second[1]]), atol=1e-5, rtol=1e-4)
    again, _ = model.step(torch.tensor([7, 8]), after_first)  # the first branch was not disturbed by the second
    onward, _ = model.step(torch.tensor([8, 7, 9]), after_chosen)
    assert_close(again, onward[[1, 0]], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("positions", POSITIONS)
def test_gpt_is_causal(positions):
    model = shaken(GPT(SMALL, positions=POSITIONS[positions]()))
    embedded = []
    model.token_embedding.register_forward_hook(lambda m, i, out: embedded.append(out.requires_grad_()) or out)
    logits = model(torch.randint(23, (2, 7)))
    for t in range(7):
        (grad,) = torch.autograd.grad(logits[:, t].square().sum(), embedded[0], retain_graph=True)
        reached = grad.abs().sum((0, 2)) > 0
        assert reached.tolist() == [s <= t for s in range(7)]


def test_gpt_gives_every_layer_and_head_its_weights():
    model = shaken(GPT(SMALL))
    tokens = torch.randint(23, (4, 7))
    with attention_weights(model) as seen:
        logits = model(tokens)
    assert_close(logits, model(tokens), atol=1e-5, rtol=1e-4)
    assert list(seen) == ["blocks.0.mixer", "blocks.1.mixer"]
    for layer in seen.values():
        assert layer.shape == (4, 3, 7, 7)
        assert layer.triu(1).count_nonzero() == 0
        assert_close(layer.sum(-1), torch.ones(4, 3, 7))


def test_gpt_without_a_table_reads_past_max_len():
    tokens = torch.randint(23, (1, 40))
    assert GPT(SMALL, positions=ALiBi(3))(tokens).isfinite().all()
    with pytest.raises(ValueError, match="40 tokens is longer than max_len=32"):
        GPT(SMALL)(tokens)


def test_gpt_cache_says_when_it_is_full():
    model = GPT(SMALL).eval()
    _, state = model.start(torch.zeros(1, 32, dtype=torch.long))
    with pytest.raises(ValueError, match="max_len=32"):
        model.step(torch.tensor([0]), state)


def test_gpt_cache_under_autocast_equals_forward_under_autocast():
    model = shaken(GPT(SMALL))
    tokens = torch.randint(23, (3, 6))
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        want = model(tokens)[:, -1]
        _, state = model.start(tokens[:, :-1])
        got, _ = model.step(tokens[:, -1], state)
    assert_close(got, want, atol=0.05, rtol=0.05)
    got, _ = model.step(tokens[:, -1], state)  # and a state made under autocast goes on without it
    assert_close(got, want.float(), atol=0.05, rtol=0.05)


def test_gpt_compiles_to_the_same_logits():
    model = shaken(GPT(SMALL))
    tokens = torch.randint(23, (2, 9))
    assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(tokens), model(tokens), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m(torch.zeros(3, dtype=torch.long)), r"\(batch, length\) token ids, got \(3,\)"),
        (lambda m: m(torch.zeros(3, 4)), r"integer token ids, got torch.float32"),
        (lambda m: m.start(torch.zeros(3, 0, dtype=torch.long)), "empty"),
        (
            lambda m: m.start(torch.zeros(2, 4, dtype=torch.long), torch.tensor([0, 4])),
            r"lengths must be between 1 and the padded length 4, got \[0, 4\]",
        ),
        (lambda m: m.step(torch.zeros(2, 1, dtype=torch.long), None), r"got \(2, 1\)"),
        (
            lambda m: m.step(torch.zeros(3, dtype=torch.long), m.start(torch.zeros(2, 4, dtype=torch.long))[1]),
            "2 rows but 3 tokens",
        ),
    ],
)
def test_gpt_says_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call(GPT(SMALL))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 5}, "d_model=12 and num_heads=5"),
        ({"vocab_size": 0}, "vocab_size must be at least 1, got 0"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"wiring": "sandwich"}, "wiring must be one of .*got 'sandwich'"),
        ({"d_ff": -1}, "d_ff must be at least 1, got -1"),
    ],
)
def test_gpt_config_names_the_field(change, message):
    with pytest.raises(ValueError, match=message):
        GPTConfig(**{**vars(SMALL), **change})
