# The commands of the project. `make book` and `make test` need Python 3.11 to 3.14, make and a package index; nothing else.
#   make book                                             the book, its notebooks run on the embedded default
#   make book SOURCE=folder DATA_DIR=../data LIMIT=64     notebook parameters: SOURCE DATA_DIR MODEL LIMIT SEED DEVICE RESULTS
#   make book LIVE=0                                      without the model in the page "Try your own sentence" (84 MB less)
#   make book TORCH=cpu                                   this build of torch: cpu, cuda, default (the package index's)
#   make test WORKERS=4                                   with four processes instead of two
#   make book PYTHON=/path/to/python                      with this interpreter (also 3.15 and later, untested)
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PORT := 8000

# Where the home folder cannot be written, kernels and matplotlib keep their files beside the book.
ifneq ($(shell file=$$(mktemp "$$HOME/.lrp-companion.XXXXXX" 2>/dev/null) && rm "$$file" && echo written),written)
  SPARE := $(CURDIR)/_build/home
  export MPLCONFIGDIR ?= $(SPARE)/matplotlib
  export IPYTHONDIR ?= $(SPARE)/ipython
  export JUPYTER_CONFIG_DIR ?= $(SPARE)/jupyter/config
  export JUPYTER_DATA_DIR ?= $(SPARE)/jupyter/data
  export JUPYTER_RUNTIME_DIR ?= $(SPARE)/jupyter/runtime
  export XDG_CACHE_HOME ?= $(SPARE)/cache
  export PIP_CACHE_DIR ?= $(SPARE)/pip
endif

PYTHON :=
NEWEST_PYTHON := $(if $(PYTHON),99,14)

# Only what is given on make's own command line: a DEVICE or MODEL that the shell happens to export is not meant for us.
# It goes by the environment, where no quote in it can be read by a shell.
$(foreach name,SOURCE DATA_DIR MODEL LIMIT SEED DEVICE RESULTS,$(if $(filter command,$(origin $(name))),\
  $(eval export LRP_COMPANION_BOOK_$(name) := $$(value $(name)))))

TORCH :=

ifeq ($(origin LIVE),command line)
  export LRP_COMPANION_LIVE := $(LIVE)
endif

.PHONY: help book student test weights rehearse serve lint notebooks bench clean

help:
	@echo "make book | student | test | weights | rehearse | serve | lint | notebooks | bench | clean"

book: $(VENV)/book.stamp
	@$(BIN)/python -m lrp_book build

# The same book and the exercise notebooks without their solutions, in _build/student/.
student: $(VENV)/book.stamp
	@$(BIN)/python -m lrp_book student

# tests/test_executed.py compares what `make book` executed with the stored outputs. nbval itself executes what is short, on the
# embedded default: it is never shown a data folder.
test: $(VENV)/dev.stamp
	@$(MAKE) --no-print-directory weights || echo "Tests that need the weights skip."
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --doctest-modules lrp_companion book/lrp_book book/lrp_exercises tests
	env -u LRP_COMPANION_DATA OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile \
	  --nbval --nbval-current-env --nbval-sanitize-with tests/sanitize.cfg notebooks/01_product_counterexample.ipynb notebooks/exercises

# The weights of small models that no chapter loads (51 MB): they stand in the history, also in this commit. A file that is here stays.
WEIGHTS := 774d225e
weights:
	@git cat-file -e $(WEIGHTS)^{commit} 2>/dev/null || { echo "No commit $(WEIGHTS) here, which has the weights: in a clone without its history run git fetch --unshallow, or take them from a release" >&2; exit 1; }
	@set -o pipefail; missing=$$(git ls-tree -r --name-only $(WEIGHTS) training | grep -E '[.](safetensors|npz)$$' | while read -r file; do test -e "$$file" || echo "$$file"; done); \
	  test -z "$$missing" || git archive $(WEIGHTS) $$missing | tar -x

# The three sessions, played in a browser from the built decks as their notes say.
rehearse: $(VENV)/dev.stamp
	$(BIN)/python -m lrp_book.rehearse

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/front/check.py
	$(BIN)/python tests/prose.py

serve: _build/html/index.html
	@echo "The book is on http://127.0.0.1:$(PORT)/ (stop with Ctrl-C)"
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

_build/html/index.html:
	@echo "There is no book yet; run: make book" >&2; exit 1

# For contributors: run the notebooks on their own defaults and keep the outputs that nbval compares with.
notebooks: $(VENV)/book.stamp
	@$(BIN)/python -m lrp_book refresh

# Speed against peers, on one thread: at most 12 minutes on a quiet machine; writes results/benchmarks.json and the tables made from it.
bench: $(VENV)/dev.stamp
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(if $(REVIEWS),--reviews $(REVIEWS))

clean:
	rm -rf _build $(VENV) *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# torch is pinned in constraints.txt like everything else. Where there is no NVIDIA driver its CPU build is installed first.
$(VENV)/%.stamp: pyproject.toml book/pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) setuptools
	@$(BIN)/python packaging/torch_build.py $(TORCH)
	$(PIP) --no-build-isolation --editable '.[$*]' --editable ./book
	@touch $@ $(if $(filter dev,$*),$(VENV)/book.stamp)  # dev has all of book

$(BIN)/python:
	@for candidate in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
	  if "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $(NEWEST_PYTHON)))' 2>/dev/null; then found="$$candidate"; break; fi; \
	done; \
	if [ -z "$$found" ]; then echo "make: no Python 3.11, 3.12, 3.13 or 3.14 here; name one: make book PYTHON=/path/to/python" >&2; exit 1; fi; \
	echo "Creating $(VENV) with $$("$$found" --version)"; \
	"$$found" -m venv $(VENV)
