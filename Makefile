# Everything a newcomer types. Needs Python 3.11 or newer, Java 17 or 21, and make; uv is
# installed into .onramp/tools when this machine has none.

UV_VERSION := 0.13.8
PYTHON     ?= python3
TOOLS      := .onramp/tools
PY         := .venv/bin/python
STAMP      := .venv/.synced
ARGS       ?=
# Most of the suite's time is waiting for processes that start: four at a time use two cores.
JOBS       ?= 4

SUITE      := $(PY) -m tests.run
# In the order of `testpaths`, which has the slow files first: none of them is left for the end.
WORKERS    := -n $(JOBS) --dist loadfile --no-loadscope-reorder --second-try

# The project is run from its folder; nothing of it is installed (see pyproject.toml).
export PYTHONPATH := $(CURDIR)
# A variable of another project's environment would send uv there.
unexport VIRTUAL_ENV
# Behind a proxy with a certificate authority of its own, uv needs to be told to trust what this machine trusts.
ifdef SSL_CERT_FILE
export UV_SYSTEM_CERTS ?= true
endif

.DEFAULT_GOAL := help
.PHONY: help setup run demo prometheus browser screenshots test lint types format test-full test-compose test-unit fuzz mutants proof proof-plan proof-parked proof-sources bench bench-gateway bench-writer bench-scale bench-errors bench-latency load load-full model bundle clean bench-registry bench-plan bench-cdc bench-ui bench-transforms bench-lake

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(STAMP) ## Start everything, send real flights through it, stay up until Ctrl-C
	@bin/onramp up $(ARGS)

demo: $(STAMP) ## The same, then stop; fails unless every event is a row
	@bin/onramp up --exit $(ARGS)

prometheus: $(STAMP) ## Fetch Prometheus for tests and `make run ARGS=--prometheus`: Debian's package, nothing is installed
	@$(PY) -m stack.prometheus

browser: $(STAMP) ## Fetch a browser for tests of the web UI: Debian's Chromium, nothing is installed
	@$(PY) -m stack.browser

screenshots: $(STAMP) ## Take the pictures of the web UI in docs/pictures
	$(PY) -m tests.browser.screenshots $(ARGS)

test: lint types fetched-prometheus fetched-browser ## Lint, types and every test, against real Kafka, Postgres and Spark
	$(SUITE) $(if $(ARGS),,--budget default) -- $(WORKERS) $(ARGS)

test-full: fetched-prometheus fetched-browser ## Every test, with the rare and heavy ones that `make test` skips (75 minutes)
	$(SUITE) -- $(WORKERS) -m "" $(ARGS)

test-compose: $(STAMP) ## Build the images and run docker-compose.yml on an engine; starts one as root if none runs
	$(PY) -m tests.compose $(ARGS)

test-unit: $(STAMP) ## Only the tests that start no process
	$(PY) -m pytest tests/unit $(ARGS)

# Without it the tests of rules are skipped, and say so.
.PHONY: fetched-prometheus
fetched-prometheus: $(STAMP)
	@$(PY) -m stack.prometheus >/dev/null || true

# Without it the tests in a browser are skipped, and say so.
.PHONY: fetched-browser
fetched-browser: $(STAMP)
	@$(PY) -m stack.browser >/dev/null || true

lint: $(STAMP) ## Check style and format; warn of files above 300 lines and folders above 15 files
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	@$(PY) -m tests.unit.conventions.sizes

types: $(STAMP) ## Check types
	$(PY) -m mypy

FUZZED := tests/unit/ingest/test_fuzz.py tests/unit/shared/test_strict_json.py \
	tests/unit/contracts/test_generated_costs.py \
	tests/unit/writer_sort/test_batch_checks.py

fuzz: $(STAMP) ## Generate bad requests, odd values and costly schemas for half an hour (part of `test` in short)
	ONRAMP_FUZZ_EXAMPLES=20000 $(PY) -m pytest -m "full or not full" $(FUZZED) --timeout 3600 $(ARGS)

mutants: $(STAMP) ## Remove one protection of the code at a time: a test must fail (half an hour; ARGS=gateway)
	$(PY) -m tests.mutants $(ARGS)

proof: $(STAMP) ## 100,000 flights, 1,000 broken ones, an outage, a hang, a cut log and six kills: all totals reconcile
	ONRAMP_PROOF_FLIGHTS=100000 $(PY) -m pytest tests/faults/test_proof.py -m "" --timeout 3600 $(ARGS)

proof-plan: $(STAMP) ## `onramp plan` over all 336,776 flights finds a deliberate change of a type, and counts it exactly
	ONRAMP_PLAN_FLIGHTS=336776 $(PY) -m pytest tests/integration/writer_plan/test_flights.py --timeout 3600 $(ARGS)

proof-parked: $(STAMP) ## 50,000 flights, three faults, an outage of a minute, kills, a restored dump: no parked event is lost
	ONRAMP_PARKED_FLIGHTS=50000 $(PY) -m pytest tests/faults/test_parked_lifecycle.py -m "" --timeout 3600 $(ARGS)

