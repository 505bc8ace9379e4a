# Signalbox: everything a developer types. Each target makes or updates the environment it needs by itself; when the
# lock file has not changed since, that takes no time.
#
#   make demo                     a running installation with a simulated provider   (PORT=8000, RESET=1 to start over)
#   make test [ARGS="-k name"]    the tests, on PostgreSQL and on SQLite             (WORKERS=0: in one process)
#   make lint                     everything else that must be right before a commit
#   make format                   what `make lint` would ask for, where a tool can do it
#   make lock [LOCK_ARGS=--upgrade]
#   make clean

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# What is typed and checked; folders that do not exist yet are left out.
CODE := $(wildcard manage.py governance routing telemetry budgets tests bench docs/check.py)

ARGS ?=
# One more process than there are cores, because many tests wait for servers. WORKERS=0 runs all in one process.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
PYTEST := -m pytest --numprocesses $(WORKERS) --dist loadscope --no-loadscope-reorder
LOCK_ARGS ?=
# One more process than there are cores, because many tests wait for servers. WORKERS=0 runs all in one process.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
PYTEST := -m pytest --numprocesses $(WORKERS) --dist loadscope --no-loadscope-reorder
PORT ?=
RESET ?=
export PORT RESET

.PHONY: help demo test test-postgres test-sqlite lint format lock clean environment

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.runtime
	$(PY) manage.py demo

test: test-postgres test-sqlite

test-postgres: $(VENV)/.development
	SIGNALBOX_TEST_DB=postgres $(PY) $(PYTEST) $(ARGS)

# The tests that touch a database, once more. ARGS may have selected none of them: pytest says so by exit code 5.
test-sqlite: $(VENV)/.development
	SIGNALBOX_TEST_DB=sqlite $(PY) $(PYTEST) -m database $(ARGS) || [ $$? -eq 5 ]

lint: $(VENV)/.development
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy $(CODE)
	$(VENV)/bin/lint-imports
	DJANGO_SETTINGS_MODULE=tests.settings $(PY) manage.py check --fail-level WARNING
	DJANGO_SETTINGS_MODULE=tests.settings $(PY) manage.py makemigrations --check --dry-run
	$(PY) docs/check.py

format: $(VENV)/.development
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(PY) -m governance.settings_store.page > docs/settings.md
	$(PY) -m governance.gateway.protocols.page > docs/protocols.md
	$(PY) -m governance.gateway.failures > docs/failures.md

# The development lock comes first and constrains the other one, so the two never disagree.
LOCK := compile pyproject.toml --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet
lock: $(VENV)/.development
	$(PY) -m uv pip $(LOCK) --extra dev $(LOCK_ARGS) --output-file requirements-dev.lock
	$(PY) -m uv pip $(LOCK) --constraints requirements-dev.lock $(LOCK_ARGS) --output-file requirements.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis staticfiles
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- The environment ------------------------------------------------------------------------------------------------
# Two stamps in one folder: `make demo` installs what running takes, the other targets what development takes. Either
# way every file is checked against its hash.

environment: $(VENV)/.development

$(VENV)/.runtime: requirements.lock | $(PY)
	$(call install,requirements.lock,install -r)
	@touch $@

$(VENV)/.development: requirements-dev.lock | $(PY)
	$(call install,requirements-dev.lock,sync)
	@touch $@ $(VENV)/.runtime

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Signalbox needs Python 3.11 or later; say which: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# uv also takes out what the lock file no longer names (`sync`), which pip cannot. `make demo` must not take out the
# tools of development, hence the second argument.
define install
@if command -v uv >/dev/null; then installer="uv pip $(2)"; \
	elif $(PY) -m uv --version >/dev/null 2>&1; then installer="$(PY) -m uv pip $(2)"; \
	else installer="$(PY) -m pip install --require-virtualenv -r"; fi; \
	echo "$$installer $(1)"; \
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $$installer $(1) --quiet --require-hashes
endef
