# `make book` and `make test` are the two commands a newcomer needs; `make help` lists the rest.

PYTHON ?= python3
PORT ?= 8000
SITE ?= _build/html
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS := $(VENV)/.peers
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)  # in a container, root is often the only user

.DEFAULT_GOAL := help
.PHONY: help install book site pdf lab test lint notebooks full plain release bench wheel clean system-packages free-port

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## set up .venv and nothing else

book: free-port site ## build the site and serve it on this machine (PORT=8000)
	@$(BIN)/python book/serve.py $(SITE) --port $(PORT)

free-port:  # a busy port is better known before the build than after it
	@$(PYTHON) book/serve.py $(SITE) --port $(PORT) --check

site: $(INSTALLED) ## build the site into _build/html without serving it
	$(BIN)/jupyter-book build book --all --config _config.yml --path-output . -W -n --keep-going

pdf: site ## print the whole book into _build/book.pdf (needs Chromium)
	$(BIN)/python book/print.py $(SITE) _build/book.pdf

lab: $(INSTALLED) ## open the notebooks in JupyterLab, beginning with chapter 1
	$(BIN)/jupyter lab $(AS_ROOT) --LabApp.default_url=/lab/tree/book/plain/01_sequences.ipynb

test: $(PEERS) system-packages ## run everything: lint, types, tests, notebooks, site, browser
	@$(BIN)/python tests/run_all.py

lint: $(INSTALLED) ## ruff on code and notebooks, then the type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

notebooks: $(INSTALLED) ## re-execute the chapters in place, so that their stored outputs are today's
	$(BIN)/python book/execute.py

full: $(INSTALLED) ## run every chapter and solution at scale="full" (wants a GPU); outputs go to _build/full
	$(BIN)/python book/execute.py --scale full --out _build/full

plain: $(INSTALLED) ## write book/plain/, the chapters for Colab and JupyterLab, and all install cells
	$(BIN)/python book/plain.py

release: plain ## write exercises/ from solutions/, and what `make plain` writes
	$(BIN)/lecturelib release

bench: $(PEERS) ## measure speed against peers in the same run; results in benchmarks/results
	$(BIN)/python -m pip install --quiet --requirement requirements.txt --requirement tests/requirements.txt --requirement benchmarks/requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement benchmarks/requirements_alone.txt
	$(BIN)/python benchmarks/run_all.py

wheel: $(INSTALLED) ## build the wheel of lecturelib into dist/
	$(BIN)/python -m build --wheel

clean: ## remove what was built, keep .venv
	rm -rf _build build dist *.egg-info

$(INSTALLED): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "This course needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(PEERS): $(INSTALLED) tests/requirements.txt tests/requirements_alone.txt
	$(BIN)/python -m pip install --quiet --requirement requirements.txt --requirement tests/requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement tests/requirements_alone.txt
	@touch $@

system-packages:
	@sh tests/system_packages.sh
