"""Which models there are recipes for, and how large: names and numbers only, so that help is instant."""

import dataclasses
import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import nn

Kind = Literal["language", "pairs", "masked"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A model by name: where its class and config are, what it learns from, and its sizes.

    Args:
        kind: "language" continues a text, "pairs" turns a source into a target, "masked" fills in gaps
        sizes: presets to train from scratch here; the vocabulary comes from the data
        papers: presets as published, by the name of a constant in the module
        learning_rate: the peak for the presets in `sizes`
        shared_vocabulary: True where source and target are embedded by one matrix
        needs_content: True for a recurrent net, which without content would run step by step in place of its kernel
    """

    module: str
    model: str
    config: str
    kind: Kind
    about: str
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    papers: Mapping[str, str] = field(default_factory=dict)
    learning_rate: float = 3e-3
    shared_vocabulary: bool = False
    needs_content: bool = False

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The fields of the config that the data decides."""
        two = self.kind == "pairs" and not self.shared_vocabulary
        return ("source_vocab_size", "target_vocab_size") if two else ("vocab_size",)

    @property
    def presets(self) -> tuple[str, ...]:
        return (*self.sizes, *self.papers)

    def configure(self, preset: str, **vocabulary: Any) -> Any:
        """Make the config of a preset; what depends on the data (the vocabulary's size) is set on top."""
        module = importlib.import_module(self.module)
        if preset in self.papers:
            return dataclasses.replace(getattr(module, self.papers[preset]), **vocabulary)
        if preset not in self.sizes:
            raise ValueError(f"--preset {preset} is unknown for {self.model}; choose one of {', '.join(self.presets)}")
        return getattr(module, self.config)(**{**self.sizes[preset], **vocabulary})

    def build(self, config: Any) -> "nn.Module":
        model: nn.Module = getattr(importlib.import_module(self.module), self.model)(config)
        return model

    def rebuild(self, values: Mapping[str, Any]) -> "nn.Module":
        """Build a model from a config's saved fields."""
        return self.build(getattr(importlib.import_module(self.module), self.config)(**values))


RECIPES: Mapping[str, Recipe] = {
    "gpt": Recipe(
        module="lecturelib.models.gpt",
        model="GPT",
        config="GPTConfig",
        kind="language",
        about="a decoder-only transformer that continues a text",
        sizes={
            "tiny": {"max_len": 64, "d_model": 128, "num_heads": 4, "num_layers": 4, "dropout": 0.0},
            "small": {"max_len": 256, "d_model": 384, "num_heads": 6, "num_layers": 6, "dropout": 0.1},
        },
        papers={
            "gpt1": "GPT1",
            "gpt2-small": "GPT2_SMALL",
            "gpt2-medium": "GPT2_MEDIUM",
            "gpt2-large": "GPT2_LARGE",
            "gpt2-xl": "GPT2_XL",
        },
        learning_rate=4e-3,
    ),
    "llama": Recipe(
        module="lecturelib.models.llama",
        model="Llama",
        config="LlamaConfig",
        kind="language",
        about="a GPT built as today's models are: RMS norm, rotary positions, SwiGLU, grouped queries",
        sizes={
            "tiny": {"max_len": 64, "d_model": 128, "num_heads": 4, "num_kv_heads": 2, "num_layers": 4},
            "small": {"max_len": 256, "d_model": 384, "num_heads": 6, "num_kv_heads": 2, "num_layers": 6},
        },
        papers={
            "smollm2-135m": "SMOLLM2_135M",
            "smollm2-360m": "SMOLLM2_360M",
            "smollm2-1.7b": "SMOLLM2_1_7B",
        },
        learning_rate=4e-3,
    ),
    "rnn": Recipe(
        module="lecturelib.models.recurrent_lm",
        model="RecurrentLM",
        config="RecurrentLMConfig",
        kind="language",
        about="an LSTM that continues a text",
        sizes={"tiny": {"embedding_dim": 64, "hidden_dim": 192}},
        papers={"zaremba2014": "ZAREMBA2014_MEDIUM"},
        needs_content=True,
    ),
    "seq2seq": Recipe(
        module="lecturelib.models.seq2seq",
        model="Seq2Seq",
        config="Seq2SeqConfig",
        kind="pairs",
        about="two LSTMs with a thought vector between them (Sutskever 2014)",
        sizes={"tiny": {"d_model": 128}, "small": {"d_model": 256, "num_layers": 2, "dropout": 0.1}},
        papers={"sutskever2014": "SUTSKEVER2014"},
        needs_content=True,
    ),
    "cho": Recipe(
        module="lecturelib.models.cho_seq2seq",
        model="ChoSeq2Seq",
        config="ChoSeq2SeqConfig",
        kind="pairs",
        about="a GRU encoder whose summary is read at every step (Cho 2014)",
        sizes={"tiny": {"embedding_dim": 64, "hidden_dim": 128, "maxout_dim": 64}},
        papers={"cho2014": "CHO2014"},
        needs_content=True,
    ),
    "bahdanau": Recipe(
        module="lecturelib.models.bahdanau",
        model="BahdanauSeq2Seq",
        config="BahdanauConfig",
        kind="pairs",
        about="attention with an additive score: look back at the source for every symbol (Bahdanau 2015)",
        sizes={"tiny": {"embedding_dim": 64, "hidden_dim": 96, "attention_dim": 64, "maxout_dim": 64}},
        papers={"rnnsearch": "RNNSEARCH"},
        needs_content=True,
    ),
    "transformer": Recipe(
        module="lecturelib.models.transformer",
        model="Transformer",
        config="TransformerConfig",
        kind="pairs",
        about="attention only, encoder and decoder (Vaswani 2017)",
        sizes={
            "tiny": {
                "d_model": 96,
                "num_heads": 4,
                "num_layers": 2,
                "d_ff": 256,
                "dropout": 0.0,
                "wiring": "pre_norm",
            },
        },
        papers={"base": "TRANSFORMER_BASE", "big": "TRANSFORMER_BIG"},
        learning_rate=2e-3,
        shared_vocabulary=True,
    ),
    "bert": Recipe(
        module="lecturelib.models.bert",
        model="BERTPretraining",
        config="BERTConfig",
        kind="masked",
        about="an encoder that reads in both directions and fills in gaps (Devlin 2019)",
        sizes={"tiny": {"max_len": 64, "d_model": 128, "num_heads": 4, "num_layers": 3, "dropout": 0.0}},
        learning_rate=1e-3,
        papers={"base": "BERT_BASE", "large": "BERT_LARGE"},
    ),
    "luong": Recipe(
        module="lecturelib.models.luong",
        model="LuongSeq2Seq",
        config="LuongConfig",
        kind="pairs",
        about="attention with a multiplicative score, after the recurrent step (Luong 2015)",
        sizes={"tiny": {"d_model": 96}},
        papers={"luong2015": "LUONG2015"},
        needs_content=True,
    ),
}


def find_recipe(name: str) -> Recipe:
    """Look a model up; a name that is off by a letter gets a suggestion."""
    if name in RECIPES:
        return RECIPES[name]
    near = difflib.get_close_matches(name, RECIPES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(RECIPES)}"
    raise ValueError(f"there is no model {name!r}; {hint}")
