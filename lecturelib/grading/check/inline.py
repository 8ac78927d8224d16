"""The little Markdown that hints are written in, as HTML; needs neither torch nor a parser."""

import html
import re


def inline_html(text: str) -> str:
    """Escaped text in which `code` and *emphasis* are set as such."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
    return re.sub(r"\*([^\s*][^*]*)\*", r"<em>\1</em>", text)
