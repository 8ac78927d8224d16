"""Decoding, scores and costs. Nothing here knows a model; everything takes one."""

from lecturelib.evaluation.beam import Beams, beam_search
from lecturelib.evaluation.bleu import Bleu, bleu, tokenize_13a
from lecturelib.evaluation.cost import (
    Cost,
    StateBytes,
    count_activation_bytes,
    count_flops,
    count_parameters,
    decoder_flops,
    decoder_parameters,
    kv_cache_bytes,
    measure,
    state_bytes,
)
from lecturelib.evaluation.decoding import (
    Decoded,
    Sampler,
    Start,
    decode,
    generate,
    greedy,
    read_prompt,
    read_source,
    stream,
)
from lecturelib.evaluation.metrics import (
    accuracy,
    alignment_error_rate,
    best_links,
    diagonal_links,
    edit_distance,
    error_rate,
    exact_match,
    mean_loss,
    perplexity,
)
from lecturelib.evaluation.rollout import attention_rollout
from lecturelib.evaluation.timing import fit_power_law, seconds

__all__ = [
    "Beams",
    "Bleu",
    "Cost",
    "Decoded",
    "Sampler",
    "Start",
    "StateBytes",
    "accuracy",
    "alignment_error_rate",
    "attention_rollout",
    "beam_search",
    "best_links",
    "bleu",
    "count_activation_bytes",
    "count_flops",
    "count_parameters",
    "decode",
    "decoder_flops",
    "decoder_parameters",
    "diagonal_links",
    "edit_distance",
    "error_rate",
    "exact_match",
    "fit_power_law",
    "generate",
    "greedy",
    "kv_cache_bytes",
    "mean_loss",
    "measure",
    "perplexity",
    "read_prompt",
    "read_source",
    "seconds",
    "state_bytes",
    "stream",
    "tokenize_13a",
]
