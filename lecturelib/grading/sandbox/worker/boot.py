"""Run as a script by `python -I`: starts the zygote without importing lecturelib.

`lecturelib`, `lecturelib.grading` and `lecturelib.grading.sandbox` become empty packages that only know where their
files are, so that the worker's files import each other by their full names and nothing else of lecturelib is loaded.
"""

import importlib
import sys
import types
from pathlib import Path


def main() -> None:
    folder = Path(__file__).resolve().parents[3]
    for name in ("lecturelib", "lecturelib.grading", "lecturelib.grading.sandbox"):
        package = types.ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    importlib.import_module("lecturelib.grading.sandbox.worker.zygote").main(sys.argv[1], int(sys.argv[2]))


if __name__ == "__main__":
    main()
