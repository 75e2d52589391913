# Everything here runs in .venv, which the first command makes; only Python 3.11 or newer, a
# C++17 compiler and a package index are needed. PYTHON=/path/to/python3.12 picks another Python.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

# Nothing from outside the environment: no user site, no path of the caller's.
unexport PYTHONPATH PYTHONHOME
export PYTHONNOUSERSITE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

CPP := $(shell find ops backend -name '*.cpp' -o -name '*.hpp' 2>/dev/null | sort)
BUILD_INPUTS := pyproject.toml $(shell find . -name CMakeLists.txt -not -path './$(VENV)/*' -not -path './build/*') $(CPP)
PACKAGES := pyasc ops backend
SCRIPTS := tests examples benchmarks docs

.PHONY: help setup demo lint test test-full bench docs clean distclean

help:
	@echo 'make demo       set up, then find the edges of a photograph with one fused kernel'
	@echo 'make test       set up, then lint, type-check and run the tests (about ten minutes at first)'
	@echo 'make test-full  the tests with their heavy sweeps'
	@echo 'make bench      the benchmarks beside NumPy, numexpr, numba, JAX, PyTorch, OpenCV, SciPy and C++'
	@echo 'make lint       ruff, mypy --strict, clang-format'
	@echo 'make docs       write docs/api.md, and the generated parts of docs/ascend.md and docs/kernels.md'
	@echo 'make clean      remove what was built and written; make distclean also removes $(VENV)'

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "make: there is no '$(PYTHON)'; say PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: expected Python 3.11 or newer, given `$(PYTHON) -V 2>&1`; say PYTHON=/path/to/python3.11"; exit 1; }
	@command -v c++ >/dev/null || command -v g++ >/dev/null || [ -n "$$CXX" ] || \
		{ echo 'make: expected a C++ compiler (g++ or c++), found none'; exit 1; }
	@echo '--> making $(VENV)'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.installed-test: $(BIN)/python $(BUILD_INPUTS)
	@echo '--> building the C++ parts (some minutes) and installing pyasc with what the tests and examples need'
	@$(BIN)/python -m pip install --quiet --progress-bar on --editable '.[test,examples]'
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-test
	@echo '--> installing the libraries that the benchmarks compare with'
	@$(BIN)/python -m pip install --quiet --progress-bar on --editable '.[bench]'
	@touch $@

setup: $(VENV)/.installed-test

demo: setup
	@echo '--> examples/sobel.py'
	@$(BIN)/python examples/sobel.py

# What .venv was made with stays: another PYTHON needs `make distclean` first.
# mypy knows no packages put together from several folders, so it is shown them as they are installed.
lint: setup
	@echo '--> ruff'
	@$(BIN)/ruff check $(PACKAGES) $(SCRIPTS)
	@$(BIN)/ruff format --check --quiet $(PACKAGES) $(SCRIPTS)
	@echo '--> mypy --strict'
	@rm -rf build/types && mkdir -p build/types/pyasc
	@ln -s $(CURDIR)/pyasc/* $(CURDIR)/ops $(CURDIR)/backend build/types/pyasc
	@cd build/types && $(CURDIR)/$(BIN)/mypy --strict --config-file $(CURDIR)/pyproject.toml -p pyasc
	@echo '--> clang-format'
	@$(BIN)/clang-format --dry-run -Werror $(CPP) $(shell find tests -name '*.cpp' -o -name '*.hpp')

test: lint
	@echo '--> pytest'
	@$(BIN)/python -m pytest tests -q -n $(WORKERS)

test-full: lint
	@echo '--> pytest, heavy sweeps included'
	@$(BIN)/python -m pytest tests -q -n $(WORKERS) --full

bench: $(VENV)/.installed-bench
	@$(BIN)/python benchmarks/run.py

docs: setup
	@$(BIN)/python docs/write_api.py
	@$(BIN)/python docs/write_ascend.py
	@$(BIN)/python docs/write_kernels.py

clean:
	rm -rf build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(PACKAGES) $(SCRIPTS) -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f $(VENV)/.installed-*

distclean: clean
	rm -rf $(VENV)
