# Every target sets itself up from nothing but python3 and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-long lint docs pictures bench fuzz clean

demo: .venv/.installed
	$(BIN)/trevision demo

test: .venv/.installed-dev
	$(BIN)/python -m pytest -n 2

# Kills, full disks, folders that vanish: make test-long KILLS=200. Prints what was lost, which must be nothing.
KILLS ?= 200
test-long: .venv/.installed-dev
	$(BIN)/python tests/faults/__main__.py --kills $(KILLS)

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in site/. Its search works where it is served: python3 -m http.server -d site
docs: .venv/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The pictures of README, from a fresh demo. Needs chromium.
pictures: demo
	cp demo-output/transition.svg docs/images/demo-transition.svg
	chromium --headless --no-sandbox --hide-scrollbars --window-size=1280,900 \
	  --screenshot=docs/images/report.png file://$(CURDIR)/demo-output/photos-run/report.html

bench: .venv/.installed
	$(BIN)/python -m benchmarks step
	$(BIN)/python -m benchmarks estimate

# Damaged files for every reader: make fuzz N=100000. What escapes is kept in tests/fuzz/corpus.
N ?= 13000
fuzz: .venv/.installed-dev
	$(BIN)/python tests/fuzz/__main__.py $(N)

clean:
	rm -rf .venv build dist runs demo-output site .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[torch,images]'
	touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

.venv/.installed-docs: .venv/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@
