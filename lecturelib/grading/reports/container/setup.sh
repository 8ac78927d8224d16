#!/usr/bin/env bash
# Gradescope runs this once, to build the image that grades every submission.
set -euo pipefail
apt-get update -qq
apt-get install -y -qq python3 python3-venv
python3 -m venv /autograder/venv
/autograder/venv/bin/pip install --quiet --requirement /autograder/source/requirements.txt
