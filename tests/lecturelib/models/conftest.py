"""One small case of every model, for the contract suite. To add a model, add one line to CASES."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers import (
    AdaNorm,
    AdaptiveSpan,
    ALiBi,
    BigBird,
    Block,
    FeedForward,
    LatentMixing,
    Linformer,
    LocalAttention,
    MultiHeadAttention,
    Performer,
    PreNorm,
    Reformer,
    RelativeBias,
    RelativePositions,
    RotaryPositions,
    SharedWorkspace,
    TiledAttention,
    UniversalTransformer,
    use_deep_norm,
    use_switch,
)
from lecturelib.layers.patches import PatchEmbedding
from lecturelib.models.bahdanau import BahdanauConfig, BahdanauSeq2Seq
from lecturelib.models.bert import BERTConfig, BERTPretraining
from lecturelib.models.cait import CaiT, CaiTConfig
from lecturelib.models.caption_transformer import CaptionTransformer, CaptionTransformerConfig
from lecturelib.models.cho_seq2seq import ChoSeq2Seq, ChoSeq2SeqConfig
from lecturelib.models.conv_encoder import ConvEncoder, ConvEncoderConfig
from lecturelib.models.decision_transformer import DecisionTransformer, DecisionTransformerConfig
from lecturelib.models.deit import DeiT
from lecturelib.models.detr import DETR, DETRConfig
from lecturelib.models.esim import ESIM, ESIMConfig
from lecturelib.models.fnet import FNetConfig, FNetPretraining
from lecturelib.models.gpt import GPT, GPTConfig
from lecturelib.models.graph_network import GraphNetwork, GraphNetworkConfig
from lecturelib.models.graph_transformer import GraphTransformer, GraphTransformerConfig
from lecturelib.models.hierarchical_attention import HierarchicalAttentionConfig, HierarchicalAttentionNetwork
from lecturelib.models.labeller import LabellerConfig, SequenceLabeller
from lecturelib.models.levit import LeViTAttention, LeViTBlock
from lecturelib.models.llama import Llama, LlamaConfig
from lecturelib.models.luong import LuongConfig, LuongSeq2Seq
from lecturelib.models.mlp import MLP, MLPConfig
from lecturelib.models.mlp_mixer import MLPMixer, MLPMixerConfig
from lecturelib.models.non_local import NonLocalBlock, ResidualConvolution, VideoNet, VideoNetConfig, dot_product
from lecturelib.models.perceiver import Perceiver, PerceiverConfig
from lecturelib.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from lecturelib.models.pooling_classifier import PairClassifier, PoolingClassifier, PoolingConfig
from lecturelib.models.promptable_segmenter import PromptableSegmenter, PromptableSegmenterConfig
from lecturelib.models.recurrent_classifier import RecurrentClassifier, RecurrentClassifierConfig, RecurrentTagger
from lecturelib.models.recurrent_lm import RecurrentLM, RecurrentLMConfig
from lecturelib.models.resnet import ResNet, ResNetConfig
from lecturelib.models.seq2seq import Seq2Seq, Seq2SeqConfig
from lecturelib.models.sets import DeepSets, DeepSetsConfig, SetTransformer, SetTransformerConfig
from lecturelib.models.show_attend_tell import OneVector, ShowAttendTell, ShowAttendTellConfig
from lecturelib.models.span_reader import SpanReader, SpanReaderConfig
from lecturelib.models.swin import Swin, SwinConfig
from lecturelib.models.swin_v2 import SwinV2, SwinV2Config
from lecturelib.models.text_to_image import TextToImage, TextToImageConfig
from lecturelib.models.token_labeller import TokenLabeller, TokenLabellerConfig
from lecturelib.models.transformer import Transformer, TransformerConfig
from lecturelib.models.transformer_xl import TransformerXL, TransformerXLConfig
from lecturelib.models.vilbert import ApartBlock, CoBlock, StreamConfig, ViLBERTConfig, ViLBERTPretraining
from lecturelib.models.visual_bert import VisualBERTConfig, VisualBERTPretraining
from lecturelib.models.vit import ViT, ViTConfig
from lecturelib.models.vit_captioner import ViTCaptioner, ViTCaptionerConfig
from lecturelib.models.vivit import FactorisedEncoder, JointEncoder, ViViT, ViViTConfig
from lecturelib.models.volo import OutlookAttention, Outlooker
from lecturelib.models.vq_tokenizer import VQTokenizer, VQTokenizerConfig

B, TS, TT, T = 3, 5, 7, 6  # batch, source length, target length, length where there is only one
SOURCE_VOCAB, VOCAB = 11, 13
Inputs = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """How the contract suite handles one model.

    name: of the test
    build: makes the model, small, without dropout
    inputs: a generator -> the arguments of forward; forward returns logits (B, T, V), or anything `scalar` takes
    targets: what the logits are trained towards, for the one-batch overfit
    wrong: arguments of a wrong shape; forward must raise a ValueError that matches `wrong_match`
    pad: inputs -> the same inputs with garbage in all padding, and with more of it; None when nothing can be padded
    real: which arguments say how much of each row is real; zeros there make a row of padding alone
    causal: name of the embedding whose last lookup, at positions > t, must not reach the logits at t; None if none
    decode: whether the model has `start` and `step`
    prompted: whether `start` takes a prompt and its lengths, as a language model's does
    compiled: whether to compile it; of the mixers, which are many, and of variants not all do
    inductor: whether to build real kernels for it too, which takes a while; one or two models of each kind do
    idle: parameters that have no gradient by design, each with its reason where the case is made
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[torch.Generator], Inputs]
    wrong: Callable[[Inputs], Inputs]
    wrong_match: str
    targets: Callable[[Inputs, torch.Generator], Tensor]
    pad: Callable[[Inputs], Inputs] | None = None
    real: tuple[int, ...] = ()
    causal: str | None = None
    decode: bool = False
    prompted: bool = False
    compiled: bool = True
    inductor: bool = False
    idle: tuple[str, ...] = ()

    def loss(self, model: nn.Module, inputs: Inputs, targets: Tensor) -> Tensor:
        return F.cross_entropy(model(*inputs).flatten(0, -2), targets.flatten())


