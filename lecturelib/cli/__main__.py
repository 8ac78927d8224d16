"""`python -m lecturelib.cli` is the `lecturelib` command."""

import sys

from lecturelib.cli import main

if __name__ == "__main__":
    sys.exit(main())
