# Targets bootstrap what they need: a Python of at least 3.11 and make are enough to begin with.

# The interpreter that .venv is made from. Set PYTHON to choose; else python3 or the newest we find.
PYTHON ?= python3
ifeq ($(origin PYTHON),file)
CANDIDATES := $(PYTHON) python3.13 python3.12 python3.11
else
CANDIDATES := $(PYTHON)
endif

# Some legs of `make test` instead of all, and what to hand to pytest:
# make test LEGS=core-py311,lowest ARGS="-k backoff"
# What `make bench` measures, and what to hand to it: make bench ENGINE=postgres ARGS=--quick
LEGS ?=
ARGS ?=
ENGINE ?= sqlite

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
PROJECTS := $(wildcard packages/*/pyproject.toml contract-suite/pyproject.toml)
MEMBERS := $(patsubst %/pyproject.toml,%,$(PROJECTS))

# tox looks for interpreters on PATH; those of pyenv are appended.
export PATH := $(PATH)$(shell .ci/pythons)
# What builds our wheels is pinned by the same lock as all else. Relative, as uv splits it at spaces.
export UV_BUILD_CONSTRAINT := requirements.lock
# uv reads nothing that is set for pip. Whoever behind a mirror or an intercepting proxy has set pip
# up need not do it again. pip's extra indexes are not passed on: uv looks for a package in the first
# index that has it, whichever releases are there, and so would not find what the lock pins.
ifdef PIP_CERT
export SSL_CERT_FILE ?= $(value PIP_CERT)
endif
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(value PIP_INDEX_URL)
endif

# tox splits its commands at spaces after it has put the paths into them.
ifneq ($(word 2,$(CURDIR)),)
ifneq ($(filter test lint types docs coverage,$(MAKECMDGOALS)),)
$(error tox does not work in a directory with a space in its path, and this is "$(CURDIR)": \
    move the checkout. `make demo` and `make dev` work here)
endif
endif

.DEFAULT_GOAL := help
.PHONY: help demo dev test lint types docs bench coverage wheels lock pythons clean

help: ## Say what there is
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(VENV)/.runtime ## Count the standard library with three workers, one of them killed half way
	$(BIN)/python docs/examples/stdlib-census/census.py

dev: $(VENV)/.dev ## Put all tools into .venv, so that .venv/bin/pytest packages/core/tests works

test: $(VENV)/.dev ## Run every leg: lint, types, tests on the built wheels, docs (missing interpreters are skipped)
	@rm -rf .tox/junit .tox/result.json
	$(BIN)/tox run --result-json .tox/result.json $(LEGS:%=-e %) $(if $(ARGS),-- $(ARGS)); status=$$?; $(BIN)/python .ci/total.py && exit $$status

lint: $(VENV)/.dev ## Check style, the lock and the import arrows
	$(BIN)/tox run -e lint,imports

types: $(VENV)/.dev ## Check types: mypy --strict, pyright --verifytypes
	$(BIN)/tox run -e types

docs: $(VENV)/.dev ## Build the documentation into docs/_build/html
	$(BIN)/tox run -e docs

bench: $(if $(filter postgres,$(ENGINE)),$(VENV)/.dev,$(VENV)/.runtime) ## Print rates next to those of the plain sqlite3 module; of asyncpg with ENGINE=postgres
	$(BIN)/python benchmarks/bench.py $(ENGINE) $(ARGS)

coverage: $(VENV)/.dev ## Measure line and branch coverage
	$(BIN)/tox run -e coverage

wheels: $(UV) ## Build the wheel and the sdist of every package into dist/
	rm -rf dist
	cp -R "$$($(BIN)/python .ci/wheelhouse.py build)" dist

lock: $(UV) ## Make requirements.lock anew (pins that still fit are kept)
	$(BIN)/python .ci/lock.py

pythons: ## Print the interpreters that the test legs will use
	@for v in 3.11 3.12 3.13; do \
	    IFS=:; found=; \
	    for d in $$PATH; do \
	        if "$$d/python$$v" -c '' 2>/dev/null; then found=$$("$$d/python$$v" -V); break; fi; \
	    done; \
	    echo "$$v: $${found:-not here, its legs are skipped}"; \
	done

clean: ## Remove all that was built, the environment included
	rm -rf $(VENV) .tox dist docs/_build .mypy_cache .ruff_cache .hypothesis uv.lock
	find packages docs -name __pycache__ -prune -exec rm -rf {} +

# An environment that was left half-made, or whose interpreter has gone since, is made anew.
ifneq ($(wildcard $(VENV)),)
ifneq ($(shell $(BIN)/python -c '' 2>&1 && $(UV) --version >/dev/null 2>&1 && echo sound),sound)
$(UV): FORCE
FORCE:
endif
endif

$(UV): | requirements.lock
	@for candidate in $(CANDIDATES); do \
	    if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        python=$$candidate; break; \
	    fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "alkstore needs Python 3.11 or newer, and found none as: $(CANDIDATES)." \
	         "Install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	set -ex; \
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $$python -m venv --clear $(VENV); \
	$(BIN)/python -m pip install --quiet --force-reinstall --disable-pip-version-check "$$(sed -n 's/^\(uv==[^ ]*\).*/\1/p' requirements.lock)"

# What the packages need at run time, and no more; compiled, for the demo starts six processes.
$(VENV)/.runtime: $(UV) $(PROJECTS) requirements.lock
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --constraints requirements.lock $(addprefix -e ,$(MEMBERS))
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime pyproject.toml
	$(UV) pip install --quiet --python $(BIN)/python --requirements requirements.lock
	@touch $@
