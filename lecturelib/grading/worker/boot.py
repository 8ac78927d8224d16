"""Run as a script by `python -I`: starts the zygote without importing lecturelib.

`lecturelib` and `lecturelib.grading` become empty packages that only know where their files are, so that the worker's
files import each other by their full names and nothing else of lecturelib is loaded.
"""

import importlib
import sys
import types
from pathlib import Path


def main() -> None:
    grading = Path(__file__).parent.parent
    for name, folder in (("lecturelib", grading.parent), ("lecturelib.grading", grading)):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    importlib.import_module("lecturelib.grading.worker.zygote").main(sys.argv[1], int(sys.argv[2]))


if __name__ == "__main__":
    main()
