"""Every drawing of `lecturelib.figures.diagrams`, of small models whose sizes all differ."""

from collections.abc import Callable
from dataclasses import replace

import torch

from lecturelib.data.sets.worlds import ROOMS
from lecturelib.figures.diagrams import (
    Diagram,
    attention_diagram,
    bahdanau_diagram,
    bidirectional_diagram,
    block_wirings_diagram,
    bptt_diagram,
    bracketing_diagram,
    budget_diagram,
    cait_diagram,
    caption_transformer_diagram,
    captioner_diagram,
    chain_rule_diagram,
    choosing_diagram,
    decision_diagram,
    decoder_wirings_diagram,
    deit_diagram,
    detr_diagram,
    encoder_decoder_diagram,
    esim_diagram,
    gpt_bert_diagram,
    gpt_llama_diagram,
    graph_network_diagram,
    graph_transformer_diagram,
    gru_diagram,
    hierarchical_diagram,
    images_and_language_diagram,
    latent_mixing_diagram,
    lstm_diagram,
    masks_diagram,
    mixer_family_diagram,
    non_local_diagram,
    parallel_diagram,
    pooling_diagram,
    positions_diagram,
    rnn_diagram,
    rooms_diagram,
    segmenter_diagram,
    sets_diagram,
    span_diagram,
    step_tokens_diagram,
    swin_diagram,
    swin_pair_diagram,
    switch_diagram,
    task_kinds_diagram,
    text_to_image_diagram,
    training_step_diagram,
    transformer_diagram,
    two_streams_diagram,
    vit_diagram,
    vivit_diagram,
)
from lecturelib.layers import (
    GRU,
    LSTM,
    LatentMixing,
    MultiHeadAttention,
    Recurrent,
    RelativeBias,
    RotaryPositions,
    SwitchFFN,
    causal_mask,
)
from lecturelib.models.bahdanau import BahdanauConfig, BahdanauSeq2Seq
from lecturelib.models.bert import BERT, BERTConfig
from lecturelib.models.cait import CAIT_XXS24, CaiT, CaiTConfig
from lecturelib.models.caption_transformer import CaptionTransformer, CaptionTransformerConfig
from lecturelib.models.conv_encoder import ConvEncoderConfig
from lecturelib.models.decision_transformer import DecisionTransformer, DecisionTransformerConfig
from lecturelib.models.deit import DeiT
from lecturelib.models.detr import DETR, DETRConfig
from lecturelib.models.esim import ESIM, ESIMConfig
from lecturelib.models.gpt import GPT, GPTConfig
from lecturelib.models.graph_network import CORA_ATTENTION, GraphNetwork, GraphNetworkConfig
from lecturelib.models.graph_transformer import GraphTransformer, GraphTransformerConfig
from lecturelib.models.hierarchical_attention import HierarchicalAttentionConfig, HierarchicalAttentionNetwork
from lecturelib.models.llama import Llama, LlamaConfig
from lecturelib.models.non_local import NonLocalBlock
from lecturelib.models.pooling_classifier import PoolingClassifier, PoolingConfig
from lecturelib.models.promptable_segmenter import PromptableSegmenter, PromptableSegmenterConfig
from lecturelib.models.seq2seq import Seq2Seq, Seq2SeqConfig
from lecturelib.models.sets import DeepSets, DeepSetsConfig, SetTransformer, SetTransformerConfig
from lecturelib.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig
from lecturelib.models.span_reader import SpanReader, SpanReaderConfig
from lecturelib.models.swin import SWIN_TINY, Swin, SwinConfig
from lecturelib.models.text_to_image import TextToImage, TextToImageConfig
from lecturelib.models.transformer import Transformer, TransformerConfig
from lecturelib.models.vilbert import ApartBlock, StreamConfig, ViLBERTConfig, ViLBERTPretraining
from lecturelib.models.vit import VIT_TINY, ViT, ViTConfig
from lecturelib.models.vit_captioner import ViTCaptioner, ViTCaptionerConfig
from lecturelib.models.vivit import FactorisedEncoder, ViViT, ViViTConfig
from lecturelib.models.vq_tokenizer import VQTokenizer, VQTokenizerConfig