def ids(vocab: int, *shape: int) -> Callable[[torch.Generator], Tensor]:
    return lambda generator: torch.randint(vocab, shape, generator=generator)


def encoder_decoder(name: str, build: Callable[[], nn.Module], *, causal: str = "target_embedding") -> Case:
    """A model `forward(source, source_lengths, target_in) -> logits`, `start(source, source_lengths)` and `step`."""

    def inputs(generator: torch.Generator) -> Inputs:
        source = ids(SOURCE_VOCAB, B, TS)(generator)
        return source, torch.tensor([TS, 2, TS - 1]), ids(VOCAB, B, TT)(generator)

    def pad(inputs: Inputs) -> Inputs:
        source, lengths, target = inputs
        longer = F.pad(source, (0, 2))
        padding = torch.arange(TS + 2) >= lengths[:, None]
        return longer.masked_fill(padding, SOURCE_VOCAB - 1), lengths, target

    return Case(
        name=name,
        build=build,
        inputs=inputs,
        wrong=lambda inputs: (inputs[0][0], inputs[1], inputs[2]),
        wrong_match=rf"source must be \(batch, length\) token ids, got \({TS},\)",
        targets=lambda inputs, generator: ids(VOCAB, B, TT)(generator),
        pad=pad,
        real=(1,),
        causal=causal,
        decode=True,
    )


def decoder_only(name: str, build: Callable[[], nn.Module], *, causal: str = "embedding", decode: bool = True) -> Case:
    """A model `forward(tokens) -> logits`, `start(prompt)` and `step`; being causal, it needs no lengths."""
    return Case(
        name=name,
        build=build,
        inputs=lambda generator: (ids(VOCAB, B, T)(generator),),
        wrong=lambda inputs: (inputs[0][0],),
        wrong_match=rf"tokens must be \(batch, length\) token ids, got \({T},\)",
        targets=lambda inputs, generator: ids(VOCAB, B, T)(generator),
        causal=causal,
        decode=decode,
        prompted=True,
    )


def of_a_set(name: str, build: Callable[[], nn.Module]) -> Case:
    """A model `forward(x, lengths) -> logits (B, V)` of sets of vectors of width 5."""

    def pad(inputs: Inputs) -> Inputs:
        x, lengths = inputs
        longer = F.pad(x, (0, 0, 0, 2))
        return longer.masked_fill((torch.arange(T + 2) >= lengths[:, None])[:, :, None], 7.0), lengths

    return Case(
        name=name,
        build=build,
        inputs=lambda generator: (torch.randn(B, T, 5, generator=generator), torch.tensor([T, 2, T - 1])),
        wrong=lambda inputs: (inputs[0][0], inputs[1]),
        wrong_match=rf"x must be \(batch, elements, 5\), got \({T}, 5\)",
        targets=lambda inputs, generator: ids(VOCAB, B)(generator),
        pad=pad,
        real=(1,),
    )


def of_graphs(name: str, build: Callable[[], nn.Module]) -> Case:
    """A model `forward(x, distances) -> logits (B, T, V)` of graphs whose nodes have vectors of width 5."""
    return Case(
        name=name,
        build=build,
        inputs=lambda generator: (torch.randn(B, T, 5, generator=generator), ids(4, B, T, T)(generator)),
        wrong=lambda inputs: (inputs[0], inputs[1][:, 1:]),
        wrong_match=rf"distances must be \({B}, {T}, {T}\) integers, got torch.int64 \({B}, {T - 1}, {T}\)",
        targets=lambda inputs, generator: ids(VOCAB, B, T)(generator),
    )


class GraphsSideBySide(GraphNetwork):
    """Graphs of equal size as one graph, in which no edge leads from one to another."""

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        first = x.shape[1] * torch.arange(len(x), device=x.device)[:, None, None]  # (B, 1, 1)
        together = (edges + first).transpose(0, 1).flatten(1)  # (2, B · E)
        return super().forward(x.flatten(0, 1), together).unflatten(0, x.shape[:2])  # (B, N, C)


def of_edges(layer: str) -> Case:
    """A model `forward(x, edges) -> logits (B, T, V)` of graphs whose nodes have vectors of width 5, and 4 edges."""
    num_heads = 1 if layer == "convolution" else 2
    sizes = {"input_dim": 5, "num_classes": VOCAB, "hidden_dim": 32, "num_heads": num_heads, "dropout": 0.0}
    return Case(
        name=f"graph-{layer}",
        build=lambda: GraphsSideBySide(GraphNetworkConfig(**sizes, layer=layer)),
        inputs=lambda generator: (torch.randn(B, T, 5, generator=generator), ids(T, B, 2, 4)(generator)),
        wrong=lambda inputs: (inputs[0][..., :4], inputs[1]),
        wrong_match=rf"x must be \(nodes, 5\), got \({B * T}, 4\)",
        targets=lambda inputs, generator: ids(VOCAB, B, T)(generator),
        compiled=layer == "attention",
    )


VOCABS = {"source_vocab_size": SOURCE_VOCAB, "target_vocab_size": VOCAB}


def recurrent_lm(cell: str) -> RecurrentLM:
    return RecurrentLM(RecurrentLMConfig(vocab_size=VOCAB, embedding_dim=9, hidden_dim=16, cell=cell))


