"""The shell of every page we hand out: self-contained, readable in light and dark, and unable to run anything.

Student text reaches a page only through `text`, which escapes it. Should that ever fail, the page's own content policy
forbids scripts, frames, forms and requests.
"""

import html
import re

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1e; --paper: #fdfdfc; --line: #8a8a8e; --good: #14602e; --bad: #9c1c1c;
        --soft: #f1f1ee; --bar: #4a6fa5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececec; --paper: #17181a; --line: #8e8e93; --good: #86d49b; --bad: #ff9d94; --soft: #232427;
          --bar: #8fb1e3; } }
body { font: 1rem/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 46rem;
       margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: .6rem 0 .2rem; } h3 small { font-size: .92rem; font-weight: normal; }
caption { text-align: left; padding-bottom: .3rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { white-space: nowrap; } td:first-child { overflow-wrap: break-word; max-width: 14rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.pass { color: var(--good); } .fail { color: var(--bad); }
.hint { background: var(--soft); border-left: 3px solid var(--line); padding: .5rem .8rem; margin: .4rem 0; }
pre { background: var(--soft); padding: .6rem; white-space: pre-wrap; }
svg { max-width: 100%; height: auto; }
fieldset { border: 1px solid var(--line); border-radius: 4px; margin: .6rem 0; padding: .4rem .8rem; }
label { display: block; margin: .3rem 0; } button { font: inherit; padding: .35rem 1.2rem; }
input, textarea { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--line); }
input { width: 6rem; } textarea { display: block; width: 100%; box-sizing: border-box; }
a { color: inherit; }
.wide { overflow-x: auto; } .wide td:not(.number) { min-width: 7rem; }
"""

# Characters that steer text direction or the terminal: a name made of them could pose as another.
UNSEEN = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\U000e0000-\U000e007f]"
)


def text(value: object, limit: int = 4000) -> str:
    """Escape any text for HTML, without control and direction marks, cut to a length a person would read."""
    shown = UNSEEN.sub("\N{REPLACEMENT CHARACTER}", str(value))
    if len(shown) > limit:
        shown = f"{shown[:limit]} … ({len(shown) - limit} more characters)"
    return html.escape(shown, quote=True)


def page(title: str, body: str, policy: str = POLICY) -> str:
    """A whole HTML document around a body that is already safe."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def number(value: float) -> str:
    """Points as people write them: 3, 2.5, 0.33."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def table(caption: str, columns: list[str], rows: list[list[str]], numeric: frozenset[int] = frozenset()) -> str:
    """A table whose cells are already safe; columns in `numeric` are set right. On a phone it scrolls by itself."""

    def kind(index: int) -> str:
        return ' class="number"' if index in numeric else ""

    head = "".join(f'<th scope="col"{kind(i)}>{text(name)}</th>' for i, name in enumerate(columns))
    lines = []
    for row in rows:
        cells = "".join(f"<td{kind(i)}>{cell}</td>" for i, cell in enumerate(row))
        lines.append(f"<tr>{cells}</tr>")
    body = "\n".join(lines)
    return (
        f'<div class="wide" role="region" aria-label="{text(caption)}" tabindex="0">\n<table>\n'
        f"<caption>{text(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )
