# make run | test | answers | faults | check | format | bench | screenshots     (needs only Python >= 3.11 and make)
#
#   PORT=8000 DATA=wfdash-data   where make run listens and keeps its database
#   CI=true                      a missing Chromium is then a failure, not something left out

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8000
DATA ?= wfdash-data
WORKERS ?= 2
NEWEST := python3 python3.14 python3.13 python3.12 python3.11
PYTHON ?= $(shell for name in $(NEWEST); do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet
CODE := checkpoints wfdash

.PHONY: help run test answers faults check format bench screenshots clean

help:
	@sed -n 1,4p Makefile

run: $(VENV)/installed
	exec $(BIN)/wfdash up --demo --port "$(PORT)" --data "$(DATA)"

test: check
	@.ci/tests -n $(WORKERS)

answers: $(VENV)/installed-dev
	WFDASH_LONG=1 $(BIN)/python -m pytest -q -n "$(WORKERS)" tests/forms

faults: $(VENV)/installed-dev
	$(BIN)/python -W ignore -m tests.faults --long

check: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports
	WFDASH_DATA=build/check $(BIN)/python manage.py makemigrations --check --dry-run

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/installed-bench
	$(BIN)/python -m tests.benchmarks

screenshots: $(VENV)/installed-dev
	WFDASH_SCREENSHOTS=docs/screenshots .ci/tests --e2e-only

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache test-results

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "wfdash needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e ".[dev]"
	@touch $(VENV)/installed $@

$(VENV)/installed-bench: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e ".[bench]"
	@touch $(VENV)/installed $(VENV)/installed-dev $@
