"""`python -m lecturelib` is the same as the `lecturelib` command."""

import sys

from lecturelib.cli import main

sys.exit(main())
