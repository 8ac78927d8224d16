"""Architectures, one file each, built from `lecturelib.layers`."""

from lecturelib.layers.pooling import AttentionPooling
from lecturelib.models.bahdanau import BahdanauConfig, BahdanauSeq2Seq
from lecturelib.models.bert import BERT, BERTConfig, BERTPretraining
from lecturelib.models.cait import CaiT, CaiTConfig
from lecturelib.models.caption_transformer import CaptionTransformer, CaptionTransformerConfig
from lecturelib.models.cho_seq2seq import ChoSeq2Seq, ChoSeq2SeqConfig
from lecturelib.models.conv_encoder import ConvEncoder, ConvEncoderConfig
from lecturelib.models.decision_transformer import DecisionTransformer, DecisionTransformerConfig
from lecturelib.models.deit import DeiT, hard_distillation_loss, soft_distillation_loss
from lecturelib.models.detr import DETR, Detected, DETRConfig
from lecturelib.models.esim import ESIM, ESIMConfig
from lecturelib.models.fnet import FNet, FNetConfig, FNetPretraining
from lecturelib.models.gpt import GPT, GPTConfig
from lecturelib.models.graph_network import GraphAttention, GraphConvolution, GraphNetwork, GraphNetworkConfig
from lecturelib.models.graph_transformer import GraphTransformer, GraphTransformerConfig
from lecturelib.models.hierarchical_attention import HierarchicalAttentionConfig, HierarchicalAttentionNetwork
from lecturelib.models.ibm1 import IBM1, IBM1Config
from lecturelib.models.labeller import LabellerConfig, SequenceLabeller
from lecturelib.models.levit import LeViTAttention, LeViTBlock
from lecturelib.models.llama import Llama, LlamaConfig
from lecturelib.models.luong import LuongConfig, LuongSeq2Seq
from lecturelib.models.mlp import MLP, MLPConfig
from lecturelib.models.mlp_mixer import MLPMixer, MLPMixerConfig
from lecturelib.models.ngram import AddK, Interpolation, KneserNey, MarkovChain, NGramModel
from lecturelib.models.non_local import (
    NonLocalBlock,
    ResidualConvolution,
    VideoNet,
    VideoNetConfig,
    dot_product,
    embedded_gaussian,
)
from lecturelib.models.perceiver import Perceiver, PerceiverConfig
from lecturelib.models.pointer_generator import PointerGenerator, PointerGeneratorConfig, coverage_loss
from lecturelib.models.pooling_classifier import PairClassifier, PoolingClassifier, PoolingConfig, SentenceEncoder
from lecturelib.models.promptable_segmenter import PromptableSegmenter, PromptableSegmenterConfig
from lecturelib.models.recurrent_classifier import RecurrentClassifier, RecurrentClassifierConfig, RecurrentTagger
from lecturelib.models.recurrent_lm import RecurrentLM, RecurrentLMConfig
from lecturelib.models.resnet import ResNet, ResNetConfig
from lecturelib.models.seq2seq import Seq2Seq, Seq2SeqConfig
from lecturelib.models.sets import (
    DeepSets,
    DeepSetsConfig,
    InducedSetAttention,
    SetAttention,
    SetTransformer,
    SetTransformerConfig,
)
from lecturelib.models.show_attend_tell import (
    HardGlimpse,
    OneVector,
    ShowAttendTell,
    ShowAttendTellConfig,
    SoftGlimpse,
)
from lecturelib.models.span_reader import SpanReader, SpanReaderConfig, best_span
from lecturelib.models.swin import Swin, SwinConfig
from lecturelib.models.swin_v2 import SwinV2, SwinV2Config
from lecturelib.models.tabular_policies import best_actions, clone, fitted_q, noisy, solve
from lecturelib.models.text_to_image import TextToImage, TextToImageConfig, text_to_image_loss
from lecturelib.models.token_labeller import TokenLabeller, TokenLabellerConfig
from lecturelib.models.transformer import Transformer, TransformerConfig
from lecturelib.models.transformer_xl import TransformerXL, TransformerXLConfig
from lecturelib.models.vilbert import (
    ApartBlock,
    CoAttention,
    CoBlock,
    ReadingBlock,
    StreamConfig,
    ViLBERT,
    ViLBERTConfig,
    ViLBERTPretraining,
)
from lecturelib.models.visual_bert import VisualBERT, VisualBERTConfig, VisualBERTPretraining
from lecturelib.models.vit import ViT, ViTConfig
from lecturelib.models.vit_captioner import ViTCaptioner, ViTCaptionerConfig
from lecturelib.models.vivit import FactorisedEncoder, JointEncoder, ViViT, ViViTConfig
from lecturelib.models.volo import OutlookAttention, Outlooker
from lecturelib.models.vq_tokenizer import (
    Quantized,
    Reconstructed,
    VectorQuantizer,
    VQTokenizer,
    VQTokenizerConfig,
    tokenizer_loss,
)
from lecturelib.models.weights import load

