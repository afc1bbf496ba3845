# make demo, make test: each works on a fresh machine that has Python 3.11, Node 20, npm and make.

SHELL := /bin/bash
unexport PYTHONDONTWRITEBYTECODE
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20
export CDK_DISABLE_CLI_TELEMETRY := true
VENV := .venv/bin
SOURCES := app.py infra constructs runtime lambdas

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast lint format typecheck synth wheel bench lock clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup:  ## the development environment, the CDK CLI, the lab's vLLM and the compiled router
	@scripts/setup.sh engine
	@scripts/setup.sh compiled

demo:  ## the whole chain on this machine: from one manifest to a cache hit; ENGINE=simulated where vLLM can't be had
	@scripts/setup.sh $(if $(filter simulated,$(ENGINE)),dev,engine)
	@$(VENV)/python -m hypertier.lab.demo --engine $(or $(ENGINE),vllm)

test: setup  ## ruff, mypy and every test, real vLLM and Valkey among them
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check --quiet .
	@$(VENV)/mypy $(SOURCES)
	@$(VENV)/pytest

test-fast:  ## what needs no engine and no CDK CLI
	@scripts/setup.sh dev
	@$(VENV)/pytest -m "not engine and not cli"

lint:  ## ruff and mypy
	@scripts/setup.sh dev
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check --quiet .
	@$(VENV)/mypy $(SOURCES)

format:  ## rewrite the code as ruff wants it
	@scripts/setup.sh dev
	@$(VENV)/ruff check --fix --quiet .
	@$(VENV)/ruff format .

synth:  ## the reference deployment's templates and review page, in cdk.out
	@scripts/setup.sh dev
	@node_modules/.bin/cdk synth --quiet --no-notices

wheel:  ## the wheel and the sdist, in dist
	@scripts/setup.sh dev
	@$(VENV)/uv build --quiet

bench:  ## one benchmark: make bench NAME=router
	@test -f benchmarks/$(NAME)/run.py || { echo "NAME is '$(NAME)'; expected one of: $$(ls benchmarks | xargs)"; exit 1; }
	@scripts/setup.sh compiled
	@$(VENV)/python benchmarks/$(NAME)/run.py

lock:  ## compile the requirement lists anew
	@$(VENV)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --quiet --output-file requirements/dev.txt

clean:  ## everything that was made, but for the environments
	@rm -rf cdk.out dist .hypertier .mypy_cache .pytest_cache .ruff_cache .hypothesis