def luong(score: str, alignment: str) -> LuongSeq2Seq:
    return LuongSeq2Seq(LuongConfig(**VOCABS, d_model=16, num_layers=2, score=score, alignment=alignment, window=2))


def transformer(wiring: str) -> Transformer:
    sizes = {"d_model": 16, "num_heads": 4, "num_layers": 2, "d_ff": 18, "dropout": 0.0}
    return Transformer(TransformerConfig(vocab_size=VOCAB, **sizes, wiring=wiring))


def gpt(wiring: str, positions: Callable[[], nn.Module | None] = lambda: None) -> GPT:
    config = GPTConfig(
        vocab_size=VOCAB, max_len=T, d_model=16, num_heads=4, num_layers=2, d_ff=18, dropout=0.0, wiring=wiring
    )
    return GPT(config, positions=positions())


def deep_transformer() -> Transformer:
    model = transformer("post_norm")
    use_deep_norm(model.encoder, decoder_layers=2)
    use_deep_norm(model.decoder, encoder_layers=2)
    return model


def deep_gpt() -> GPT:
    model = gpt("post_norm")
    use_deep_norm(model.blocks)
    return model


def switched_gpt() -> GPT:
    model = gpt("pre_norm")
    use_switch(model.blocks, 2)
    return model


def llama(*, tied: bool) -> Llama:
    sizes = {"d_model": 16, "num_heads": 4, "num_kv_heads": 2, "num_layers": 2, "d_ff": 18}
    return Llama(LlamaConfig(vocab_size=VOCAB, max_len=T, **sizes, tied=tied))


def labeller() -> SequenceLabeller:
    mixers = ("convolution", "recurrence", "attention", "convolution")
    sizes = {"d_model": 16, "num_heads": 4, "d_ff": 18, "kernel_size": 2}
    return SequenceLabeller(LabellerConfig(vocab_size=VOCAB, num_classes=VOCAB, mixers=mixers, **sizes))


def transformer_xl() -> TransformerXL:
    sizes = {"d_model": 16, "num_heads": 4, "num_layers": 2, "d_ff": 18, "memory_len": T, "dropout": 0.0}
    return TransformerXL(TransformerXLConfig(vocab_size=VOCAB, **sizes))


class MaskedWords(nn.Module):
    """BERT with both heads in one tensor: word logits at every real place, then next-sentence logits at one more."""

    def __init__(self) -> None:
        super().__init__()
        config = BERTConfig(vocab_size=VOCAB, max_len=T + 2, d_model=16, num_heads=4, num_layers=2, dropout=0.0)
        self.model = BERTPretraining(config)

    def forward(self, tokens: Tensor, token_types: Tensor, lengths: Tensor) -> Tensor:
        words, follows = self.model(tokens, token_types, lengths)
        real = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        follows = F.pad(follows, (0, VOCAB - 2))[:, None]  # (B, 1, V)
        return torch.cat((follows, words * real[..., None]), dim=1)  # (B, 1 + T, V)


def bert_targets(inputs: Inputs, generator: torch.Generator) -> Tensor:
    words = ids(VOCAB, B, T)(generator).masked_fill(torch.arange(T) >= inputs[2][:, None], -100)  # what F ignores
    return torch.cat((ids(2, B, 1)(generator), words), dim=1)  # (B, 1 + T)


def pad_bert(inputs: Inputs) -> Inputs:
    tokens, types, lengths = (F.pad(inputs[0], (0, 2)), F.pad(inputs[1], (0, 2)), inputs[2])
    padding = torch.arange(T + 2) >= lengths[:, None]
    return tokens.masked_fill(padding, VOCAB - 1), types.masked_fill(padding, 1), lengths


def labelling(name: str, build: Callable[[], nn.Module], *label_shape: int) -> Case:
    """A model `forward(tokens, lengths) -> logits` of 4 classes, one for each row or each token."""

    def pad(inputs: Inputs) -> Inputs:
        tokens, lengths = inputs
        padding = torch.arange(T + 2) >= lengths[:, None]
        return F.pad(tokens, (0, 2)).masked_fill(padding, VOCAB - 1), lengths

    def targets(inputs: Inputs, generator: torch.Generator) -> Tensor:
        labels = ids(4, B, *label_shape)(generator)
        if label_shape:  # a label for each token: none for padding
            labels[torch.arange(T) >= inputs[1][:, None]] = -100
        return labels

    return Case(
        name=name,
        build=build,
        inputs=lambda generator: (ids(VOCAB, B, T)(generator), torch.tensor([T, 2, T - 1])),
        wrong=lambda inputs: (inputs[0][0], inputs[1]),
        wrong_match=rf"tokens must be \(batch, length\) token ids, got \({T},\)",
        targets=targets,
        pad=pad,
        real=(1,),
    )


def labels(cell: str) -> RecurrentClassifierConfig:
    return RecurrentClassifierConfig(vocab_size=VOCAB, num_classes=4, embedding_dim=9, hidden_dim=16, cell=cell)


def comparing(name: str, build: Callable[[], nn.Module], first: str, *labels: int) -> Case:
    """A model of two padded texts `forward(first, first_lengths, second, second_lengths) -> logits` of 4 classes."""

    def pad(inputs: Inputs) -> Inputs:
        padded = []
        for tokens, lengths in (inputs[:2], inputs[2:]):
            padding = torch.arange(tokens.shape[1] + 2) >= lengths[:, None]
            padded += [F.pad(tokens, (0, 2)).masked_fill(padding, VOCAB - 1), lengths]
        return tuple(padded)

    return Case(
        name=name,
        build=build,
        inputs=lambda generator: (
            *(ids(VOCAB, B, T)(generator), torch.tensor([T, 4, T - 1])),
            *(ids(VOCAB, B, TS)(generator), torch.tensor([3, TS, 2])),
        ),
        wrong=lambda inputs: (inputs[0][0], *inputs[1:]),
        wrong_match=rf"{first} must be \(batch, length\) token ids, got \({T},\)",
        targets=lambda inputs, generator: ids(4, B, *labels)(generator),
        pad=pad,
        real=(1, 3),
    )