GPT_CONFIG = GPTConfig(vocab_size=101, max_len=17, d_model=24, num_heads=4, num_layers=3)
LLAMA_CONFIG = LlamaConfig(vocab_size=107, max_len=17, d_model=36, num_heads=6, num_kv_heads=2, num_layers=5)
TRANSFORMER_CONFIG = TransformerConfig(vocab_size=103, d_model=24, num_heads=4, num_layers=3, d_ff=90)
BERT_CONFIG = BERTConfig(vocab_size=103, max_len=19, d_model=36, num_heads=4, num_layers=3)
VIT_CONFIG = ViTConfig(image_size=20, patch_size=5, num_classes=11, d_model=24, num_heads=4, num_layers=3)
VIVIT_CONFIG = ViViTConfig(
    image_size=(10, 15), num_frames=12, patch_size=5, num_classes=11, d_model=24, num_heads=4, num_layers=3
)
STRIPS_CONFIG = ViViTConfig(
    image_size=(8, 48), num_frames=8, patch_size=4, num_classes=2, d_model=32, num_heads=4, num_layers=2, d_ff=64
)
CONV_CONFIG = ConvEncoderConfig(widths=(15, 31), layers=(1, 1))
CAIT_CONFIG = CaiTConfig(image_size=20, patch_size=5, num_classes=11, d_model=24, num_heads=4, num_layers=3)
SWIN_CONFIG = SwinConfig(
    image_size=64, patch_size=4, num_classes=11, d_model=24, num_heads=(2, 4, 8), num_layers=(2, 2, 6), window=4
)
TWO_STREAMS = ViLBERTConfig(
    vocab_size=103,
    max_len=19,
    region_dim=37,
    text=StreamConfig(d_model=24, num_heads=4, num_layers=3, d_ff=90),
    image=StreamConfig(d_model=36, num_heads=6, num_layers=3, d_ff=50),
    co_dim=40,
    co_heads=5,
    num_region_classes=11,
)

