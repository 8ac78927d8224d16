"""LoRA: nothing changes at first, only adapters learn, merging changes nothing."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lecturelib.layers.lora import LoRALinear, add_lora, lora_parameters, merge_lora
from lecturelib.models.gpt import GPT, GPTConfig

CONFIG = GPTConfig(vocab_size=17, max_len=9, d_model=12, num_heads=3, num_layers=2, dropout=0.0)


def test_lora_linear_adds_the_scaled_product():
    linear = nn.Linear(5, 7)
    adapted = LoRALinear(linear, 2, alpha=6.0)
    nn.init.normal_(adapted.up)
    x = torch.randn(3, 4, 5)
    want = x @ (linear.weight + 3.0 * adapted.up @ adapted.down).T + linear.bias
    assert_close(adapted(x), want, atol=1e-5, rtol=1e-4)


def test_lora_changes_nothing_until_it_learns_and_then_trains_only_adapters():
    model = GPT(CONFIG)
    tokens = torch.randint(17, (4, 6))
    before = model(tokens)
    frozen = {name: parameter.clone() for name, parameter in model.named_parameters()}
    assert add_lora(model, 2) is model
    assert_close(model(tokens), before)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (model(tokens) - before).abs().max() > 1e-3
    after = dict(model.named_parameters())
    adapters = dict(lora_parameters(model))
    assert {name for name, p in after.items() if p.requires_grad} == adapters.keys()
    for name in after.keys() - adapters.keys():
        assert torch.equal(after[name], frozen[name.replace(".linear.", ".")]), name


def test_lora_has_the_number_of_parameters_of_the_paper():
    model = add_lora(GPT(CONFIG), 3)
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trainable == 2 * 2 * 3 * (12 + 12)  # layers, two projections each, rank, in + out
    assert trainable == sum(p.numel() for _, p in lora_parameters(model))


def test_lora_merged_equals_adapted_and_is_a_plain_model_again():
    model = add_lora(GPT(CONFIG), 2, alpha=5.0, targets=("query_proj", "feed_forward.widen"))
    for _, parameter in lora_parameters(model):
        nn.init.normal_(parameter)
    tokens = torch.randint(17, (4, 6))
    want, names = model(tokens), GPT(CONFIG).state_dict().keys()
    assert merge_lora(model) is model
    assert_close(model(tokens), want, atol=1e-4, rtol=1e-4)
    assert model.state_dict().keys() == names
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_lora_decodes_with_the_cache():
    model = add_lora(GPT(CONFIG), 2).eval()
    for _, parameter in lora_parameters(model):
        nn.init.normal_(parameter)
    tokens = torch.randint(17, (4, 6))
    _, state = model.start(tokens[:, :5])
    logits, _ = model.step(tokens[:, 5], state)
    assert_close(logits, model(tokens)[:, -1], atol=1e-4, rtol=1e-4)


def test_lora_says_what_is_wrong():
    with pytest.raises(ValueError, match=r"q_proj.*'query_proj'"):
        add_lora(GPT(CONFIG), 2, targets=("q_proj",))
    with pytest.raises(ValueError, match=r"\(12, 12\) weight, got 13"):
        add_lora(GPT(CONFIG), 13)