def pooled(**changes: object) -> PoolingConfig:
    sizes = {"embedding_dim": 9, "hidden_dim": 8, "attention_dim": 7, "classifier_dim": 10}
    return PoolingConfig(vocab_size=VOCAB, num_classes=4, **sizes | changes)


class FirstWords(SpanReader):
    """A span reader whose answers begin and end within the first four words, whatever comes after them."""

    def forward(self, *inputs: Tensor) -> Tensor:
        return super().forward(*inputs)[..., :4]


def pad_documents(inputs: Inputs) -> Inputs:
    tokens, lengths = F.pad(inputs[0], (0, 2, 0, 1)), F.pad(inputs[1], (0, 1))
    padding = torch.arange(T + 2) >= lengths[..., None]
    return tokens.masked_fill(padding, VOCAB - 1), lengths


def seeing(
    name: str, build: Callable[[], nn.Module], height: int = 8, width: int = 12, *, inductor: bool = False
) -> Case:
    """A model `forward(images) -> logits` of 4 classes, for pictures of 2 channels."""
    return Case(
        name=name,
        build=build,
        inputs=lambda generator: (torch.randn(B, 2, height, width, generator=generator),),
        wrong=lambda inputs: (inputs[0][:, :1],),
        wrong_match=rf"images must be \(batch, 2, height, width\), got \({B}, 1, {height}, {width}\)",
        targets=lambda inputs, generator: ids(4, B)(generator),
        inductor=inductor,
    )


def watching(name: str, build: Callable[[], nn.Module], *, compiled: bool = True) -> Case:
    """A model `forward(videos) -> logits` of 4 classes, for videos of 6 frames with 2 channels."""
    return Case(
        name=name,
        build=build,
        inputs=lambda generator: (torch.randn(B, 6, 2, 8, 12, generator=generator),),
        wrong=lambda inputs: (inputs[0][:, :, :1],),
        wrong_match=rf"videos must be \(batch, frames, 2, height, width\), got \({B}, 6, 1, 8, 12\)",
        targets=lambda inputs, generator: ids(4, B)(generator),
        compiled=compiled,
    )


PICTURES = {"image_size": (8, 12), "num_channels": 2, "num_classes": 4}
VIDEOS = {"num_frames": 6, "tubelet": 2, "patch_size": 4, "d_model": 16, "num_heads": 4, "num_layers": 2}
VIVIT = ViViTConfig(**PICTURES, **VIDEOS)
VIT = ViTConfig(**PICTURES, patch_size=4, d_model=16, num_heads=4, num_layers=2)
CAIT = CaiTConfig(**PICTURES, patch_size=4, d_model=16, num_heads=4, num_layers=2, layer_scale=0.1)
PYRAMID = {"patch_size": 2, "d_model": 8, "num_heads": (2, 4), "num_layers": (2, 1), "window": 2}


class OnPatches(nn.Module):
    """A block between patches and a head, to be held to what models are held to."""

    def __init__(self, block: nn.Module, *, flat: bool) -> None:
        super().__init__()
        self.patches, self.block, self.head = PatchEmbedding(2, 16, 4), block, nn.Linear(16, 4)
        self.flat = flat

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images)
        return self.head(self.block(x.flatten(1, 2) if self.flat else x).flatten(1, -2).mean(dim=1))


def levit() -> nn.Module:
    attention = LeViTAttention(16, 3, key_dim=5, value_dim=7, grid=(2, 3))
    for norm in ((block := LeViTBlock(attention, 16)).narrow.norm, attention.out_proj.norm):
        nn.init.ones_(norm.weight)  # they start at zero, and then nothing before them has a gradient
    return OnPatches(block, flat=True)


def video_net(*blocks: nn.Module) -> VideoNet:
    for block in blocks:
        nn.init.normal_(block.out_proj.weight, std=0.3)  # it starts at zero, and then nothing before it has a gradient
    config = VideoNetConfig(num_channels=2, num_classes=4, d_model=16)
    return VideoNet(config, [ResidualConvolution(16), *blocks, ResidualConvolution(16, dilation=2)])


GRID = ConvEncoderConfig(num_channels=2, widths=(6, 10), layers=(1, 1))
CAPTIONS = ShowAttendTellConfig(vocab_size=VOCAB, image=GRID, embedding_dim=9, hidden_dim=16, attention_dim=11)
WRITER = {"d_model": 20, "num_heads": 5, "num_layers": 2, "d_ff": 18}
WRITTEN = CaptionTransformerConfig(vocab_size=VOCAB, image=GRID, **WRITER)


class RegionsToClasses(nn.Module):
    """The grid of a ConvEncoder under a head, to be held to what models are held to."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = ConvEncoder(GRID), nn.Linear(12, 4)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.encoder(images).mean(dim=1))


FIRST_SLOTS = "model.decoder.0.mixer.attention"


class QueriesToClasses(nn.Module):
    """What DETR's queries say in one tensor: after every decoder layer, 5 logits and 4 numbers of a box each."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"num_queries": 7, "d_model": 16, "num_heads": 4, "encoder_layers": 1, "decoder_layers": 2, "d_ff": 18}
        self.model = DETR(DETRConfig(num_classes=4, image=GRID, **sizes, dropout=0.0))
        nn.init.ones_(self.get_submodule(FIRST_SLOTS).value_proj.bias)  # it starts at zero, as do the slots

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat(self.model(images), dim=-1).flatten(1, 2)  # (B, 2 · 7, 5 + 4)


