"""What counts as a word."""

import re

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
"""A word, with the apostrophes inside it, or a single punctuation mark."""
