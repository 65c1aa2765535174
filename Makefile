# Every target sets itself up from nothing but python3 and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench fuzz clean

demo: .venv/.installed
	$(BIN)/trevision demo

test: .venv/.installed-dev
	$(BIN)/python -m pytest -n 2

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.installed
	$(BIN)/python -m benchmarks step
	$(BIN)/python -m benchmarks estimate

# Damaged files for every reader: make fuzz N=100000. What escapes is kept in tests/fuzz/corpus.
N ?= 13000
fuzz: .venv/.installed-dev
	$(BIN)/python tests/fuzz/__main__.py $(N)

clean:
	rm -rf .venv build dist runs demo-output .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[torch,images]'
	touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@
