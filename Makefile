# Every command of this repository; each prepares what it needs first. `make help` lists them.
# PYTHON=/path/to/python3 chooses the interpreter, ARGS="..." passes flags on to the program.

VENV := .venv/bin
ARGS ?=
EXAMPLE ?= wordcount
SCENARIO ?= simulation.scenarios.broker:BROKER
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup setup-server up demo demo-spark check test bench sim soak soak-spark soak-verdicts read-whole gen dist clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv with everything for development; compile the hot paths if there is a compiler
	@sh tools/setup.sh dev

setup-server:
	@sh tools/setup.sh server

up: setup-server ## Run a one-node cluster (ARGS="--help" shows its flags)
	@$(VENV)/tidelog up $(ARGS)

demo: setup-server ## Start a throw-away node, produce and fetch some records, show them
	@$(VENV)/python tools/demo.py $(ARGS)

demo-spark: setup ## Run an example on Spark (EXAMPLE=wordcount, sessions, orders or limits)
	@$(VENV)/python examples/$(EXAMPLE).py $(ARGS)

check: setup ## Format, lint, types, import contracts, generated code, schema (changes nothing)
	$(VENV)/ruff format --check .
	$(VENV)/ruff check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(VENV)/python tools/gen_protos.py --check
	$(VENV)/python tools/check_protos.py
	$(VENV)/python tools/gen_config_docs.py --check

test: setup ## Run the tests (ARGS="-k name" chooses)
	@$(VENV)/python -m pytest $(ARGS)

bench: setup ## Measure (ARGS="--help" shows what)
	@$(VENV)/python -m bench $(ARGS)

sim: setup ## Run seeds of the broker, or of a SCENARIO, under simulated faults (ARGS="--count 9")
	@PYTHONPATH=tests $(VENV)/python -m simulation.runner $(SCENARIO) $(ARGS)

soak: setup ## Cut the power of a loaded node again and again (ARGS="--kills 100"), and check
	@$(VENV)/python tools/soak.py $(ARGS)

soak-spark: setup ## Kill Spark and the broker under a stream (ARGS="--kills 40"), and compare
	@$(VENV)/python tools/soak_spark.py $(ARGS)

soak-verdicts: setup ## Send a million records over kills, restarts and cuts, and check each verdict
	@$(VENV)/python tools/soak_verdicts.py $(ARGS)

read-whole: setup ## Read a million records of each compression in every way, and compare each
	@$(VENV)/python tools/read_whole.py $(ARGS)

gen: setup ## Generate the Python code of proto/ and note what the schema now promises
	@$(VENV)/python tools/gen_protos.py
	@$(VENV)/python tools/check_protos.py --accept
	@$(VENV)/python tools/gen_config_docs.py

dist: setup ## Build wheel and sdist into dist/
	@$(VENV)/python -m build --outdir dist .

clean: ## Remove what the other targets made, .venv too; data directories stay
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find clients services spark tests tools \( -name __pycache__ -o -name '*.so' \) -prune -exec rm -rf {} +
