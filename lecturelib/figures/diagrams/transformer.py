"""Drawings of blocks and of the models that are stacks of them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from lecturelib.figures.diagrams.canvas import Canvas
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import BYPASS, PAD, Box, Column, Part, Repeat, Residual, Row, Titled
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes, measure
from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PostNorm, PreNorm
from lecturelib.layers.decoder_block import DecoderBlock
from lecturelib.layers.grouped import GroupedQueryAttention
from lecturelib.layers.rms_norm import RMSNorm
from lecturelib.layers.swiglu import SwiGLU


def sublayer(part: Box, norm: Box, *, is_pre_norm: bool, tight: bool = False) -> list[Part]:
    """One sublayer on the residual stream, wired either way."""
    bypass = 17.0 if tight else BYPASS
    if is_pre_norm:
        return [Residual([norm, part], shape=part.shape, bypass=bypass)]
    return [Residual([part], bypass=bypass), norm]


def block_parts(
    block: Any,
    at: str,
    shapes: Shapes,
    *,
    attention: str = "self-attention",
    note: str = "every token looks at all",
    memory: str = "",
    notes: bool = True,
    tight: bool = False,
) -> Column:
    """The boxes of a `Block` or `DecoderBlock` whose modules are found under the path `at`.

    Without `notes` the boxes say their names only; `tight` also drops the shapes inside, for two models on a phone.
    """
    under = f"{at}." if at else ""
    if not isinstance(block.mixer_wiring, PreNorm | PostNorm):
        raise ValueError(f"a block is drawn wired PreNorm or PostNorm, got {type(block.mixer_wiring).__name__}")
    is_pre_norm = isinstance(block.mixer_wiring, PreNorm)

    def norm(wiring: str) -> Box:
        path = f"{under}{wiring}.norm"
        text = norm_name(getattr(block, wiring).norm)
        return Box(text, "norm", of=(path,), shape="" if is_pre_norm or tight else shapes[path])

    def box(text: str, kind: str, path: str, note: str, name: str = "") -> Box:
        of = (f"{under}{path}", *((f"{under}{path}_wiring.branch",) if _has_branch(block, path) else ()))
        shape = "" if tight else shapes[f"{under}{path}"]
        return Box(text, kind, of=of, note=note if notes and not tight else "", shape=shape, name=name)

    def wired(part: Box, path: str) -> list[Part]:
        return sublayer(part, norm(f"{path}_wiring"), is_pre_norm=is_pre_norm, tight=tight)

    parts = wired(box(attention, "attention", "mixer", note), "mixer")
    if isinstance(block, DecoderBlock):
        text = "cross-\nattention" if tight else "cross-attention"
        parts += wired(box(text, "attention", "cross", "keys and values\nfrom the source", memory), "cross")
    text = "SwiGLU" if isinstance(block.feed_forward, SwiGLU) else "feed-\nforward" if tight else "feed-forward"
    parts += wired(box(text, "feed", "feed_forward", "each token alone"), "feed_forward")
    column = Column(parts)
    column.shape = shapes[at or "feed_forward"]
    return column


def norm_name(norm: nn.Module) -> str:
    """What people call a norm."""
    return "RMS norm" if isinstance(norm, RMSNorm) else "layer norm"


def _has_branch(block: Any, path: str) -> bool:
    branch = getattr(block, f"{path}_wiring").branch
    return branch is not None and any(True for _ in branch.parameters())


def _wired(wiring: type[PreNorm] | type[PostNorm], d_model: int, num_heads: int) -> Block:
    return Block(MultiHeadAttention(d_model, num_heads), FeedForward(d_model, 4 * d_model), lambda: wiring(d_model))


def _wired_decoder(wiring: type[PreNorm] | type[PostNorm], d_model: int, num_heads: int) -> DecoderBlock:
    mixer, cross = MultiHeadAttention(d_model, num_heads), MultiHeadAttention(d_model, num_heads)
    return DecoderBlock(mixer, cross, FeedForward(d_model, 4 * d_model), lambda: wiring(d_model))


def _measure_block(block: Any) -> Shapes:
    d_model = block.mixer_wiring.norm.normalized_shape[0]
    batch, length, source = free_sizes(block, 3)
    x = torch.zeros(batch, length, d_model)
    letters = {"B": batch, "T": length, "D": d_model}
    if isinstance(block, DecoderBlock):
        return measure(block, x, torch.zeros(batch, source, d_model), letters=letters | {"S": source})
    return measure(block, x, letters=letters)


def _two_wirings(
    pre: nn.Module, post: nn.Module, alt: str, draw: Callable[[Any, str, Shapes, bool], list[Part]]
) -> Diagram:
    both = {"pre": (pre, _measure_block(pre)), "post": (post, _measure_block(post))}
    for name, (_, shapes) in both.items():
        shapes.outputs = {f"{name}.{path}".rstrip("."): found for path, found in shapes.outputs.items()}

    def describe(narrow: bool) -> Part:
        titles = {"pre": "pre-norm", "post": "post-norm"}
        columns = [
            Titled(titles[name], Column(draw(block, name, shapes, not narrow)))
            for name, (block, shapes) in both.items()
        ]
        return Row(columns, gap=4 if narrow else 60)

    return Diagram(alt, describe, {"pre": pre, "post": post}, tuple(shapes for _, shapes in both.values()))


def block_wirings_diagram(pre: Block | None = None, post: Block | None = None) -> Diagram:
    """An encoder block wired pre-norm, and beside it one wired post-norm."""
    alt = """Two encoder blocks. Pre-norm: the layer norm stands inside the branch, before attention and before the
    feed-forward net, and the bypass runs from end to end without a norm. Post-norm: the layer norm stands on the main
    line, after each addition."""

    def draw(block: Any, name: str, shapes: Shapes, notes: bool) -> list[Part]:
        inner = block_parts(block, name, shapes, notes=notes)
        return [Box("tokens", shape=shapes[f"{name}.mixer"]), inner, Box("next block")]

    return _two_wirings(pre or _wired(PreNorm, 48, 4), post or _wired(PostNorm, 48, 4), alt, draw)


def decoder_wirings_diagram(pre: DecoderBlock | None = None, post: DecoderBlock | None = None) -> Diagram:
    """A decoder block wired pre-norm, and beside it one wired post-norm."""
    alt = """Two decoder blocks, each with masked self-attention, cross-attention whose keys and values come from the
    source, and a feed-forward net. Pre-norm has its three layer norms inside the branches, post-norm after the three
    additions."""

    def draw(block: Any, name: str, shapes: Shapes, notes: bool) -> list[Part]:
        masked = "masked self-attention" if notes else "masked\nself-attention"
        note = "only at earlier tokens"
        inner = block_parts(block, name, shapes, attention=masked, note=note, memory=name, notes=notes)
        return [Box("target tokens", shape=shapes[f"{name}.mixer"]), inner, Box("next block")]

    return _two_wirings(pre or _wired_decoder(PreNorm, 48, 4), post or _wired_decoder(PostNorm, 48, 4), alt, draw)


def gpt_parts(model: Any, at: str, shapes: Shapes, ids: str, *, tight: bool = False) -> Column:
    """The column of a GPT; `tight` for two models side by side."""
    under, config, line = f"{at}." if at else "", model.config, "\n" if tight else " "
    embedding = f"{under}token_embedding"
    note = "" if tight else "a row for each token"
    parts: list[Part] = [
        Box("token ids", shape=ids),
        Box(f"token{line}embedding", "embed", of=(embedding,), note=note, shape=shapes[embedding]),
    ]
    if model.positions is not None:
        parts.append(Box("+ positions", "embed", of=(f"{under}positions",), shape=shapes[embedding]))
    mixer, note = model.blocks[0].mixer, "only at earlier tokens"
    masked = "masked\nattention" if tight else "masked self-attention"
    if isinstance(mixer, GroupedQueryAttention):
        masked = "masked\ngrouped-\nquery\nattention" if tight else "grouped-query attention"
        note = f"masked; {mixer.num_heads} query, {mixer.num_kv_heads} key heads"
    inner = block_parts(model.blocks[0], f"{under}blocks.*", shapes, attention=masked, note=note, tight=tight)
    parts.append(Repeat(inner, f"× {config.num_layers}", 6 if tight else PAD))
    if any(True for _ in model.final_norm.parameters()):
        norm = f"{under}final_norm"
        parts.append(Box(norm_name(model.final_norm), "norm", of=(norm,), shape=shapes[norm]))
    text, note = f"compare with{line}embeddings", "" if tight else "the same table"
    parts.append(Box(text, "embed", of=(embedding,), copy=True, note=note, shape=shapes[at]))
    return Column([*parts, Box("next token" if tight else "logits of the next token")])


class ReadAndWrite(Part):
    """A column that reads, one that writes, and a wire from the first into the box "cross" of the second.

    Args:
        encoder: ends in what the wire carries
        decoder: with a box named "cross"
        memory: the shape on the wire
        gap: between the columns
    """

    def __init__(self, encoder: Column, decoder: Column, *, memory: str, gap: float) -> None:
        self.encoder, self.decoder, self.memory, self.gap = encoder, decoder, memory, gap

    def size(self) -> tuple[float, float]:
        (left, first), (right, second) = self.encoder.size(), self.decoder.size()
        return left + self.gap + right, max(first + 40, second)

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        width, height = self.encoder.size()
        self.encoder.draw(canvas, x, y)
        self.decoder.draw(canvas, x + width + self.gap, y)
        cross = canvas.places["cross"]
        axis, bottom, turn = x + width / 2, y + height, x + width + self.gap / 2 - 2
        target = cross.side("left", 0)
        canvas.wire(
            (axis, bottom - self.encoder.exit()),
            (axis, bottom + 16),
            (turn, bottom + 16),
            (turn, target[1]),
            target,
            label=self.memory,
            label_at=(axis - 7, bottom + 34),
            anchor="middle",
        )


def transformer_diagram(model: Any) -> Diagram:
    """A `Transformer`: encoder and decoder side by side, and the wire between them."""
    config = model.config
    batch, source, target = free_sizes(model, 3)
    letters = {"B": batch, "S": source, "T": target, "D": config.d_model, "V": config.vocab_size}
    read, written = torch.zeros(batch, source, dtype=torch.long), torch.zeros(batch, target, dtype=torch.long)
    shapes = measure(model, read, None, written, letters=letters, sized=True)
    return Diagram(
        f"""The transformer: an encoder of {config.num_layers} blocks reads the source, a decoder of
        {config.num_layers} blocks reads the target so far, and cross-attention in each decoder block takes its keys
        and values from the encoder's output.""",
        lambda narrow: _transformer(model, shapes, shapes.of("source", read), shapes.of("target", written), narrow),
        {"": model},
        (shapes,),
    )


