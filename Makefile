# Everything here works on a machine with Python >= 3.11, git and make: .venv is made on first use, from hash-pinned locks.
# ARGS="..." is handed on to the command behind a target; PYTHON=/path/to/python3 names the interpreter for .venv.
ARGS =
PYTHON =
export PYTHON

bin = .venv/bin
uv_compile = $(bin)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock"

.PHONY: help demo test test-integrations lint format types bench simulate lock clean
.DEFAULT_GOAL := help

help: ## Show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.demo ## See groups judged by the embedded judge, in your terminal
	@$(bin)/groupjudge demo $(ARGS)

test: .venv/.dev ## Run the tests
	@$(bin)/python -m pytest -n 2 $(ARGS)

test-integrations: ## Test the adapters with the real trainers (ARGS="trl": one of them; installs them, takes minutes)
	@tools/integrations $(ARGS)

lint: .venv/.dev ## Check style and formatting
	@$(bin)/ruff check
	@$(bin)/ruff format --check

format: .venv/.dev ## Put the code into its format
	@$(bin)/ruff check --fix
	@$(bin)/ruff format

types: .venv/.dev ## Check types
	@$(bin)/mypy

bench: .venv/.dev ## Measure, and print a table with ratios to a baseline
	@$(bin)/python -m benchmarks $(ARGS)

simulate: .venv/.dev ## Run the whole system on seeded schedules with faults
	@$(bin)/python -m tests.simulation $(ARGS)

# The smaller lock first takes the larger one's versions, so that both can live in one .venv.
lock: .venv/.dev ## Pin the newest releases that pyproject.toml allows
	@$(bin)/python -m pip install --quiet --require-hashes --no-deps --requirement requirements/lock.lock
	@echo uv | $(uv_compile) --no-annotate --output-file requirements/lock.lock --upgrade -
	@$(uv_compile) --extra fast --extra local --extra report --group dev --group build --upgrade --output-file requirements/dev.lock pyproject.toml
	@$(uv_compile) --extra fast --extra local --group build --constraint requirements/dev.lock --upgrade \
		--output-file requirements/demo.lock pyproject.toml

clean: ## Remove .venv and everything that was made
	rm -rf .venv .venv-integrations .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps lie in .venv, so that they go when it goes.
.venv/.dev: requirements/dev.lock pyproject.toml tools/venv
	@tools/venv requirements/dev.lock
	@touch .venv/.dev .venv/.demo

.venv/.demo: requirements/demo.lock pyproject.toml tools/venv
	@tools/venv requirements/demo.lock
	@touch .venv/.demo
