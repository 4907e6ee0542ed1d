# make run | test | nightly | matrix | answers | faults | cluster | check | format | docs | docs-serve | bench | screenshots | lock | locked | audit | wheels
#                                                                   (needs only Python >= 3.11 and make)
#
#   PORT=8000 DATA=wfdash-data   where make run listens and keeps its database
#   CI=true                      a missing Chromium is then a failure, not something left out

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
# Everything that .venv has, and the frameworks whose workflows wfdash can serve: what needs them is tested in it.
FRAMEWORKS := build/frameworks
PORT ?= 8000
DATA ?= wfdash-data
WORKERS ?= 2
NEWEST := python3 python3.14 python3.13 python3.12 python3.11
PYTHON ?= $(shell for name in $(NEWEST); do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
PIP := $(BIN)/python $(PIP_INSTALL)
PIP_FRAMEWORKS := $(FRAMEWORKS)/bin/python $(PIP_INSTALL)
TOOLS := build/tools
LOCK := $(TOOLS)/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --upgrade \
	--generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock"
CODE := checkpoints wfdash

.PHONY: help run test nightly matrix wheels answers faults cluster check format docs docs-serve bench screenshots lock locked audit clean

help:
	@sed -n 1,5p Makefile

run: $(VENV)/installed
	exec $(BIN)/wfdash up --demo --port "$(PORT)" --data "$(DATA)"

test: check
	@.ci/tests -n $(WORKERS)

# The wide form of what make test shows by one story each, and properties with ten times as many examples.
nightly: $(FRAMEWORKS)/installed
	@.ci/tests -n $(WORKERS) --nightly

# On every Python and Django that is here, or on some: make matrix ONLY=3.13-6.1,3.14-6.1 TESTS="tests/worker tests/api"
matrix: | $(VENV)/bin/python
	@$(BIN)/python .ci/matrix --only "$(ONLY)" --tests "$(TESTS)" -n $(WORKERS)

# Where everything that wfdash needs installs without a compiler: some minutes for each version of Python.
wheels: | $(VENV)/bin/python
	@$(BIN)/python .ci/wheels 3.11 3.12 3.13 3.14

answers: $(VENV)/installed-dev
	WFDASH_LONG=1 $(BIN)/python -m pytest -q -n "$(WORKERS)" tests/forms

faults: $(VENV)/installed-dev
	$(BIN)/python -W ignore -m tests.faults --long
	WFDASH_SHOTS=20000 WFDASH_SEED=$$RANDOM $(BIN)/python -m pytest -q -s --timeout 3600 tests/security/input/test_hostile.py

# As much of it as CLUSTER says: make cluster CLUSTER="--runs 300 --hints procrastinate"
cluster: $(VENV)/installed-dev
	$(BIN)/python -W ignore -m tests.cluster $(CLUSTER)

check: $(VENV)/installed-dev $(FRAMEWORKS)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/djangofmt --check templates
	$(FRAMEWORKS)/bin/python -m mypy $(CODE)
	$(FRAMEWORKS)/bin/python -m mypy --config-file= --strict --cache-dir build/mypy-typed .ci/typed.py
	$(BIN)/lint-imports
	$(BIN)/python .ci/terms.py
	$(BIN)/python .ci/configuration.py
	$(BIN)/python .ci/size.py
	$(BIN)/python .ci/public.py
	WFDASH_DATA=build/check $(BIN)/python manage.py makemigrations --check --dry-run

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/djangofmt templates
	$(BIN)/python .ci/configuration.py --write

# The documentation as a site, in build/docs; a warning is an error.
docs: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean -f .ci/mkdocs.yml

docs-serve: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve -f .ci/mkdocs.yml

bench: $(FRAMEWORKS)/installed-bench
	$(FRAMEWORKS)/bin/python -m tests.benchmarks

screenshots: $(FRAMEWORKS)/installed
	WFDASH_SCREENSHOTS=docs/screenshots .ci/tests --e2e-only
	WFDASH_CHROMIUM="$$(.ci/program chromium)" $(FRAMEWORKS)/bin/python .ci/film.py docs/screenshots

# The versions that images and CI install, each file by its hash. Renew them, then run the tests: make lock locked test
lock: $(TOOLS)/installed
	$(LOCK) --extra postgres --extra cluster --extra redis --extra celery --extra encryption --extra apprise --extra push --extra slack --extra otel --extra oidc --extra mcp -o .ci/locks/requirements.lock
	$(LOCK) --extra dev -o .ci/locks/requirements-dev.lock
	$(LOCK) --extra dev --extra dev-frameworks -o .ci/locks/requirements-frameworks.lock

# Exactly those versions, instead of the newest ones that pyproject.toml allows.
locked: | $(VENV)/bin/python $(FRAMEWORKS)/bin/python
	$(PIP) --require-hashes -r .ci/locks/requirements-dev.lock
	$(PIP) --no-deps -e .
	$(PIP_FRAMEWORKS) --require-hashes -r .ci/locks/requirements-frameworks.lock
	@touch $(VENV)/installed $(VENV)/installed-dev $(FRAMEWORKS)/installed

audit: $(TOOLS)/installed
	@.ci/audit

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache test-results

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "wfdash needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# It sees the packages of $(VENV), pip included, and installs only what is missing there.
$(FRAMEWORKS)/bin/python: | $(VENV)/bin/python
	$(BIN)/python -m venv --without-pip $(FRAMEWORKS)
	@$(BIN)/python -c 'import sysconfig as s; print("import site; site.addsitedir(%r)" % s.get_path("purelib"))' \
		>"$$($@ -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/of_venv.pth"

$(FRAMEWORKS)/installed: $(VENV)/installed-dev | $(FRAMEWORKS)/bin/python
	$(PIP_FRAMEWORKS) "wfdash[dev-frameworks]"
	@touch $@

$(FRAMEWORKS)/installed-bench: $(FRAMEWORKS)/installed
	$(PIP_FRAMEWORKS) "wfdash[bench]"
	@touch $@

$(TOOLS)/installed: | $(VENV)/bin/python
	$(BIN)/python -m venv $(TOOLS)
	$(TOOLS)/bin/python $(PIP_INSTALL) "uv>=0.9" "pip-audit>=2.9"
	@touch $@

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	@echo "Installing wfdash into $(VENV): a minute or two, the first time only"
	$(PIP) -e ".[push,pydantic-ai]"
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e ".[dev]"
	@touch $(VENV)/installed $@