def _transformer(model: Any, shapes: Shapes, source: str, target: str, narrow: bool) -> ReadAndWrite:
    times = f"× {model.config.num_layers}"
    positions = ("positions",) if any(True for _ in model.positions.parameters()) else ()

    def embed(copy: bool, shape: str) -> list[Part]:
        return [
            Box("embedding", "embed", of=("embedding",), copy=copy, note="one table" if not copy else "same table"),
            Box("+ positions", "embed", of=positions, copy=copy, shape=shape),
        ]

    def norm(path: str) -> list[Part]:
        has_norm = any(True for _ in getattr(model, path).parameters())
        return [Box("layer norm", "norm", of=(path,), shape=shapes[path])] if has_norm else []

    read, written = shapes["encoder.*"], shapes["decoder.*"]
    pad = 6.0 if narrow else PAD
    attention = "self-\nattention" if narrow else "self-attention"
    inner = block_parts(model.encoder[0], "encoder.*", shapes, attention=attention, notes=False, tight=narrow)
    encoder = Column(
        [Box("source ids", shape=source), *embed(False, read), Repeat(inner, times, pad), *norm("encoder_norm")]
    )
    masked = "masked\nattention" if narrow else "masked\nself-attention"
    inner = block_parts(
        model.decoder[0], "decoder.*", shapes, attention=masked, memory="cross", notes=False, tight=narrow
    )
    head = Box("compare with\nembedding", "embed", of=("embedding",), copy=True, shape=shapes[""])
    parts = [
        Box("target ids", shape=target),
        *embed(True, written),
        Repeat(inner, times, pad),
        *norm("decoder_norm"),
    ]
    decoder = Column([*parts, head, Box("logits")])
    return ReadAndWrite(encoder, decoder, memory=read, gap=22.0 if narrow else 70.0)
