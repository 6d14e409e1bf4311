# Two commands set everything up on a machine with Python 3.11 or newer, git and make:
#   make repro   run the whole pipeline on the built-in dataset and print the metrics
#   make test    run the tests (7 to 10 minutes on two cores)
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
INSTALLED := $(VENV)/.installed
export PATH := $(BIN):$(PATH)


# What BLAS and torch compute must hold with the kernels of other processors, too.
NUMERIC := tests/pipeline/features/statistics tests/pipeline/evaluation \
  tests/pipeline/features/sentences/test_fisher.py tests/pipeline/features/sentences/test_mixtures.py \
  tests/pipeline/features/sentences/test_mean_vector.py tests/pipeline/features/sentences/test_tfidf.py \
  tests/models/layers tests/models/losses tests/models/test_vse.py tests/models/test_vse_infinity.py tests/models/cca tests/models/dp_rnn \
  tests/models/test_scan.py tests/models/test_networks.py \
  tests/models/two_branch/test_batches.py tests/models/two_branch/test_loss.py \
  tests/models/attention/test_bigru.py tests/models/attention/test_cosines.py \
  tests/models/attention/test_scoring.py tests/models/dual_path/test_instance.py \
  tests/models/dual_path/test_loss.py

.PHONY: help install repro test test-slow test-all test-avx2 lint docs bench campaign clean

help:
	@echo "make repro   run the pipeline on params.yaml and print the metrics table"
	@echo "make test    run the tests, but for the slow ones (7 to 10 minutes on two cores)"
	@echo "make test-slow  run the slow tests: kills, several processes, whole graphs, the campaign's sample"
	@echo "make test-all   run all tests"
	@echo "make test-avx2   run the numeric tests again with the kernels of processors without AVX-512"
	@echo "make lint    check style and types"
	@echo "make docs    build the documents as a site, in site/"
	@echo "make bench   measure speed and memory against naive forms (about an hour)"
	@echo "make campaign   damage, kills and sequences of a new seed, for MINUTES=60"
	@echo "make clean   remove .venv, tool caches and resumable work; data and the DVC cache stay"

install: $(INSTALLED)

# Re-created when the pins change. The stamp is written last: a broken installation is repeated.
# uv installs in a third of pip's time, from the index that pip is told; where it cannot, pip does it.
# Compiled, as pip does: where PYTHONDONTWRITEBYTECODE is set, as in containers, every process would
# compile the libraries again (`make test`: 10 min 20 s for 7 min 19 s).
PACKAGES := --constraint constraints.txt --editable '.[dev]'
INDEX = $${PIP_INDEX_URL:-$$($(PIP) config get global.index-url 2> /dev/null)}
PIP := $(VENV)/bin/python -m pip

# Without the package python3-venv Debian makes half an environment, one without pip.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(VENV)/bin/pip || $(PYTHON) -m venv $(VENV)
	($(PIP) install --constraint constraints.txt uv \
	  && UV_DEFAULT_INDEX=$(INDEX) uv pip install --compile-bytecode \
	    --python $(VENV)/bin/python $(PACKAGES)) \
	  || $(PIP) install $(PACKAGES)
	vse embed-plots
	touch $@

# as `dvc repro`, two stages at a time
repro: $(INSTALLED)
	vse repro
	@cat report/compare.md

WORKERS ?= auto
PYTEST := pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(INSTALLED)
	$(PYTEST) -m 'not slow'

# named, since collecting all files takes longer than some tests
test-slow: $(INSTALLED)
	$(PYTEST) -m slow $$(grep -rl --include='test_*.py' 'mark\.slow' tests)

test-all: test test-slow

test-avx2: $(INSTALLED)
	OPENBLAS_CORETYPE=Haswell ATEN_CPU_CAPABILITY=avx2 \
	  pytest --numprocesses $(WORKERS) --dist loadfile $(NUMERIC)

lint: $(INSTALLED)
	ruff check .
	ruff format --check .
	mypy

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

bench: $(INSTALLED)
	python -m benchmarks --page docs/benchmarks.md

MINUTES ?= 60

campaign: $(INSTALLED)
	python -m tests.campaign.nightly --minutes $(MINUTES)

clean:
	rm -rf $(VENV) data/.work .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