class RepaintedToClasses(nn.Module):
    """A tokenizer of images under a head that sees the image it gives back; its losses are one more feature each."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"num_codes": 3, "d_code": 6, "d_model": 16, "d_ff": 9, "num_halvings": 2, "num_blocks": 1}
        self.tokenizer = VQTokenizer(VQTokenizerConfig(num_channels=2, **sizes))
        nn.init.normal_(self.tokenizer.quantizer.codebook)  # far apart, so that rounding changes no choice
        self.head = nn.Linear(2 * 8 * 12 + 2, 4)

    def forward(self, images: Tensor) -> Tensor:
        seen = self.tokenizer(images)
        losses = torch.stack((seen.codebook_loss, seen.commitment_loss), dim=1).tanh()  # (B, 2), bounded for the head
        return self.head(torch.cat((seen.images.flatten(1), losses), dim=1))


def captioner(name: str, build: Callable[[], nn.Module], *, causal: str = "embedding") -> Case:
    """A model `forward(images, target_in) -> logits`, `start(images)` and `step`, for pictures of 2 channels."""
    return Case(
        name=name,
        build=build,
        inputs=lambda generator: (torch.randn(B, 2, 8, 12, generator=generator), ids(VOCAB, B, TT)(generator)),
        wrong=lambda inputs: (inputs[0][:, :1], inputs[1]),
        wrong_match=rf"images must be \(batch, 2, height, width\), got \({B}, 1, 8, 12\)",
        targets=lambda inputs, generator: ids(VOCAB, B, TT)(generator),
        causal=causal,
        decode=True,
    )


class MasksAsClasses(PromptableSegmenter):
    """A segmenter whose masks are the classes of pixels, with the quality of each as one pixel more."""

    def forward(self, *inputs: Tensor) -> Tensor:
        logits, quality = super().forward(*inputs)
        return torch.cat((logits.flatten(2), quality.unsqueeze(2)), dim=2).transpose(1, 2)  # (B, pixels + 1, 4)


def segmenter() -> MasksAsClasses:
    image = ConvEncoderConfig(num_channels=2, widths=(6, 8, 10), layers=(1, 1, 1))
    sizes = {"d_model": 16, "num_heads": 2, "num_layers": 2, "d_ff": 18, "num_masks": 4}
    return MasksAsClasses(PromptableSegmenterConfig(image=image, **sizes))


def pad_decisions(inputs: Inputs) -> Inputs:
    """Two more steps behind, which are not real and hold garbage."""
    states, actions, to_go, times, real = inputs
    longer = (F.pad(tensor, (0, 0, 0, 2), value=-10.0) for tensor in (states, actions, to_go))
    return *longer, F.pad(times, (0, 2), value=3), F.pad(real, (0, 2))


def mixing(mixer: Callable[[], nn.Module], *, num_labels: int = 4, is_causal: bool = False) -> TokenLabeller:
    sizes = {"max_len": T + 2, "d_model": 16, "num_layers": 1, "d_ff": 18, "num_labels": num_labels}
    return TokenLabeller(TokenLabellerConfig(vocab_size=VOCAB, **sizes, is_causal=is_causal), mixer)


def mixer(name: str, build: Callable[[], nn.Module], *, pads: bool = True, compiled: bool = False) -> Case:
    """A mixer in the block of a TokenLabeller; `pads`: whether more padding changes nothing."""
    case = labelling(name, partial(mixing, build), T)
    return replace(case, pad=case.pad if pads else None, compiled=compiled)


def causal_mixer(name: str, build: Callable[[], nn.Module], *, compiled: bool = False) -> Case:
    model = partial(mixing, build, num_labels=VOCAB, is_causal=True)
    return replace(decoder_only(name, model, causal="token_embedding", decode=False), compiled=compiled)


def universal() -> nn.Module:
    block = Block(MultiHeadAttention(16, 4), FeedForward(16, 18), partial(PreNorm, 16))
    return UniversalTransformer(block, 16, max_steps=3)


class FourierWords(nn.Module):
    """FNet with both heads in one tensor: word logits at every position, then next-sentence logits at one more."""

    def __init__(self) -> None:
        super().__init__()
        self.model = FNetPretraining(FNetConfig(vocab_size=VOCAB, max_len=T, d_model=16, num_layers=2, dropout=0.0))

    def forward(self, tokens: Tensor, token_types: Tensor) -> Tensor:
        words, follows = self.model(tokens, token_types)
        return torch.cat((F.pad(follows, (0, VOCAB - 2))[:, None], words), dim=1)  # (B, 1 + T, V)


TEXT_STREAM = StreamConfig(d_model=16, num_heads=4, num_layers=2, d_ff=18)
IMAGE_STREAM = StreamConfig(d_model=12, num_heads=3, num_layers=1, d_ff=14)
TWO_STREAMS = ViLBERTConfig(
    vocab_size=VOCAB,
    max_len=T + 2,
    region_dim=5,
    text=TEXT_STREAM,
    image=IMAGE_STREAM,
    co_dim=20,
    co_heads=2,
    num_region_classes=9,
    dropout=0.0,
)
ONE_STREAM = VisualBERTConfig(
    bert=BERTConfig(vocab_size=VOCAB, max_len=T + 2, d_model=16, num_heads=4, num_layers=2, dropout=0.0),
    region_dim=5,
    num_region_classes=9,
)


class WordsAndRegions(nn.Module):
    """All three guesses in one tensor: of the match, of every region, then of every real word."""

    def __init__(self, build: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.model = build()

    def forward(self, tokens: Tensor, regions: Tensor, lengths: Tensor, counts: Tensor) -> Tensor:
        said = self.model(tokens, regions, lengths, counts)
        real = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        seen = torch.arange(regions.shape[1], device=tokens.device) < counts[:, None]
        regions = F.pad(said.regions * seen[..., None], (0, VOCAB - 9))[:, :4]  # (B, 4, V)
        matches = F.pad(said.matches, (0, VOCAB - 2))[:, None]  # (B, 1, V)
        return torch.cat((matches, regions, said.words * real[..., None]), dim=1)  # (B, 5 + T, V)


def words_and_regions(name: str, build: Callable[[], nn.Module]) -> Case:
    """A model `forward(tokens, regions, lengths, counts) -> Guesses`, of sets of 4 regions of width 5."""

    def targets(inputs: Inputs, generator: torch.Generator) -> Tensor:
        words = ids(VOCAB, B, T)(generator).masked_fill(torch.arange(T) >= inputs[2][:, None], -100)
        regions = ids(9, B, 4)(generator).masked_fill(torch.arange(4) >= inputs[3][:, None], -100)
        return torch.cat((ids(2, B, 1)(generator), regions, words), dim=1)

    def pad(inputs: Inputs) -> Inputs:
        tokens, regions, lengths, counts = inputs
        tokens, regions = F.pad(tokens, (0, 2)), F.pad(regions, (0, 0, 0, 3))
        tokens = tokens.masked_fill(torch.arange(T + 2) >= lengths[:, None], VOCAB - 1)
        return tokens, regions.masked_fill((torch.arange(7) >= counts[:, None])[..., None], 7.0), lengths, counts

    return Case(
        name=name,
        build=lambda: WordsAndRegions(build),
        inputs=lambda generator: (
            ids(VOCAB, B, T)(generator),
            torch.randn(B, 4, 5, generator=generator),
            torch.tensor([T, 2, T - 1]),
            torch.tensor([2, 4, 3]),
        ),
        wrong=lambda inputs: (inputs[0], inputs[1][..., :4], *inputs[2:]),
        wrong_match=rf"regions must be \({B}, regions, 5\) with at least one region, got \({B}, 4, 4\)",
        targets=targets,
        pad=pad,
        real=(2, 3),
    )


MIXER = MLPMixerConfig(**PICTURES, patch_size=4, d_model=16, num_layers=2, d_tokens=9, d_ff=18)
LATENTS = {"d_model": 16, "num_latents": 7, "num_heads": 4, "num_layers": 2, "num_blocks": 2}

CASES = [
    Case(
        name="mlp",
        build=lambda: MLP(MLPConfig(input_dim=5, output_dim=VOCAB, hidden_dim=17, num_layers=2)),
        inputs=lambda generator: (torch.randn(B, 5, generator=generator),),
        wrong=lambda inputs: (inputs[0][:, :4],),
        wrong_match=rf"\(\.\.\., 5\), got \({B}, 4\)",
        targets=lambda inputs, generator: ids(VOCAB, B)(generator),
        inductor=True,
    ),
    of_a_set("deep-sets", lambda: DeepSets(DeepSetsConfig(input_dim=5, output_dim=VOCAB))),
    of_a_set(
        "set-transformer", lambda: SetTransformer(SetTransformerConfig(input_dim=5, output_dim=VOCAB, num_points=4))
    ),
    *(
        of_graphs(
            name,
            lambda reach=reach: GraphTransformer(
                GraphTransformerConfig(input_dim=5, output_dim=VOCAB, d_model=16, max_distance=2, reach=reach)
            ),
        )
        for name, reach in (("graph-transformer", None), ("graph-transformer-on-edges", 2))
    ),
    *(of_edges(layer) for layer in ("convolution", "attention", "dynamic")),
    labelling("recurrent-classifier", lambda: RecurrentClassifier(labels("gru"))),
    labelling("recurrent-tagger", lambda: RecurrentTagger(labels("mut1")), T),
    labelling("attention-pooling", lambda: PoolingClassifier(pooled(num_queries=2))),
    *(
        labelling(f"{name}-pooling", lambda name=name: PoolingClassifier(pooled(pooling=name)))
        for name in ("mean", "max", "last")
    ),
    Case(
        name="hierarchical-attention",
        build=lambda: HierarchicalAttentionNetwork(
            HierarchicalAttentionConfig(vocab_size=VOCAB, num_classes=4, embedding_dim=9, hidden_dim=8, attention_dim=7)
        ),
        inputs=lambda generator: (
            ids(VOCAB, B, 4, T)(generator),
            torch.tensor([[T, 2, 3, 5], [4, 0, 0, 0], [1, T, 2, 0]]),
        ),
        wrong=lambda inputs: (inputs[0], inputs[1][:, :2]),
        wrong_match=rf"lengths must be \({B}, 4\) integers.* got torch.int64 \({B}, 2\)",
        targets=lambda inputs, generator: ids(4, B)(generator),
        pad=pad_documents,
        real=(1,),
    ),
    comparing("pair-classifier", lambda: PairClassifier(pooled()), "premise"),
    comparing(
        "esim",
        lambda: ESIM(ESIMConfig(vocab_size=VOCAB, num_classes=4, embedding_dim=9, hidden_dim=8)),
        "premise",
    ),
    comparing(
        "span-reader",
        lambda: FirstWords(SpanReaderConfig(vocab_size=VOCAB, embedding_dim=9, hidden_dim=8, num_turns=2)),
        "passage",
        2,
    ),
    decoder_only(
        "recurrent-lm",
        lambda: RecurrentLM(RecurrentLMConfig(vocab_size=VOCAB, embedding_dim=9, hidden_dim=16, num_layers=2)),
    ),
    *(
        replace(decoder_only(f"recurrent-lm-{cell}", partial(recurrent_lm, cell)), compiled=cell == "nas")
        for cell in ("nas", "rnn", "mut2", "mut3")
    ),
    encoder_decoder("seq2seq", lambda: Seq2Seq(Seq2SeqConfig(**VOCABS, d_model=16, num_layers=2))),
    encoder_decoder(
        "cho", lambda: ChoSeq2Seq(ChoSeq2SeqConfig(**VOCABS, embedding_dim=9, hidden_dim=17, maxout_dim=10))
    ),
    encoder_decoder(
        "bahdanau",
        lambda: BahdanauSeq2Seq(
            BahdanauConfig(**VOCABS, embedding_dim=9, hidden_dim=16, attention_dim=12, maxout_dim=10)
        ),
    ),
    *(
        encoder_decoder(f"luong-{score}-{alignment}", partial(luong, score, alignment))
        for score, alignment in (("dot", "global"), ("general", "local-m"), ("concat", "local-p"))
    ),
    encoder_decoder(
        "pointer-generator",
        lambda: PointerGenerator(PointerGeneratorConfig(vocab_size=VOCAB, max_oov=2, embedding_dim=9, hidden_dim=16)),
        causal="embedding",
    ),
    encoder_decoder("transformer-post-norm", partial(transformer, "post_norm"), causal="embedding"),
    encoder_decoder("transformer-pre-norm", partial(transformer, "pre_norm"), causal="embedding"),
    replace(decoder_only("gpt2", partial(gpt, "pre_norm"), causal="token_embedding"), inductor=True),
    decoder_only("gpt1", partial(gpt, "post_norm"), causal="token_embedding"),
    decoder_only("gpt-deep-norm", deep_gpt, causal="token_embedding"),
    encoder_decoder("transformer-deep-norm", deep_transformer, causal="embedding"),
    decoder_only("gpt-rotary", partial(gpt, "pre_norm", lambda: RotaryPositions(4)), causal="token_embedding"),
    decoder_only("gpt-alibi", partial(gpt, "pre_norm", lambda: ALiBi(4)), causal="token_embedding"),
    *(
        replace(decoder_only(f"gpt-{name}", build, causal="token_embedding"), compiled=False)
        for name, build in (
            ("t5", partial(gpt, "pre_norm", lambda: RelativeBias(4, bidirectional=False))),
            ("shaw", partial(gpt, "pre_norm", lambda: RelativePositions(4, 3))),
        )
    ),
    decoder_only("gpt-switch", switched_gpt, causal="token_embedding"),
    decoder_only("llama", partial(llama, tied=True), causal="token_embedding"),
    decoder_only("llama-untied", partial(llama, tied=False), causal="token_embedding"),
    decoder_only("transformer-xl", transformer_xl),
    replace(decoder_only("labeller", labeller), prompted=False),
    Case(
        name="bert",
        build=MaskedWords,
        inputs=lambda generator: (ids(VOCAB, B, T)(generator), ids(2, B, T)(generator), torch.tensor([T, 2, T - 1])),
        wrong=lambda inputs: (inputs[0], inputs[1][:, :3], inputs[2]),
        wrong_match=rf"tokens \({B}, {T}\), got \({B}, 3\)",
        targets=bert_targets,
        pad=pad_bert,
        real=(2,),
    ),
    words_and_regions("vilbert", lambda: ViLBERTPretraining(TWO_STREAMS, CoBlock)),
    words_and_regions("vilbert-apart", lambda: ViLBERTPretraining(TWO_STREAMS, ApartBlock)),
    words_and_regions("visual-bert", lambda: VisualBERTPretraining(ONE_STREAM)),
    seeing("vit", lambda: ViT(VIT), inductor=True),
    seeing("deit", lambda: DeiT(VIT)),
    seeing("deit-distilled", lambda: DeiT.distilled(VIT)),
    seeing("cait", lambda: CaiT(CAIT)),
    seeing("swin", lambda: Swin(SwinConfig(**PICTURES, **PYRAMID)), inductor=True),
    seeing("swin-padded", lambda: Swin(SwinConfig(**PICTURES, **PYRAMID)), 11, 13),
    seeing("swin-v2", lambda: SwinV2(SwinV2Config(**PICTURES, **PYRAMID))),
    seeing("resnet", lambda: ResNet(ResNetConfig(num_channels=2, num_classes=4, d_model=6, blocks=1))),
    seeing("conv-encoder", RegionsToClasses),
    replace(
        seeing("detr", QueriesToClasses),
        targets=lambda inputs, generator: ids(5, B, 2 * 7)(generator),
        # The slots start at zero, so all values are alike and it does not matter who looks at whom.
        idle=(
            *(f"{FIRST_SLOTS}.{part}_proj.{kind}" for part in ("query", "key") for kind in ("weight", "bias")),
            f"{FIRST_SLOTS}.value_proj.weight",
        ),
    ),
    captioner("show-attend-tell", lambda: ShowAttendTell(CAPTIONS)),
    captioner("caption-transformer", lambda: CaptionTransformer(WRITTEN), causal="decoder.embedding"),
    captioner(
        "vit-captioner",
        lambda: ViTCaptioner(ViTCaptionerConfig(vocab_size=VOCAB, image=VIT, **WRITER)),
        causal="decoder.embedding",
    ),
    captioner("show-attend-tell-one-vector", lambda: ShowAttendTell(CAPTIONS, OneVector(CAPTIONS, regions=4 * 6))),
    replace(seeing("ada-norm", lambda: OnPatches(AdaNorm(16), flat=True)), compiled=False),
    seeing("vq-tokenizer", RepaintedToClasses),
    Case(
        name="text-to-image",
        build=lambda: TextToImage(
            TextToImageConfig(
                vocab_size=SOURCE_VOCAB,
                num_codes=VOCAB,
                caption_len=TS,
                image_len=TT,
                d_model=16,
                num_heads=4,
                num_layers=2,
                dropout=0.0,
            )
        ),
        inputs=lambda generator: (ids(SOURCE_VOCAB, B, TS)(generator), ids(VOCAB, B, TT)(generator)),
        wrong=lambda inputs: (inputs[0][:, 1:], inputs[1]),
        wrong_match=rf"captions must be padded to caption_len={TS} words, got {TS - 1}",
        targets=lambda inputs, generator: ids(SOURCE_VOCAB + VOCAB, B, TS + TT)(generator),
        causal="gpt.token_embedding",
    ),
    Case(
        name="decision-transformer",
        build=lambda: DecisionTransformer(
            DecisionTransformerConfig(
                state_dim=5, action_dim=VOCAB, max_steps=9, d_model=16, num_heads=4, num_layers=2, d_ff=18, dropout=0.0
            )
        ),
        inputs=lambda generator: (
            torch.randn(B, T, 5, generator=generator),
            F.one_hot(ids(VOCAB, B, T)(generator), VOCAB).to(torch.get_default_dtype()),
            torch.randn(B, T, 1, generator=generator),
            torch.arange(T).expand(B, -1),
            torch.ones(B, T, dtype=torch.bool),
        ),
        wrong=lambda inputs: (inputs[0][..., :4], *inputs[1:]),
        wrong_match=rf"states must be \(batch, steps, 5\), got \({B}, {T}, 4\)",
        targets=lambda inputs, generator: ids(VOCAB, B, T)(generator),
        pad=pad_decisions,
        real=(4,),
        causal="time_embedding",
    ),
    Case(
        name="promptable-segmenter",
        build=segmenter,
        inputs=lambda generator: (
            torch.randn(B, 2, 8, 12, generator=generator),
            8 * torch.rand(B, 5, 2, generator=generator),
            torch.arange(-1, 4).expand(B, -1),
        ),
        wrong=lambda inputs: (*inputs[:2], inputs[2][:, :3]),
        wrong_match=rf"kinds \(batch, points\), got \({B}, 5, 2\) and \({B}, 3\)",
        targets=lambda inputs, generator: ids(4, B, 1)(generator).repeat(1, 97),  # a mask for each image
    ),
    seeing("levit-block", levit),
    mixer("tiled-attention", lambda: TiledAttention(16, 4, tile=5), compiled=True),
    mixer("local-attention", lambda: LocalAttention(16, 4, window=2, num_memory=3), compiled=True),
    mixer("linformer", lambda: Linformer(16, 4, max_len=T + 2, k=5)),
    mixer("performer", lambda: Performer(16, 4)),
    causal_mixer("performer-causal", lambda: Performer(16, 4)),
    causal_mixer("reformer", lambda: Reformer(16, 4, num_buckets=2, chunk=3, num_hashes=2), compiled=True),
    mixer("big-bird", lambda: BigBird(16, 4, max_len=T, block=1, num_random=1), pads=False),
    mixer("adaptive-span", lambda: AdaptiveSpan(16, 4, max_span=5, ramp=2, start=1.5)),
    mixer("latent-mixing", lambda: LatentMixing(16, 4, num_latents=5)),
    mixer("shared-workspace", lambda: SharedWorkspace(16, 4, num_slots=5, num_writers=2)),
    mixer("universal-transformer", universal),
    Case(
        name="fnet",
        build=FourierWords,
        inputs=lambda generator: (ids(VOCAB, B, T)(generator), ids(4, B, T)(generator)),
        wrong=lambda inputs: (inputs[0][0], inputs[1]),
        wrong_match=rf"tokens must be \(batch, length\) token ids, got \({T},\)",
        targets=lambda inputs, generator: torch.cat((ids(2, B, 1)(generator), ids(VOCAB, B, T)(generator)), dim=1),
        compiled=False,
    ),
    replace(seeing("mlp-mixer", lambda: MLPMixer(MIXER)), compiled=False),
    Case(
        name="perceiver",
        build=lambda: Perceiver(PerceiverConfig(input_dim=5, num_classes=4, **LATENTS)),
        inputs=lambda generator: (torch.randn(B, T, 5, generator=generator),),
        wrong=lambda inputs: (inputs[0][..., :4],),
        wrong_match=rf"inputs must be \(batch, length, 5\), got \({B}, {T}, 4\)",
        targets=lambda inputs, generator: ids(4, B)(generator),
        compiled=False,
    ),
    watching("video-net", lambda: video_net(NonLocalBlock(16))),
    watching("video-net-dot-product", lambda: video_net(NonLocalBlock(16, 9, similarity=dot_product)), compiled=False),
    watching("vivit", lambda: ViViT(VIVIT, FactorisedEncoder(VIVIT, 1))),
    watching("vivit-joint", lambda: ViViT(VIVIT, JointEncoder(VIVIT)), compiled=False),
    seeing("volo-outlooker", lambda: OnPatches(Outlooker(OutlookAttention(16, 4), 16, 18), flat=False)),
]


@pytest.fixture
def timm():
    """The library of reference vision models, where it is installed."""
    return pytest.importorskip("timm")


SUBSETS = {
    "case": lambda case: True,
    "padded_case": lambda case: case.pad is not None,
    "causal_case": lambda case: case.causal is not None,
    "decoding_case": lambda case: case.decode,
    "prompted_case": lambda case: case.decode and case.prompted,
    "blank_case": lambda case: bool(case.real),
    "compiled_case": lambda case: case.compiled,
    "inductor_case": lambda case: case.inductor,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in SUBSETS.keys() & set(metafunc.fixturenames):
        chosen = [case for case in CASES if SUBSETS[name](case)]
        metafunc.parametrize(name, chosen, ids=[case.name for case in chosen])
