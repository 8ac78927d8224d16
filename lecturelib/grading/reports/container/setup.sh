#!/usr/bin/env bash
# Gradescope runs this once, to build the image that grades every submission.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq python3
python=python3
if ! python3 -c "import sys; sys.exit(sys.version_info < (3, 11))"; then
    python=python3.11   # Ubuntu 22.04 has it beside its own, which is older
fi
apt-get install -y -qq "$python" "$python-venv"
"$python" -m venv /autograder/venv
/autograder/venv/bin/pip install --quiet --requirement /autograder/source/requirements.txt
