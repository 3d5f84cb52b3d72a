# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Needed before them: Python >= 3.10 with venv, and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install -q
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test lint types bench clean

help: ## say what there is
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-6s %s\n", $$1, $$2}'

# One environment for demo, test and lint: reinstalled when what it is made from changes.
$(STAMP): pyproject.toml .ci/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -c .ci/constraints.txt -e '.[measure,frames,plot,fleet,dev]'
	$(BIN)/python -m compileall -q log_parsers roofline_probe  # also where Python is told to write no bytecode: 60 ms a start
	@touch $@

demo: $(STAMP) ## measure this machine (briefly), then read a real H200 log under the shipped H200 profile
	$(BIN)/probe measure --quick
	$(BIN)/probe compare fixtures/logs/vllm/0.24.0-h200-graph-1s.log --profile h200

test: $(STAMP) ## the whole test suite
	$(BIN)/python -m pytest -q -n auto

lint: $(STAMP) ## ruff, formatting included
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy

bench: $(STAMP) ## the benchmarks that need no GPU
	$(BIN)/python -m benchmarks

clean: ## remove what make made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
