"""Architectures, one file each, built from `lecturelib.layers`."""

from lecturelib.models.bahdanau import BahdanauConfig, BahdanauSeq2Seq
from lecturelib.models.bert import BERT, BERTConfig, BERTPretraining
from lecturelib.models.cho_seq2seq import ChoSeq2Seq, ChoSeq2SeqConfig
from lecturelib.models.gpt import GPT, GPTConfig
from lecturelib.models.luong import LuongConfig, LuongSeq2Seq
from lecturelib.models.mlp import MLP, MLPConfig
from lecturelib.models.ngram import AddK, Interpolation, KneserNey, MarkovChain, NGramModel
from lecturelib.models.pointer_generator import PointerGenerator, PointerGeneratorConfig, coverage_loss
from lecturelib.models.recurrent_classifier import RecurrentClassifier, RecurrentClassifierConfig, RecurrentTagger
from lecturelib.models.recurrent_lm import RecurrentLM, RecurrentLMConfig
from lecturelib.models.seq2seq import Seq2Seq, Seq2SeqConfig
from lecturelib.models.transformer import Transformer, TransformerConfig
from lecturelib.models.transformer_xl import TransformerXL, TransformerXLConfig

__all__ = [
    "BERT",
    "GPT",
    "MLP",
    "AddK",
    "BERTConfig",
    "BERTPretraining",
    "BahdanauConfig",
    "BahdanauSeq2Seq",
    "ChoSeq2Seq",
    "ChoSeq2SeqConfig",
    "GPTConfig",
    "Interpolation",
    "KneserNey",
    "LuongConfig",
    "LuongSeq2Seq",
    "MLPConfig",
    "MarkovChain",
    "NGramModel",
    "PointerGenerator",
    "PointerGeneratorConfig",
    "RecurrentClassifier",
    "RecurrentClassifierConfig",
    "RecurrentLM",
    "RecurrentLMConfig",
    "RecurrentTagger",
    "Seq2Seq",
    "Seq2SeqConfig",
    "Transformer",
    "TransformerConfig",
    "TransformerXL",
    "TransformerXLConfig",
    "coverage_loss",
]