__all__ = [
    "BERT",
    "DETR",
    "ESIM",
    "GPT",
    "IBM1",
    "MLP",
    "AddK",
    "ApartBlock",
    "AttentionPooling",
    "BERTConfig",
    "BERTPretraining",
    "BahdanauConfig",
    "BahdanauSeq2Seq",
    "CaiT",
    "CaiTConfig",
    "CaptionTransformer",
    "CaptionTransformerConfig",
    "ChoSeq2Seq",
    "ChoSeq2SeqConfig",
    "CoAttention",
    "CoBlock",
    "ConvEncoder",
    "ConvEncoderConfig",
    "DETRConfig",
    "DecisionTransformer",
    "DecisionTransformerConfig",
    "DeepSets",
    "DeepSetsConfig",
    "DeiT",
    "Detected",
    "ESIMConfig",
    "FNet",
    "FNetConfig",
    "FNetPretraining",
    "FactorisedEncoder",
    "GPTConfig",
    "GraphAttention",
    "GraphConvolution",
    "GraphNetwork",
    "GraphNetworkConfig",
    "GraphTransformer",
    "GraphTransformerConfig",
    "HardGlimpse",
    "HierarchicalAttentionConfig",
    "HierarchicalAttentionNetwork",
    "IBM1Config",
    "InducedSetAttention",
    "Interpolation",
    "JointEncoder",
    "KneserNey",
    "LabellerConfig",
    "LeViTAttention",
    "LeViTBlock",
    "Llama",
    "LlamaConfig",
    "LuongConfig",
    "LuongSeq2Seq",
    "MLPConfig",
    "MLPMixer",
    "MLPMixerConfig",
    "MarkovChain",
    "NGramModel",
    "NonLocalBlock",
    "OneVector",
    "OutlookAttention",
    "Outlooker",
    "PairClassifier",
    "Perceiver",
    "PerceiverConfig",
    "PointerGenerator",
    "PointerGeneratorConfig",
    "PoolingClassifier",
    "PoolingConfig",
    "PromptableSegmenter",
    "PromptableSegmenterConfig",
    "Quantized",
    "ReadingBlock",
    "Reconstructed",
    "RecurrentClassifier",
    "RecurrentClassifierConfig",
    "RecurrentLM",
    "RecurrentLMConfig",
    "RecurrentTagger",
    "ResNet",
    "ResNetConfig",
    "ResidualConvolution",
    "SentenceEncoder",
    "Seq2Seq",
    "Seq2SeqConfig",
    "SequenceLabeller",
    "SetAttention",
    "SetTransformer",
    "SetTransformerConfig",
    "ShowAttendTell",
    "ShowAttendTellConfig",
    "SoftGlimpse",
    "SpanReader",
    "SpanReaderConfig",
    "StreamConfig",
    "Swin",
    "SwinConfig",
    "SwinV2",
    "SwinV2Config",
    "TextToImage",
    "TextToImageConfig",
    "TokenLabeller",
    "TokenLabellerConfig",
    "Transformer",
    "TransformerConfig",
    "TransformerXL",
    "TransformerXLConfig",
    "VQTokenizer",
    "VQTokenizerConfig",
    "VectorQuantizer",
    "ViLBERT",
    "ViLBERTConfig",
    "ViLBERTPretraining",
    "ViT",
    "ViTCaptioner",
    "ViTCaptionerConfig",
    "ViTConfig",
    "ViViT",
    "ViViTConfig",
    "VideoNet",
    "VideoNetConfig",
    "VisualBERT",
    "VisualBERTConfig",
    "VisualBERTPretraining",
    "best_actions",
    "best_span",
    "clone",
    "coverage_loss",
    "dot_product",
    "embedded_gaussian",
    "fitted_q",
    "hard_distillation_loss",
    "load",
    "noisy",
    "soft_distillation_loss",
    "solve",
    "text_to_image_loss",
    "tokenizer_loss",
]
