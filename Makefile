# Two commands set everything up on a machine with Python 3.11 or newer, git and make:
#   make repro   run the whole pipeline on the built-in dataset and print the metrics
#   make test    run all tests
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
INSTALLED := $(VENV)/.installed
export PATH := $(BIN):$(PATH)

.PHONY: help install repro test lint bench clean

help:
	@echo "make repro   run the pipeline on params.yaml and print the metrics table"
	@echo "make test    run all tests"
	@echo "make lint    check style and types"
	@echo "make bench   measure speed and memory against naive forms (about 10 minutes)"
	@echo "make clean   remove .venv, tool caches and resumable work; data and the DVC cache stay"

install: $(INSTALLED)

# Re-created when the pins change. The stamp is written last: a broken installation is repeated.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --constraint constraints.txt --editable '.[dev]'
	touch $@

repro: $(INSTALLED)
	dvc repro
	@cat report/compare.md

test: $(INSTALLED)
	pytest --numprocesses auto --dist loadfile

lint: $(INSTALLED)
	ruff check .
	ruff format --check .
	mypy

bench: $(INSTALLED)
	python -m benchmarks

clean:
	rm -rf $(VENV) data/.work .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
