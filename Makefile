# Every target sets itself up from nothing but python3 and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-long test-oldest lint docs pictures bench fuzz coverage mutants lock licences audit wheel clean

demo: .venv/.installed
	$(BIN)/trevision demo

test: .venv/.installed-dev
	$(BIN)/python -m pytest -n 2

# Kills, full disks, folders that vanish: make test-long KILLS=200. Prints what was lost, which must be nothing.
KILLS ?= 200
test-long: .venv/.installed-dev
	$(BIN)/python tests/faults/__main__.py --kills $(KILLS)

# The tests with the lowest versions that pyproject.toml claims, on Python 3.11.
OLDEST ?= python3.11
test-oldest: .venv-oldest/.installed
	.venv-oldest/bin/python -m pytest -n 2 -W default --ignore tests/faults $(TESTS)

# Lines and branches that the tests meet: of the rooms that carry the mathematics, then of everything.
coverage: .venv/.installed-dev
	$(BIN)/python -m coverage run -m pytest $(TESTS)
	$(BIN)/python -m coverage report --include='$(PURE)' --fail-under=97
	$(BIN)/python -m coverage report --fail-under=92
PURE := src/trevision/noise.py,src/trevision/losses/*,src/trevision/transition.py,src/trevision/prior.py
PURE := $(PURE),src/trevision/estimation/*,src/trevision/refit/*,src/trevision/audit/*

# Small mistakes in the mathematics that the tests must notice: make mutants ROOMS="noise prior" SAMPLE=40
ROOMS ?= noise losses transition prior stages
SAMPLE ?= 0
mutants: .venv/.installed-dev
	$(BIN)/python tests/mutants/__main__.py --rooms $(ROOMS) --sample $(SAMPLE)

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

# The pinned versions with the hashes of their files. To install nothing else:
#   pip install --require-hashes -r supply/requirements.lock && pip install --no-deps -e .
lock: .venv-supply/.installed
	.venv-supply/bin/uv pip compile --quiet --generate-hashes --python-version 3.11.7 --no-header --no-annotate \
	  -c constraints.txt pyproject.toml --all-extras -o supply/requirements.lock

# What is depended on, with its licences, in docs/licences.md.
licences: .venv/.installed-dev .venv/.installed-docs
	$(BIN)/python supply/licences.py

# Advisories of the pinned versions. Ends with 3 where some could not be looked up.
audit: .venv-supply/.installed
	.venv-supply/bin/python supply/audit.py

# The wheel, installed without the checkout, runs its demo.
wheel: .venv/.installed
	$(BIN)/python supply/wheel.py

clean:
	rm -rf .venv .venv-oldest .venv-supply build dist runs demo-output site .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[torch,images]'
	touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

.venv-oldest/.installed: pyproject.toml constraints-oldest.txt
	$(OLDEST) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet -c constraints-oldest.txt \
	  -e '.[torch,images,ray,bench]' tensorboard datasets pytest pytest-xdist hypothesis selenium
	touch $@

.venv-supply/.installed: supply/tools.txt
	$(PYTHON) -m venv .venv-supply
	.venv-supply/bin/python -m pip install --quiet -r supply/tools.txt
	touch $@

.venv/.installed-docs: .venv/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@
