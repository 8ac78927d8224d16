"""Parts that two or more models share."""

from lecturelib.layers.attention import AdditiveAttention, MultiHeadAttention, dot_product_attention
from lecturelib.layers.masks import causal_mask, padding_mask

__all__ = ["AdditiveAttention", "MultiHeadAttention", "causal_mask", "dot_product_attention", "padding_mask"]
