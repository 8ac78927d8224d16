"""A drawing of the two kinds of language models, side by side, and of who sees whom in each."""

from typing import Any

import torch
from torch import Tensor

from lecturelib.figures.diagrams.canvas import Canvas
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Box, Column, Free, Note, Part, Repeat, Row, Titled
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes, watched
from lecturelib.figures.diagrams.transformer import block_parts, gpt_parts


def who_sees_whom(model: Any, tokens: Tensor) -> Tensor:
    """Whether the output at position i depends on the token at position j, found by differentiating the model.

    Shapes: tokens (B, T) -> boolean (T, T), rows being outputs
    """
    embedded: list[Tensor] = []

    def keep(_module: object, _inputs: object, output: Tensor) -> Tensor:
        embedded.append(output.detach().requires_grad_())
        return embedded[-1]

    was_training = model.training
    hook = model.token_embedding.register_forward_hook(keep)
    try:
        output = model.eval()(tokens)
        while not isinstance(output, Tensor):
            output = output[0]
        direction = torch.randn(output.shape[-1], generator=torch.Generator().manual_seed(0))
        felt = [torch.autograd.grad(row @ direction, embedded[0], retain_graph=True)[0][0] for row in output[0]]
    finally:
        hook.remove()
        model.train(was_training)
    return torch.stack(felt).abs().sum(dim=-1) > 0  # (T, T)


def _measured(model: Any, name: str) -> tuple[Shapes, str, Tensor]:
    config = model.config
    batch, length = free_sizes(model, 2)
    tokens = torch.zeros(batch, length, dtype=torch.long)
    with watched(model) as outputs:
        model(tokens)
    letters = {"B": batch, "T": length, "D": config.d_model, "V": config.vocab_size}
    shapes = Shapes(letters, {f"{name}.{path}".rstrip("."): found for path, found in outputs.items()})
    seen = who_sees_whom(model, torch.zeros(1, min(5, config.max_len), dtype=torch.long))
    return shapes, shapes.of("token ids", tokens), seen


def _bert_parts(model: Any, shapes: Shapes, ids: str, *, tight: bool) -> Column:
    line = "\n" if tight else " "
    text, attention = "token, type, position\nembeddings", "self-attention"
    if tight:
        text, attention = "token, type,\nposition\nembeddings", "self-\nattention"
    tables = ("bert.token_embedding", "bert.type_embedding", "bert.positions")
    inner = block_parts(model.blocks[0], "bert.blocks.*", shapes, attention=attention, tight=tight)
    pooled = f"pooler:{line}first token"
    return Column(
        [
            Box("token ids", shape=ids),
            Box(text, "embed", of=tables, shape=shapes["bert.token_embedding"]),
            Box("layer norm", "norm", of=("bert.norm",), shape=shapes["bert.norm"]),
            Repeat(inner, f"× {model.config.num_layers}", 6 if tight else 12),
            Box(pooled, "feed", of=("bert.pooler",), shape=shapes["bert.pooler"]),
            Box("whole text"),
        ]
    )


def mask_part(seen: Tensor) -> Part:
    """A small matrix: row i is filled where token i sees token j."""
    grid = [["attention" if cell else "" for cell in row] for row in seen.tolist()]
    words = [["•" if cell else "" for cell in row] for row in seen.tolist()]

    def pen(canvas: Canvas, x: float, y: float) -> None:
        canvas.cells(x, y, grid, side=18, words=words)

    return Free(18.0 * len(grid), 18.0 * len(grid), pen)


def gpt_bert_diagram(gpt: Any, bert: Any) -> Diagram:
    """A `GPT` and a `BERT` side by side, each above the mask that its gradients show."""
    of_gpt, gpt_ids, gpt_sees = _measured(gpt, "gpt")
    of_bert, bert_ids, bert_sees = _measured(bert, "bert")

    def describe(narrow: bool) -> Part:
        columns = (
            ("GPT", "sees what came before", gpt_sees, gpt_parts(gpt, "gpt", of_gpt, gpt_ids, tight=narrow)),
            ("BERT", "sees everything", bert_sees, _bert_parts(bert, of_bert, bert_ids, tight=narrow)),
        )
        both = Row(
            [
                Titled(title, Column([Titled(says, mask_part(seen)), column], gap=18, wires=False))
                for title, says, seen, column in columns
            ],
            gap=10 if narrow else 40,
        )
        note = "In the squares, a row is a token that looks, and a dot is a token that it sees."
        return Column([both, Note(note, width=both.size()[0], centred=True)], gap=12, wires=False)

    alt = """GPT and BERT side by side. Both embed tokens and stack blocks of attention and feed-forward nets. GPT's
    mask is a triangle: each token sees itself and those before it, and the output is the next token. BERT's is full:
    every token sees every other, and the output is each token in its context and a vector for the whole text."""
    return Diagram(alt, describe, {"gpt": gpt, "bert": bert}, (of_gpt, of_bert))


def gpt_llama_diagram(gpt: Any, llama: Any) -> Diagram:
    """A `GPT` and a `Llama` side by side: what is left out, and what other parts are built in."""
    of_gpt, gpt_ids, _ = _measured(gpt, "gpt")
    of_llama, llama_ids, _ = _measured(llama, "llama")

    def describe(narrow: bool) -> Part:
        columns = (
            ("GPT", gpt_parts(gpt, "gpt", of_gpt, gpt_ids, tight=narrow)),
            ("Llama", gpt_parts(llama, "llama", of_llama, llama_ids, tight=narrow)),
        )
        both = Row([Titled(title, column) for title, column in columns], gap=10 if narrow else 40)
        note = "Llama's attention turns queries and keys by their positions (RoPE); no layer of it has a bias."
        return Column([both, Note(note, width=both.size()[0], centred=True)], gap=12, wires=False)

    alt = """GPT and Llama side by side. Both embed tokens, stack blocks of masked attention and feed-forward nets on a
    residual stream, and compare the result with every embedding. Llama adds no positions to the embeddings, its norms
    are RMS norms, its feed-forward nets are SwiGLU, and its heads of queries share fewer heads of keys and values."""
    return Diagram(alt, describe, {"gpt": gpt, "llama": llama}, (of_gpt, of_llama))
