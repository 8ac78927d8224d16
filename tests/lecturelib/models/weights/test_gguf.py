"""GGUF: every type that is read, against its bytes and against a second reader of them; what is refused, by name."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from lecturelib.data import FetchError, read_gguf, smollm2
from lecturelib.layers import QuantisedLinear, quantise, stored_bytes
from lecturelib.models import Llama, load
from lecturelib.models.weights.blocks import dequantise
from lecturelib.models.weights.few_bits import load_in_bits

from ...gguf_files import TYPES, packed, small_llama, write_gguf, write_llama

ROUNDING = {"F32": 0.0, "F16": 1e-3, "Q8_0": 0.006, "Q4_1": 0.08, "Q4_0": 0.09}  # of weights of up to 0.5


@pytest.mark.parametrize("kind", TYPES)
def test_llama_is_read_from_gguf(kind, tmp_path):
    model = small_llama()
    loaded = load(Llama, write_llama(tmp_path / "m.gguf", model, kind)).eval()
    assert loaded.config == model.config.__class__(**{**vars(model.config), "eps": loaded.config.eps})
    assert loaded.config.eps == pytest.approx(1e-5)
    for (name, want), got in zip(model.named_parameters(), loaded.parameters(), strict=True):
        assert_close(
            got, want, atol=ROUNDING[kind] if want.dim() == 2 else 0, rtol=0, msg=lambda m, n=name: f"{n}: {m}"
        )
    if kind == "F32":
        tokens = torch.randint(262, (2, 11))
        assert_close(loaded(tokens), model(tokens), atol=1e-5, rtol=1e-4)


def test_llama_with_a_head_of_its_own_is_read_from_gguf(tmp_path):
    model = small_llama(tied=False)
    loaded = load(Llama, write_llama(tmp_path / "m.gguf", model))
    assert_close(loaded.output.weight, model.output.weight)


def by_hand(content, kind):
    """A block's weights, number by number, from the format's description."""
    half = [np.frombuffer(content[at : at + 2], "<f2")[0].astype(np.float32) for at in (0, 2)]
    if kind == "Q8_0":
        return [half[0] * q for q in np.frombuffer(content[2:], np.int8)]
    data = content[2:] if kind == "Q4_0" else content[4:]
    codes = [byte & 15 for byte in data] + [byte >> 4 for byte in data]
    return [half[0] * (q - 8) if kind == "Q4_0" else half[0] * q + half[1] for q in codes]


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1"])
def test_a_block_is_read_as_described(kind, tmp_path):
    values = torch.randn(3, 64)
    content = packed(values, kind)
    path = write_gguf(tmp_path / "t.gguf", {"general.name": "t"}, {"t": ((3, 64), TYPES[kind], content)})
    got = dequantise(read_gguf(path).tensors["t"])
    size = len(content) // 6
    want = [by_hand(content[at : at + size], kind) for at in range(0, len(content), size)]
    assert_close(got, torch.tensor(np.array(want, np.float32)).reshape(3, 64), rtol=0, atol=0)


@pytest.mark.parametrize(("number", "name"), [(12, "Q4_K"), (6, "Q5_0"), (30, "BF16"), (77, "type 77")])
def test_another_type_is_refused_by_name(number, name, tmp_path):
    path = write_gguf(tmp_path / "t.gguf", {"general.name": "t"}, {"odd.weight": ((2, 32), number, bytes(999))})
    with pytest.raises(ValueError, match=rf"odd\.weight is stored as {name}; F32, F16, Q4_0, Q4_1, Q8_0 can be read"):
        load(Llama, path)


def test_a_damaged_file_is_told(tmp_path):
    whole = write_llama(tmp_path / "m.gguf", small_llama(), "Q8_0").read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[:1000])
    with pytest.raises(ValueError, match="it ends at byte 1000, in the middle of its header"):
        load(Llama, path)
    path.write_bytes(whole[:-5000])
    with pytest.raises(ValueError, match="is cut off"):
        load(Llama, path)
    path.write_bytes(b"PK" + whole)
    with pytest.raises(ValueError, match="no GGUF file"):
        load(Llama, path)
    path.write_bytes(whole[:4] + b"\x01" + whole[5:])
    with pytest.raises(ValueError, match="version 1"):
        load(Llama, path)
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        load(Llama, "absent.gguf")


def test_another_architecture_is_refused(tmp_path):
    path = write_llama(tmp_path / "m.gguf", small_llama(), **{"general.architecture": "qwen2"})
    with pytest.raises(ValueError, match=r"general\.architecture='qwen2'"):
        load(Llama, path)


@pytest.mark.parametrize(("bits", "share", "error"), [(8, 9 / 32, 0.003), (4, 5 / 32, 0.04)])
def test_quantised_layers_take_less_memory_and_stay_close(bits, share, error):
    torch.manual_seed(0)
    linear = torch.nn.Linear(96, 7)
    small = QuantisedLinear(linear, bits)
    weights = stored_bytes(small) - stored_bytes(linear) + 7 * 96 * 4
    assert weights == pytest.approx(share * 7 * 96 * 4)
    assert_close(small.weight(), linear.weight, atol=error, rtol=0)
    x = torch.randn(3, 5, 96)
    assert_close(small(x), torch.nn.functional.linear(x, small.weight(), linear.bias))
    assert not torch.equal(small(x), linear(x))


def test_quantised_llama_still_predicts_alike():
    model, tokens = small_llama(), torch.randint(262, (2, 11))
    with torch.no_grad():
        want = model(tokens).softmax(-1)
        assert_close(quantise(model, bits=8)(tokens).softmax(-1), want, atol=5e-3, rtol=0)
    with pytest.raises(ValueError, match="8 or 4 bits, got bits=3"):
        quantise(small_llama(), bits=3)
    assert stored_bytes(model) < stored_bytes(small_llama()) / 1.8


@pytest.mark.parametrize(("bits", "tied"), [(8, True), (4, False)])
def test_loading_in_few_bits_is_loading_and_then_quantising(bits, tied, tmp_path):
    path = write_llama(tmp_path / "m.gguf", small_llama(tied=tied), "Q8_0")
    want, got = quantise(load(Llama, path), bits=bits), load_in_bits(path, bits)
    assert_close(got.state_dict(), want.state_dict(), atol=0, rtol=0)
    tokens = torch.randint(262, (2, 11))
    assert_close(got(tokens), want(tokens))


def test_loading_in_few_bits_says_what_does_not_fit(tmp_path):
    path = write_llama(tmp_path / "m.gguf", small_llama(), **{"llama.block_count": 1})
    with pytest.raises(ValueError, match=r"not known to this model: blk\.1"):
        load_in_bits(path, 4)


@pytest.fixture(scope="module")
def archive():
    try:
        return smollm2()
    except FetchError:
        pytest.skip("SmolLM2 is not here, and there is no network to fetch it from")


@pytest.mark.slow
def test_smollm2_knows_the_capital_of_france(archive):
    from lecturelib.recipes.pretrained import load_pretrained

    model, tokenizer = load_pretrained("smollm2")
    tokens = torch.tensor([tokenizer.encode("The capital of France is")])
    with torch.no_grad():
        likely = model(tokens)[0, -1].softmax(-1)
    assert tokenizer.decode([int(likely.argmax())]) == " Paris"
    assert float(likely.max()) == pytest.approx(0.77, abs=0.02)


@pytest.mark.slow
def test_smollm2_equals_a_second_implementation(archive):
    """transformers, built from the same file by its own names, pairs the halves of a head: rows are put back first."""
    transformers = pytest.importorskip("transformers")
    ours = load(Llama, archive).eval()
    config = transformers.LlamaConfig(
        vocab_size=49_152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
    )
    theirs = transformers.LlamaForCausalLM(config).eval()
    raw = {name: dequantise(tensor) for name, tensor in read_gguf(archive).tensors.items()}
    state = {"model.embed_tokens.weight": raw["token_embd.weight"], "model.norm.weight": raw["output_norm.weight"]}
    names = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj"}
    names |= {"attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj"}
    names |= {"ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    for layer in range(30):
        for here, there in names.items():
            rows = raw[f"blk.{layer}.{here}.weight"]
            if here in ("attn_q", "attn_k"):
                rows = rows.view(-1, 32, 2, 576).transpose(1, 2).reshape(rows.shape)
            state[f"model.layers.{layer}.{there}.weight"] = rows
    theirs.load_state_dict(state | {"lm_head.weight": raw["token_embd.weight"]})
    tokens = torch.randint(49_152, (1, 17), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert_close(ours(tokens), theirs(tokens).logits, atol=2e-3, rtol=1e-4)
