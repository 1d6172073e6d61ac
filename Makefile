# Every target sets up what it needs; `make` alone lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test quick lint rust fmt bench setup setup-dev clean

UV_VERSION := 0.13.7
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
PYTHON ?= python3
RUN := .venv/bin

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## Simulate a mixed workload under several schedulers and write a report
	@mkdir -p out
	@$(RUN)/afflux simulate synthetic:mixed --compare cpu-memory load-spreading pod-by-pod \
	    --report out/demo.html

test: setup-dev lint rust ## Run every check: lints, types, walls, Rust and Python tests
	$(RUN)/pytest -n auto

quick: setup-dev ## The inner loop: lints and the fast tests, under a minute
	$(RUN)/ruff check --quiet src tests bench
	$(RUN)/pytest -n auto -m "not slow"

lint: setup-dev ## Ruff, basedpyright (strict), import-linter, rustfmt, clippy
	$(RUN)/ruff check src tests bench
	$(RUN)/ruff format --check src tests bench
	$(RUN)/basedpyright
	$(RUN)/lint-imports
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

rust: ## Tests of the Rust crates
	cargo test --workspace --locked --release

bench: setup-dev ## Cycle time, quality against the exact optimum, replay of openb, import time
	$(RUN)/python -m bench

fmt: setup-dev ## Format everything
	$(RUN)/ruff check --fix --quiet src tests bench || true
	$(RUN)/ruff format src tests bench
	cargo fmt --all

setup: $(UV) ## Create .venv and build the optimiser
	@$(UV) sync --locked --inexact --quiet --python $(PYTHON)

setup-dev: $(UV)
	@$(UV) sync --locked --inexact --quiet --python $(PYTHON) --all-groups

.uv/bin/uv:
	@echo "installing uv $(UV_VERSION) into .uv (once)"
	@$(PYTHON) -m venv .uv
	@.uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

clean: ## Remove everything that was built
	rm -rf .venv .uv target out .hypothesis .pytest_cache .ruff_cache