proof-sources: $(STAMP) ## Five seeds: the demo's whole tables change while Connect, writer, merger, agent and Postgres are killed
	ONRAMP_SOURCES_SEEDS=5 $(PY) -m pytest tests/faults/test_sources_proof.py -m "" --timeout 3600 $(ARGS)

bench-gateway: $(STAMP) ## The gateway compared with a bare Kafka producer: CPU per event, latency, memory
	$(PY) -m loadtest.bench_gateway $(ARGS)

bench-writer: $(STAMP) ## Kafka to Postgres compared with Postgres' own COPY (minutes; ARGS="--case typed-250b")
	$(PY) -m loadtest.bench_writer $(ARGS)

# In one session, the usual run among them: what the plot joins is of one hour.
SCALES := "" "--partitions 1" "--partitions 2" "--partitions 3" "--partitions 12" \
	"--slots 1" "--slots 4" "--slots 6" "--case bad-1%"

bench-scale: $(STAMP) ## The writer by partitions, by task slots and with bad events, in one session (half an hour)
	@for scale in $(SCALES); do $(PY) -m loadtest.bench_writer $$scale $(ARGS) || exit 1; done

bench: $(STAMP) ## Every bench, the seed load and a rising one in one report, compared with the last committed one
	$(PY) -m loadtest.bench $(ARGS)

bench-errors: $(STAMP) ## A million parked events: stored, listed, discarded, and replayed during live events (half an hour)
	$(PY) -m loadtest.bench_errors $(ARGS)

bench-latency: $(STAMP) ## Latency from the planned time of an event to its row, at 1,000 a second (ten minutes)
	$(PY) -m loadtest.bench_latency $(ARGS)

bench-plan: $(STAMP) ## Events per second of `onramp plan`, and the delay of live events meanwhile (a quarter of an hour)
	$(PY) -m loadtest.bench_plan $(ARGS)

bench-cdc: $(STAMP) ## Sources: from a commit to its public row, a large transaction, a backlog, a snapshot, a crash (half an hour)
	$(PY) -m loadtest.bench_cdc $(ARGS)

bench-transforms: $(STAMP) ## Transforms: CPU per event, delays at 1,000 a second, the idle cost, one that never ends (minutes)
	$(PY) -m loadtest.bench_transforms $(ARGS)

bench-lake: $(STAMP) ## Kafka to Delta tables compared with reading and sorting only; compaction; delays to Postgres (minutes)
	$(PY) -m loadtest.bench_lake $(ARGS)
	$(PY) -m loadtest.bench_compaction
	$(PY) -m loadtest.bench_lake_delays

bench-ui: $(STAMP) ## The web UI with 500 types, a million parked events and ten tabs (half an hour)
	$(PY) -m loadtest.bench_ui $(ARGS)

bench-registry: $(STAMP) ## The delay until a change of the registry is in force, and the cost of a large one (half an hour)
	$(PY) -m loadtest.bench_registry $(ARGS)

load: $(STAMP) ## The published seed shapes on three brokers, a minute each, verified (ARGS="--web" to watch)
	$(PY) -m loadtest.run seeds $(ARGS)

load-full: $(STAMP) ## Every shape for ten minutes, verified, with charts (two and a half hours)
	$(PY) -m loadtest.run all --seconds 600 $(ARGS)
	$(PY) -m loadtest.run ramp-to-break --seconds 600 --partitions 1 --slots 1 $(ARGS)
	$(PY) -m loadtest.run ramp-to-break --seconds 600 --gateways 2 $(ARGS)

model: $(STAMP) ## Explore the whole settling model, and what each rule's removal breaks (a quarter of an hour)
	$(PY) tests/model/settling_model.py
	$(PY) tests/model/settling_model.py --all

bundle: $(STAMP) ## The code of writer, transforms and lake as one archive for spark-submit (see docs/production.md)
	@$(PY) -m stack.bundle

format: $(STAMP) ## Apply style and format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

setup: $(STAMP) ## Install the dependencies of the other commands

clean: ## Remove the data and everything installed here (the download cache stays)
	rm -rf .onramp .venv .pytest_cache .mypy_cache .ruff_cache

# Only when the lock changed: a sync takes a moment even when there is nothing to do.
$(STAMP): uv.lock pyproject.toml
	@uv=$$(command -v uv || true); \
	if [ -z "$$uv" ]; then \
	  uv=$(TOOLS)/bin/uv; \
	  if [ ! -x "$$uv" ]; then \
	    echo "Installing uv $(UV_VERSION) into $(TOOLS)"; \
	    $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	      || { echo "Python 3.11 or newer is needed; $(PYTHON) is older. Try: make PYTHON=python3.12 …"; exit 1; }; \
	    $(PYTHON) -m venv $(TOOLS) \
	      || { echo "python3 -m venv does not work: on Debian or Ubuntu install python3-venv"; exit 1; }; \
	    $(TOOLS)/bin/python -m pip install --quiet "uv==$(UV_VERSION)"; \
	  fi; \
	fi; \
	"$$uv" sync --locked --all-extras
	@touch $@
