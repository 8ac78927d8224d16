"""Run every benchmark in this folder, one after the other; each writes results/<name>.json and prints its table."""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_BENCHMARKS = {"measure.py", "run_all.py"}


def main() -> int:
    known = sorted(path.stem for path in HERE.glob("*.py") if path.name not in NOT_BENCHMARKS)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", metavar="NAME", help=f"run only these: {', '.join(known)}")
    only = parser.parse_args().only
    if unknown := set(only) - set(known):
        parser.error(f"no benchmark named {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    failed = []
    for name in only or known:
        print(f"\n=== {name}", flush=True)
        if subprocess.run([sys.executable, HERE / f"{name}.py"], cwd=HERE.parent, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
