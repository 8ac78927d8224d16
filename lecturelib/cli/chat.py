"""`lecturelib chat`: talk with a pretrained language model at the terminal."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lecturelib.recipes.pretrained import Pretrained
    from lecturelib.tokens import ChatML, Message


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `chat`."""
    parser = subparsers.add_parser(
        "chat",
        help="talk with a pretrained language model",
        description="Talk with SmolLM2-135M-Instruct, a small pretrained model that runs on this machine. The first "
        "time it is fetched (93 MB), with a word about its licence. It is small: it makes facts up and cannot do sums.",
        epilog="An empty line or Ctrl-D ends the conversation; Ctrl-C stops an answer, and twice it ends the "
        "conversation. Lines can also come from a file: `lecturelib chat < questions.txt`.",
    )
    parser.add_argument("--model", default="smollm2", help="a name, or the path of a GGUF file (default: smollm2)")
    parser.add_argument("--system", help="what the model is told about itself first")
    parser.add_argument("--max-tokens", type=int, default=256, help="the longest answer (default: 256)")
    parser.add_argument("--temperature", type=float, default=0.2, help="0 always takes the likeliest (default: 0.2)")
    parser.add_argument("--top-p", type=float, default=0.9, metavar="P", help="default: 0.9")
    parser.add_argument("--bits", type=int, choices=(8, 4), help="keep the weights in 8 or 4 bits: less memory, slower")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same answers (default: 0)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    parser.set_defaults(run=run, computes=True)


def run(arguments: argparse.Namespace) -> int:
    """Answer line after line until there are no more."""
    if arguments.max_tokens < 1:
        raise ValueError(f"--max-tokens {arguments.max_tokens} must be at least 1")
    if arguments.temperature < 0:
        raise ValueError(f"--temperature {arguments.temperature} must not be negative")

    import torch

    from lecturelib.evaluation import Sampler, greedy
    from lecturelib.layers import stored_bytes
    from lecturelib.recipes.pretrained import PRETRAINED, load_pretrained
    from lecturelib.tokens import ChatML, Message

    if arguments.model not in PRETRAINED and not Path(arguments.model).is_file():
        raise ValueError(f"--model {arguments.model} is no GGUF file, nor one of {', '.join(PRETRAINED)}")
    loaded = load_pretrained(arguments.model, arguments.device, bits=arguments.bits)
    template = ChatML(loaded.tokenizer)
    device = next(loaded.model.parameters()).device
    generator = torch.Generator(device).manual_seed(arguments.seed)
    choose: Callable[[Tensor], Tensor] = greedy
    if arguments.temperature > 0:
        choose = Sampler(temperature=arguments.temperature, top_p=arguments.top_p, generator=generator)
    _tell(f"{arguments.model}: {stored_bytes(loaded.model) / 1e6:.0f} MB of weights. An empty line ends it.")
    messages = [] if arguments.system is None else [Message("system", arguments.system)]
    while (line := _ask()) is not None:
        messages.append(Message("user", line))
        messages.append(Message("assistant", _answer(loaded, template, messages, choose, arguments.max_tokens)))
    return 0


def _ask() -> str | None:
    """The next line that somebody types; None when there is no more."""
    if sys.stdin.isatty():
        print("> ", end="", flush=True)
    line = sys.stdin.readline().strip()
    return line or None


def _answer(
    loaded: "Pretrained",
    template: "ChatML",
    messages: "list[Message]",
    choose: "Callable[[Tensor], Tensor]",
    max_tokens: int,
) -> str:
    """Print an answer as it is written, and return it; Ctrl-C ends it where it is."""
    import torch

    from lecturelib.evaluation import kv_cache_bytes, stream

    device = next(loaded.model.parameters()).device
    prompt = torch.tensor([template.encode(messages)], device=device)
    room = loaded.model.max_len - prompt.shape[1]
    if room < 1:
        raise ValueError(f"the conversation has {prompt.shape[1]} tokens and the model reads {loaded.model.max_len}")
    ids: list[int] = []
    shown = ""
    try:
        for token in stream(loaded.model, prompt, choose=choose):
            if int(token) == template.end_id:
                break
            ids.append(int(token))
            text = template.decode(ids)
            if not text.endswith("\ufffd"):  # else a character is only half written
                print(text[len(shown) :], end="", flush=True)
                shown = text
            if len(ids) >= min(max_tokens, room):
                break
    except KeyboardInterrupt:
        print(" …", end="")
    print(flush=True)
    config = loaded.model.config
    cached = kv_cache_bytes(
        num_layers=config.num_layers,
        num_heads=config.key_heads,
        head_dim=config.d_model // config.num_heads,
        batch=1,
        length=prompt.shape[1] + len(ids),
    )
    _tell(f"[{len(ids)} tokens; key-value cache {cached / 1e6:.1f} MB; {_memory()}]")
    return shown


def _memory() -> str:
    """How much memory this process has held at most, in words; Windows does not say."""
    if sys.platform == "win32":
        return "memory unknown"
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kilobytes, but bytes on a Mac
    return f"{peak / (1e6 if sys.platform == 'darwin' else 1e3):.0f} MB at most so far"


def _tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