EXAMPLES: dict[str, Callable[[], Diagram]] = {
    "chain_rule_diagram": chain_rule_diagram,
    "chain_rule_diagram of trigrams": lambda: chain_rule_diagram(n=3),
    "task_kinds_diagram": task_kinds_diagram,
    "training_step_diagram": training_step_diagram,
    "choosing_diagram": choosing_diagram,
    "budget_diagram": budget_diagram,
    "images_and_language_diagram": images_and_language_diagram,
    "parallel_diagram": parallel_diagram,
    "switch_diagram": lambda: switch_diagram(SwitchFFN(24, 90, 5)),
    "switch_diagram of eight": lambda: switch_diagram(SwitchFFN(24, 90, 8)),
    "rnn_diagram": rnn_diagram,
    "rnn_diagram of two layers": lambda: rnn_diagram(Recurrent(LSTM, 5, 7, num_layers=2)),
    "bidirectional_diagram of two layers": lambda: bidirectional_diagram(
        Recurrent(GRU, 5, 7, num_layers=2, bidirectional=True)
    ),
    "bptt_diagram": bptt_diagram,
    "lstm_diagram": lstm_diagram,
    "lstm_diagram, forget gate": lambda: lstm_diagram(gate="forget"),
    "lstm_diagram, input gate": lambda: lstm_diagram(gate="input"),
    "lstm_diagram, candidate": lambda: lstm_diagram(gate="candidate"),
    "lstm_diagram, output gate": lambda: lstm_diagram(gate="output"),
    "gru_diagram": gru_diagram,
    "bidirectional_diagram": bidirectional_diagram,
    "attention_diagram": attention_diagram,
    "positions_diagram": positions_diagram,
    "positions_diagram of parts": lambda: positions_diagram(
        rotary=MultiHeadAttention(24, 3, positions=RotaryPositions(8)),
        bias=MultiHeadAttention(24, 3, positions=RelativeBias(3)),
    ),
    "block_wirings_diagram": block_wirings_diagram,
    "decoder_wirings_diagram": decoder_wirings_diagram,
    "transformer_diagram": lambda: transformer_diagram(Transformer(TRANSFORMER_CONFIG)),
    "transformer_diagram of pre-norm": lambda: transformer_diagram(
        Transformer(replace(TRANSFORMER_CONFIG, wiring="pre_norm"))
    ),
    "gpt_bert_diagram": lambda: gpt_bert_diagram(GPT(GPT_CONFIG), BERT(BERT_CONFIG)),
    "gpt_bert_diagram of GPT-1's wiring": lambda: gpt_bert_diagram(
        GPT(replace(GPT_CONFIG, wiring="post_norm")), BERT(BERT_CONFIG)
    ),
    "gpt_bert_diagram of relative positions": lambda: gpt_bert_diagram(
        GPT(GPT_CONFIG, positions=RelativeBias(4)), BERT(BERT_CONFIG)
    ),
    "gpt_llama_diagram": lambda: gpt_llama_diagram(GPT(GPT_CONFIG), Llama(LLAMA_CONFIG)),
    "decision_diagram": lambda: decision_diagram(
        DecisionTransformer(
            DecisionTransformerConfig(state_dim=50, action_dim=5, max_steps=40, d_model=24, num_heads=2, num_layers=3)
        )
    ),
    "step_tokens_diagram": step_tokens_diagram,
    "rooms_diagram": lambda: rooms_diagram(ROOMS, alt="Two rooms with a wall between them, a key K and a door D."),
    "encoder_decoder_diagram": lambda: encoder_decoder_diagram(
        Seq2Seq(Seq2SeqConfig(source_vocab_size=97, target_vocab_size=89, d_model=24))
    ),
    "caption_transformer_diagram": lambda: caption_transformer_diagram(
        CaptionTransformer(
            CaptionTransformerConfig(vocab_size=89, image=CONV_CONFIG, d_model=36, num_layers=3, d_ff=90)
        )
    ),
    "caption_transformer_diagram of patches": lambda: caption_transformer_diagram(
        ViTCaptioner(ViTCaptionerConfig(vocab_size=89, image=VIT_CONFIG, d_model=36, num_layers=2, d_ff=90))
    ),
    "captioner_diagram": lambda: captioner_diagram(
        ShowAttendTell(
            ShowAttendTellConfig(
                vocab_size=89,
                image=CONV_CONFIG,
                embedding_dim=20,
                hidden_dim=23,
                attention_dim=29,
            )
        )
    ),
    "detr_diagram": lambda: detr_diagram(
        DETR(
            DETRConfig(
                num_classes=6,
                image=ConvEncoderConfig(widths=(15, 31), layers=(1, 1)),
                num_queries=17,
                d_model=24,
                num_heads=2,
                encoder_layers=2,
                decoder_layers=3,
                d_ff=29,
            )
        )
    ),
    "text_to_image_diagram": lambda: text_to_image_diagram(
        VQTokenizer(VQTokenizerConfig(num_codes=89, d_code=7, d_model=15, d_ff=31)),
        TextToImage(
            TextToImageConfig(
                vocab_size=17, num_codes=89, caption_len=11, image_len=36, d_model=28, num_heads=4, num_layers=3
            )
        ),
    ),
    "segmenter_diagram": lambda: segmenter_diagram(
        PromptableSegmenter(
            PromptableSegmenterConfig(
                image=ConvEncoderConfig(widths=(15, 31, 37), layers=(1, 1, 1)), d_model=72, num_heads=6, d_ff=90
            )
        )
    ),
    "segmenter_diagram of the book's": lambda: segmenter_diagram(PromptableSegmenter(PromptableSegmenterConfig())),
    "bahdanau_diagram": lambda: bahdanau_diagram(
        BahdanauSeq2Seq(
            BahdanauConfig(
                source_vocab_size=97,
                target_vocab_size=89,
                embedding_dim=20,
                hidden_dim=23,
                attention_dim=29,
                maxout_dim=31,
            )
        )
    ),
    "pooling_diagram": lambda: pooling_diagram(
        PoolingClassifier(
            PoolingConfig(vocab_size=97, num_classes=5, embedding_dim=20, hidden_dim=23, attention_dim=29)
        )
    ),
    "hierarchical_diagram": lambda: hierarchical_diagram(
        HierarchicalAttentionNetwork(
            HierarchicalAttentionConfig(vocab_size=97, num_classes=5, embedding_dim=20, hidden_dim=23, attention_dim=29)
        )
    ),
    "esim_diagram": lambda: esim_diagram(ESIM(ESIMConfig(vocab_size=97, embedding_dim=20, hidden_dim=23))),
    "span_diagram": lambda: span_diagram(SpanReader(SpanReaderConfig(vocab_size=97, embedding_dim=20, hidden_dim=23))),
    "span_diagram of three turns": lambda: span_diagram(
        SpanReader(SpanReaderConfig(vocab_size=97, embedding_dim=20, hidden_dim=23, num_turns=3))
    ),
    "masks_diagram": lambda: masks_diagram({"causal": causal_mask(5), "full": torch.ones(5, 5, dtype=torch.bool)}),
    "mixer_family_diagram": lambda: mixer_family_diagram(
        {"all pairs": {"exact": torch.ones(12, 12, dtype=torch.bool)}, "few keys": {"k": torch.ones(12, 4) > 0}}
    ),
    "bracketing_diagram": lambda: bracketing_diagram(64, 8, 16),
    "latent_mixing_diagram": lambda: latent_mixing_diagram(LatentMixing(24, 3, num_latents=7, num_layers=2)),
    "graph_network_diagram": lambda: graph_network_diagram(
        GraphNetwork(GraphNetworkConfig(input_dim=19, num_classes=7, hidden_dim=16))
    ),
    "graph_network_diagram of attention": lambda: graph_network_diagram(GraphNetwork(CORA_ATTENTION)),
    "sets_diagram": lambda: sets_diagram(
        DeepSets(DeepSetsConfig(input_dim=19, output_dim=7, hidden_dim=29)),
        SetTransformer(SetTransformerConfig(input_dim=19, output_dim=7, d_model=24)),
    ),
    "graph_transformer_diagram": lambda: graph_transformer_diagram(
        GraphTransformer(GraphTransformerConfig(input_dim=19, output_dim=7, d_model=24, d_ff=90))
    ),
    "non_local_diagram": lambda: non_local_diagram(NonLocalBlock(26, 11)),
    "non_local_diagram of the chapter": lambda: non_local_diagram(NonLocalBlock(16, 16)),
    "vivit_diagram": lambda: vivit_diagram(ViViT(VIVIT_CONFIG, FactorisedEncoder(VIVIT_CONFIG, 2))),
    "vivit_diagram of long strips": lambda: vivit_diagram(ViViT(STRIPS_CONFIG, FactorisedEncoder(STRIPS_CONFIG, 1))),
    "two_streams_diagram": lambda: two_streams_diagram(ViLBERTPretraining(TWO_STREAMS)),
    "two_streams_diagram of words alone first": lambda: two_streams_diagram(
        ViLBERTPretraining(
            replace(TWO_STREAMS, text=StreamConfig(d_model=24, num_heads=4, num_layers=5, d_ff=90)), ApartBlock
        )
    ),
    "vit_diagram": lambda: vit_diagram(ViT(VIT_CONFIG)),
    "deit_diagram": lambda: deit_diagram(DeiT.distilled(VIT_CONFIG)),
    "cait_diagram": lambda: cait_diagram(CaiT(CAIT_CONFIG)),
    "swin_pair_diagram": lambda: swin_pair_diagram(Swin(SWIN_CONFIG)),
    "swin_diagram": lambda: swin_diagram(Swin(SWIN_CONFIG)),
    "swin_diagram of Swin-T": lambda: swin_diagram(Swin(SWIN_TINY)),
    "swin_pair_diagram of Swin-T": lambda: swin_pair_diagram(Swin(SWIN_TINY)),
    "vit_diagram of ViT-Ti": lambda: vit_diagram(ViT(VIT_TINY)),
    "cait_diagram of CaiT-XXS24": lambda: cait_diagram(CaiT(CAIT_XXS24)),
}
