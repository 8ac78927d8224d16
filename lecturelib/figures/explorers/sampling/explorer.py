"""How a sampler cuts a distribution: turn temperature, top-k and top-p over what a model said comes next."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lecturelib.evaluation.decoding import Sampler
from lecturelib.figures.explorers.explorer import Explorer, pack

TEMPERATURES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0)
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1.0)
"""What the sliders for temperature and top-p offer."""


class SamplingExplorer(Explorer):
    """The next token after a few prompts, as a sampler sees it: tempered, cut off, and made to sum to one again.

    The reader chooses a prompt and turns three sliders. Each of the likeliest tokens has two bars: its probability
    before the cut, and the one it is drawn with. Beside them stand the number of tokens left, the probability they had
    together, and the entropy before and after.

    Args:
        logits: what the model said after each prompt, (V,) each
        tokens: the name of each token id; a space and a line break are made visible
        start: temperature, k and p at first
        num_bars: how many tokens are shown, the likeliest first
    """

    title = "Which tokens may still be drawn?"
    hint = "lower the temperature, then cut with top-p."

    def __init__(
        self,
        logits: Mapping[str, Tensor],
        tokens: Sequence[str],
        *,
        start: tuple[float, int | None, float] = (1.0, None, 1.0),
        num_bars: int = 12,
    ) -> None:
        if not logits:
            raise ValueError("logits must hold at least one prompt with its (vocabulary,) logits")
        for prompt, row in logits.items():
            if row.shape != (len(tokens),) or not torch.isfinite(row).all():
                raise ValueError(
                    f"the logits after {prompt!r} must be {len(tokens)} finite numbers, one for each token, "
                    f"got shape {tuple(row.shape)}"
                )
        temperature, top_k, top_p = start
        top_k = len(tokens) if top_k is None else top_k
        if temperature not in TEMPERATURES or top_p not in SHARES or not 1 <= top_k <= len(tokens):
            raise ValueError(
                f"start must be a temperature of {TEMPERATURES}, a k from 1 to {len(tokens)} and a p of {SHARES}, "
                f"got {start}"
            )
        self.logits = {prompt: row.detach().float().cpu() for prompt, row in logits.items()}
        self.tokens, self.num_bars = list(tokens), min(num_bars, len(tokens))
        self.start = (temperature, top_k, top_p)

    def before(self, prompt: str, temperature: float = 1.0) -> Tensor:
        """Probability of every token after a prompt, tempered and not cut: (V,)."""
        return Sampler(temperature=temperature).probabilities(self.logits[prompt][None])[0]

    def after(self, prompt: str, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0) -> Tensor:
        """Probability with which every token is drawn: (V,), zero for those cut off. What the lower bars show."""
        sampler = Sampler(temperature=temperature, top_k=top_k, top_p=top_p)
        return sampler.probabilities(self.logits[prompt][None])[0]

    def kept(self, prompt: str, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0) -> float:
        """The probability that the tokens which are left had together before the cut."""
        left = self.after(prompt, temperature, top_k, top_p) > 0
        return float(self.before(prompt, temperature)[left].sum())

    def data(self) -> dict[str, object]:
        temperature, top_k, top_p = self.start
        return {
            "prompts": list(self.logits),
            "tokens": [_visible(name) for name in self.tokens],
            "logits": pack(torch.stack(list(self.logits.values())).numpy()),
            "temperatures": list(TEMPERATURES),
            "shares": list(SHARES),
            "start": [TEMPERATURES.index(temperature), top_k, SHARES.index(top_p)],
            "bars": self.num_bars,
        }

    def text(self) -> str:
        parts = []
        for prompt in self.logits:
            left, best = int((self.after(prompt, top_p=0.9) > 0).sum()), self.before(prompt)
            name, chance = _visible(self.tokens[int(best.argmax())]), float(best.max())
            parts.append(f"after “{prompt}” the likeliest is “{name}” ({chance:.2f}), top-p 0.9 keeps {left}")
        return f"Of {len(self.tokens)} tokens, " + "; ".join(parts) + "."


def _visible(name: str) -> str:
    return name.replace(" ", "␣").replace("\n", "⏎")
