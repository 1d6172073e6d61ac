# Every target sets up what it needs in this folder; `make` alone lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo picture testbed test test-long quick explore lint rust pytest bench bench-solver bench-kube bench-constraints bench-preempt bench-ledger bench-service bench-disk-io conformance example-normaliser proto fmt setup setup-dev tools clean

PYTHON ?= python3
UV_VERSION := 0.13.7
UV := .uv/bin/uv
# A compiler of C for WebAssembly in a wheel, for one example only.
ZIG_VERSION := 0.17.0
NORMALISER ?= docs/examples/normaliser/normaliser.wasm
RUN := .venv/bin
export UV_PYTHON_DOWNLOADS := never
# The order of sets is one more thing that tests must draw alike in every run.
export PYTHONHASHSEED := 0
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## Simulate a day of mixed work under four schedulers and write a report
	@mkdir -p out
	@$(RUN)/afflux simulate synthetic:mixed --report out/demo.html \
	    --compare cpu-memory cpu-memory@easy cpu-memory@fcfs pod-by-pod

picture: demo ## Make the picture of the README from the report of make demo (needs Chromium)
	@$(RUN)/python -m bench.report_screenshot out/demo.html docs/pictures/report.png

testbed: setup-dev ## A real control plane on loopback to play with, until Ctrl-C
	@$(RUN)/python -m testbed

test: lint rust pytest ## Lints, types, layers, Rust and Python tests

test-long: setup-dev ## The longest stories and further random examples, which make test leaves out
	@$(RUN)/python -m testbed --build
	$(RUN)/pytest -n auto -m long

quick: setup-dev ## The inner loop: lints and the fast tests
	$(RUN)/ruff check --quiet src tests bench testbed
	$(RUN)/pytest -n auto --dist worksteal -m "not slow and not long"

explore: setup-dev ## Property tests with new random examples, until Ctrl-C or a failure (SEED=n repeats a round)
	@env -u PYTHONHASHSEED $(RUN)/python tests/explore.py $(SEED)

lint: setup-dev ## Ruff, basedpyright (strict), import-linter, rustfmt, clippy
	$(RUN)/ruff check src tests bench testbed
	$(RUN)/ruff format --check src tests bench testbed
	$(RUN)/basedpyright
	$(RUN)/lint-imports
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings

rust: setup-dev ## Tests of the Rust crates
	cargo test --workspace --exclude afflux-py --locked --release --quiet

pytest: setup-dev ## Tests in Python
	@$(RUN)/python -m testbed --build
	$(RUN)/pytest -n auto -m "not long"

bench: setup-dev ## Cycle time, quality against the exact optimum, replay of openb, import time
	$(RUN)/python -m bench

bench-solver: setup-dev ## The solver against OR-Tools, cold and over rounds of churn (ten minutes)
	$(RUN)/python -m bench.solver --large --json docs/benchmarks/solver.json --plot docs/pictures/solver.svg

bench-kube: setup-dev ## afflux and kube-scheduler on a real API server (40 minutes, a quiet machine)
	$(RUN)/python -m bench.kube --json docs/benchmarks/kube.json || failed=1; \
	$(RUN)/python -m bench.kube --write-docs docs/benchmarks/kube.json \
	    --plot docs/pictures/kube.svg; exit $${failed:-0}

bench-constraints: setup-dev ## Constraints between pods: the core alone, then beside kube-scheduler (25 minutes)
	$(RUN)/python -m bench.constraints --json docs/benchmarks/constraints-core.json
	$(RUN)/python -m bench.kube --nodes 5000 --workloads zone-affinity hostname-anti-affinity \
	    zone-spread preferred-anti-affinity services --schedulers afflux kube-scheduler null \
	    --json docs/benchmarks/constraints.json || failed=1; \
	$(RUN)/python -m bench.kube --write-docs docs/benchmarks/constraints.json; exit $${failed:-0}

bench-preempt: setup-dev ## Preemption on a full cluster, beside kube-scheduler (ten minutes, a quiet machine)
	@$(RUN)/python -m bench.preemption --json docs/benchmarks/preemption.json

bench-ledger: setup-dev ## What a ledger costs: queueing 100,000 pods, its share of a cycle
	$(RUN)/python -m bench.ledger --json docs/benchmarks/ledger.json

bench-service: setup-dev ## The gRPC service: submissions a second, a schedule beside the bare cycle
	$(RUN)/python -m bench.service --json docs/benchmarks/service.json

bench-disk-io: setup-dev ## What neighbours on disks cost tasks, and what the reports of disks cost the scheduler
	$(RUN)/python -m bench.disk_io.simulation --plot docs/pictures/disk-throughput.svg
	$(RUN)/python -m bench.disk_io.statuses --json docs/benchmarks/disk-io.json

conformance: setup-dev ## Kubernetes' own scheduling specs, with kube-scheduler and with afflux (an hour)
	@$(RUN)/python -m bench.conformance --at-least kube-scheduler=35 afflux=35

example-normaliser: $(UV) ## Build the WebAssembly module of docs/examples/normaliser from its C source
	@$(UV) run --quiet --no-project --isolated --with ziglang==$(ZIG_VERSION) --python $(PYTHON) \
	    python -m ziglang cc -target wasm32-freestanding -mcpu=mvp -Os -Wall -Wextra -Werror \
	    -nostdlib -Wl,--no-entry -Wl,--strip-all -Wl,-z,stack-size=8192 \
	    -o $(NORMALISER) docs/examples/normaliser/normaliser.c
	@cd $(dir $(NORMALISER)) && sha256sum $(notdir $(NORMALISER)) > $(notdir $(NORMALISER)).sha256

proto: setup-dev ## Generate the Python files of the protobuf messages
	@$(RUN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src \
	    $(sort $(wildcard src/afflux/rpc/proto/*/*.proto))

fmt: setup-dev ## Format everything
	$(RUN)/ruff check --fix --quiet src tests bench testbed
	$(RUN)/ruff format src tests bench testbed
	cargo fmt --all

setup: tools $(UV) ## Create .venv and build the optimiser
	@$(UV) sync --locked --inexact --quiet --python $(PYTHON)

setup-dev: tools $(UV)
	@$(UV) sync --locked --inexact --quiet --python $(PYTHON) --all-groups

tools:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	    { echo "afflux needs Python 3.11 or newer, and $(PYTHON) is not; try: make PYTHON=python3.12"; exit 1; }
	@command -v cargo >/dev/null || { echo "afflux needs cargo, the build tool of Rust, on the PATH"; exit 1; }

# Some systems ship Python without venv; pip alone will do.
$(UV):
	@echo "setting up: uv $(UV_VERSION), then Python packages and the Rust crates (once, a minute or two)"
	@{ $(PYTHON) -m venv .uv >/dev/null 2>&1 && \
	    .uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); } || \
	    $(PYTHON) -m pip install --quiet --disable-pip-version-check --target .uv uv==$(UV_VERSION)

clean: ## Remove everything that was built
	rm -rf .venv .uv target out .hypothesis .pytest_cache .ruff_cache
