# Everything a person runs here. `make` alone prints the targets. Needs Python 3.11 or later and nothing else.
#
#   make serve ARGS="--port 9000"       hands arguments on
#   make test PYTHON=python3.13         builds the environment (.venv) with another Python

.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
ARGS ?=
# Most tests wait for servers, so there are more workers than cores.
WORKERS ?= $(shell expr 2 '*' `getconf _NPROCESSORS_ONLN`)
# What has a target of its own.
APART := $(addprefix --ignore tests/,browser observability trainers languages image versions)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
# uv takes a third of pip's processor time. Where it can't be had, or does not find what pip is set up to
# find, pip installs.
INSTALL = install() { $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt "$$@" || \
	{ echo "uv could not; pip tries." >&2; $(PIP) install --constraint constraints.txt "$$@"; }; }; install
PAGE := service/bots_service/api/page/files
SWAGGER := service/bots_service/api/swagger
# An environment that holds the packages of `dist` and what they need, and nothing else.
PACKAGES := build/packages
PINS := constraints.txt pyproject.toml client/pyproject.toml

# Images often set it. Python would then compile everything at each start, and the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

# uv has settings of its own: it gets those of pip.
comma := ,
empty :=
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
ifdef PIP_EXTRA_INDEX_URL
export UV_INDEX ?= $(PIP_EXTRA_INDEX_URL)
endif
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS ?= $(subst $(empty) $(empty),$(comma),$(PIP_FIND_LINKS))
endif

.PHONY: help serve demo finetune test coverage test-browser test-observability test-trainers test-languages test-lowest test-image test-versions container-tools dist audit screenshots docs newcomer newcomer-packages soak soak-memory check bench study clean \
	setup toolchains browsers constraints \
	check-format check-lint check-types check-imports check-migrations check-api

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {split($$1, name, ":"); printf "make %-18s %s\n", name[1], $$2}' Makefile

serve: $(VENV)/.run ## Start the service on http://127.0.0.1:8765, with SQLite
	@$(BIN)/bots serve $(ARGS)

demo: $(VENV)/.run ## Replay a real training run, and compare uniform sampling with two beliefs and two strategies
	@$(BIN)/bots demo $(ARGS)

finetune: $(VENV)/.trainers ## Finetune small models by GRPO, once for each way of choosing tasks; ARGS="--plan large --dry-run" tries every part
	@OMP_NUM_THREADS=1 $(BIN)/python -m examples.finetune $(ARGS)

test: $(VENV)/.dev ## Run the tests; ARGS="-k name" runs some of them
ifeq ($(ARGS),)
	$(BIN)/python -m pytest $(APART) --numprocesses $(WORKERS) --dist worksteal
else
	$(BIN)/python -m pytest $(APART) $(ARGS)
endif

coverage: $(VENV)/.dev ## Do the plain tests of core and of what can be done reach every branch of these?
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal --cov --cov-report= tests/core tests/usecases
	$(BIN)/python -m coverage report --fail-under=100

# Debian 12 has Prometheus 2.42; PROMETHEUS_SUITE=sid takes Prometheus 3 from Debian's unstable suite.
PROMETHEUS_SUITE ?=
PROMETHEUS := build/prometheus$(addprefix -,$(PROMETHEUS_SUITE))

test-observability: $(VENV)/.dev $(PROMETHEUS)/usr/bin/prometheus ## Run the tests that need a real Prometheus (Debian's)
	TEST_PROMETHEUS=$(PROMETHEUS)/usr/bin $(BIN)/python -m pytest $(if $(ARGS),$(ARGS),tests/observability)

# Unpacked, not installed: that would start one on this machine, and takes root.
$(PROMETHEUS)/usr/bin/prometheus:
	$(PYTHON) -m tests.debian_packages $(addprefix --suite=,$(PROMETHEUS_SUITE)) $(PROMETHEUS) \
		prometheus $(if $(PROMETHEUS_SUITE),promtool)

test-browser: $(VENV)/.dev browsers ## Run the tests of the page in real browsers (Debian's Chromium and Firefox)
	$(BIN)/python -m pytest $(if $(ARGS),$(ARGS),--numprocesses auto --dist loadfile tests/browser)

# One process: their packages take a while to import, and torch uses all cores already.
test-trainers: $(VENV)/.trainers ## Run the tests of the trainers' integrations, against the real packages
	$(BIN)/python -m pytest $(if $(ARGS),$(ARGS),tests/trainers)

test-languages: $(VENV)/.dev toolchains ## Run the trainers in bash, Node and Go at a live service
	$(BIN)/python -m pytest $(if $(ARGS),$(ARGS),tests/languages)

# One process: all of them share one engine, and the containers use what cores there are.
test-image: $(VENV)/.dev container-tools ## Build the image, and run it with PostgreSQL and Redis in containers: minutes
	$(BIN)/python -m pytest -rs $(if $(ARGS),$(ARGS),-s --timeout 1800 tests/image)

# The tests of stores, doctor and faults once more, with Debian 12's servers; then what needs several of them.
VERSIONS_TESTS := tests/storage tests/doctor tests/system/faults tests/system/test_replicas.py \
	tests/versions

test-versions: $(VENV)/.dev build/debian/.unpacked ## Run the tests of stores and faults with PostgreSQL 15 and Redis 7.0, PgBouncer, TLS, failovers: minutes
	TEST_DEBIAN=build/debian $(BIN)/python -m pytest $(if $(ARGS),$(ARGS),$(VERSIONS_TESTS))

# Unpacked, not installed: nothing is started on this machine. The libraries are those that many machines do without.
DEBIAN_SERVERS := postgresql-15 postgresql-client-15 pgbouncer redis-server redis-tools
DEBIAN_LIBRARIES := libatomic1 libc-ares2 libevent-2.1-7 libicu72 libjemalloc2 libldap-2.5-0 liblzf1 libpq5 libsasl2-2 libxml2 \
	libxslt1.1

build/debian/.unpacked:
	$(PYTHON) -m tests.debian_packages build/debian $(DEBIAN_SERVERS) $(DEBIAN_LIBRARIES)
	@touch $@

# Where they can't be had, the tests are skipped and say so.
container-tools:
	@missing=; for pair in buildah:buildah debootstrap:debootstrap iptables:iptables podman:podman runc:runc; do \
		command -v $${pair%%:*} >/dev/null || missing="$$missing $${pair##*:}"; done; [ -z "$$missing" ] || \
		{ echo "Installing$$missing"; apt-get -qq update && apt-get -qq install --yes --no-install-recommends \
			$$missing netavark aardvark-dns >/dev/null; } || \
		echo "Needed, and root to install it: apt-get install$$missing" >&2

toolchains:
	@missing=; for pair in go:golang-go node:nodejs jq:jq curl:curl; do \
		command -v $${pair%%:*} >/dev/null || missing="$$missing $${pair##*:}"; done; [ -z "$$missing" ] || \
		{ echo "Installing$$missing"; apt-get -qq update && apt-get -qq install --yes --no-install-recommends $$missing >/dev/null; } || \
		{ echo "Needed, and root to install it: apt-get install$$missing" >&2; exit 1; }

# Material's notice of its successor is no warning about our pages.
docs: $(VENV)/.dev ## Build the documentation as a site with search, into build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/docs/index.html; to search it, serve it: $(BIN)/python -m http.server --directory build/docs 8001"

newcomer: $(VENV)/.dev ## Run every block of README and tutorial in a fresh clone, as a newcomer would: minutes
	$(BIN)/python -m tests.docs.newcomer $(ARGS)

newcomer-packages: $(PACKAGES)/.installed ## The same with the packages of `make dist` in an empty environment, and not the clone's files
	$(BIN)/python -m tests.docs.newcomer --environment $(PACKAGES)

screenshots: $(VENV)/.dev browsers ## Make the README's pictures of the page, from the real replay
	$(BIN)/python -m tests.browser.screenshots

# They have too many libraries to be unpacked into a folder of ours. Without root the tests take what there is: see open_chromium.
browsers:
	@missing=; for program in chromium-headless-shell firefox-esr; do \
		command -v $$program >/dev/null || missing="$$missing $$program"; done; [ -z "$$missing" ] || \
		{ echo "Installing$$missing"; apt-get -qq update && apt-get -qq install --yes --no-install-recommends $$missing >/dev/null; } || \
		echo "Wanted, and root to install it: apt-get install$$missing" >&2

# The same commit gives the same bytes: the times in the packages are the commit's.
dist: $(VENV)/.dev ## Build wheels and sdists of service and client, reproducibly, into dist
	rm -rf dist
	for source in client .; do SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
		$(BIN)/python -m build --no-isolation --outdir dist $$source || exit 1; done

$(PACKAGES)/.installed: dist
	rm -rf $(PACKAGES) && $(BIN)/python -m venv $(PACKAGES)
	$(PACKAGES)/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl
	rm $(PACKAGES)/lib/*/site-packages/bots_*.dist-info/direct_url.json  # or the bill of materials would name this folder
	@touch $(PACKAGES)/.made $(PACKAGES)/.run $@  # as one of ours, so that make installs nothing else into it

# uv fetches the two tools into a place of its own, for they would bring much that nobody else here needs.
AUDIT_TOOL := $(BIN)/uv tool run --quiet --python $(BIN)/python --from
LICENCES := Apache Software License;Apache-2.0;Apache-2.0 AND BSD-2-Clause;BSD License;BSD-2-Clause;BSD-3-Clause;$\
	BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0;ISC License (ISCL);LGPL-3.0-only;MIT;MIT License;$\
	MIT OR Apache-2.0;Mozilla Public License 2.0 (MPL 2.0);PSF-2.0

audit: $(PACKAGES)/.installed ## Build the packages, list all that they bring as a bill of materials in dist, and check its licences
	$(AUDIT_TOOL) cyclonedx-bom==7.5.0 cyclonedx-py environment --pyproject pyproject.toml --mc-type application \
		--output-reproducible --output-file dist/bots-service.cdx.json $(PACKAGES)/bin/python
	$(AUDIT_TOOL) pip-licenses==5.5.5 pip-licenses --python $(PACKAGES)/bin/python --summary \
		--ignore-packages bots-client bots-service --allow-only '$(LICENCES)'

# A fresh environment each time, so that the tests run with exactly our lower bounds.
LOWEST := build/lowest
LOWEST_TESTS := tests/core tests/storage tests/metrics tests/api tests/client tests/cli/test_cli_service.py

test-lowest: $(VENV)/.dev ## Run the tests of core, stores, API and client with the lowest versions that we allow
	rm -rf $(LOWEST) && $(BIN)/uv venv --quiet --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct --editable client --editable .
	$(BIN)/uv pip freeze --quiet --python $(LOWEST) --exclude-editable >$(LOWEST)/pins.txt
	$(BIN)/uv pip install --quiet --python $(LOWEST) --constraint $(LOWEST)/pins.txt --group test --group servers
	$(LOWEST)/bin/python -m pytest --ignore tests/api/test_schemathesis.py \
		$(if $(ARGS),$(ARGS),--numprocesses $(WORKERS) --dist worksteal $(LOWEST_TESTS))

# Those that only compute run side by side; those that wait for a server, or compare rates, have the machine to themselves.
soak: $(VENV)/.dev $(VENV)/.trainers ## Run the long forms of the tests, for most of an hour: faults, overload, versions
	SOAK=1 $(BIN)/python -m pytest $(if $(ARGS),$(ARGS),--numprocesses auto --dist worksteal tests/core tests/usecases \
		tests/benchmarks tests/deploy tests/demo)
	$(if $(ARGS),,SOAK=1 $(BIN)/python -m pytest tests/system tests/api/test_overload.py tests/trainers/test_ms_swift.py \
		tests/trainers/test_pages.py)
	$(if $(ARGS),,SOAK=1 $(MAKE) test-versions)

soak-memory: $(VENV)/.dev ## Watch a service's memory under a steady load, for 30 minutes
	$(BIN)/python -m benchmarks.soak $(ARGS)

check: check-format check-lint check-types check-imports check-migrations check-api ## Check format, style, types, imports, migrations, the API

bench: $(VENV)/.bench ## Measure speed: select, report, fold, import, replicas, recovery; ARGS="kernels --quick" takes seconds
	$(BIN)/python -m benchmarks $(ARGS)

study: $(VENV)/.bench ## Make all studies of settings, references and methods: half an hour on two cores; ARGS="--quick" takes a minute
	$(BIN)/python -m studies $(ARGS)

clean: ## Remove the environment and all caches; your data stays
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# The parts of `check`. `make -k check` runs them all, whatever fails; `make -j check` runs them side by side.

check-format: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/oxfmt --check $(PAGE) $(SWAGGER) examples/languages

check-lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/vermin --target=3.10- --no-tips --quiet --violations client/bots_client
	$(BIN)/oxlint --deny-warnings $(PAGE) $(SWAGGER)
	$(BIN)/oxlint --deny-warnings --allow no-await-in-loop examples/languages

check-types: $(VENV)/.dev
	$(BIN)/mypy

check-imports: $(VENV)/.dev
	$(BIN)/lint-imports

# Do the migrations make exactly the tables that the code declares? (what `alembic check` asks, on a fresh database)
check-migrations: $(VENV)/.dev
	$(BIN)/python -m tools.check_migrations

# Is the API's document up to date?
check-api: $(VENV)/.dev
	$(BIN)/python -m tools.openapi --check

# The environment, in layers, so that `make serve` fetches only what running needs.
# Each stamp is newer than what it was made from; a failed install leaves none, and the next `make` tries again.

setup: $(VENV)/.run

$(VENV)/.made:
	@$(PYTHON) -c pass 2>/dev/null || { \
		echo "No '$(PYTHON)' that runs here. Install Python 3.11 or later, or name yours: make PYTHON=/path/to/python3"; exit 1; } >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or later is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
			"Name a newer one: make PYTHON=python3.13"; exit 1; } >&2
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "This Python has no 'venv' module." \
			"On Debian and Ubuntu: apt install python3-venv. Or name another: make PYTHON=python3.13"; exit 1; } >&2
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# Installing a dependency group takes pip 25.1; a Python may bring an older one.
$(VENV)/.installers: $(VENV)/.made constraints.txt
	@$(PIP) install --constraint constraints.txt uv 'pip>=25.1' || $(PIP) install 'pip>=25.1'
	@touch $@

$(VENV)/.run: $(VENV)/.installers $(PINS)
	@echo "Installing what the service needs (the first time up to a minute)"
	@$(INSTALL) --editable client --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "Installing what tests and checks need"
	@$(INSTALL) --group dev
	@touch $@

# Waits for .dev where both are being made: two installers in one environment would disturb each other.
$(VENV)/.bench: $(VENV)/.run | $(if $(filter test check%,$(MAKECMDGOALS)),$(VENV)/.dev)
	@echo "Installing what the benchmarks need"
	@$(INSTALL) --group bench
	@touch $@

$(VENV)/.trainers: $(VENV)/.dev
	@echo "Installing the trainers (torch among them: some minutes the first time)"
	@$(INSTALL) --group trainers
	@touch $@

# Pins the newest versions that pyproject.toml allows, tried in an environment of their own; keeps the header.
constraints: $(VENV)/.made
	rm -rf build/constraints && mkdir -p build/constraints
	$(BIN)/python -m venv build/constraints/venv
	build/constraints/venv/bin/python -m pip install --quiet 'pip>=25.1'
	build/constraints/venv/bin/python -m pip install --quiet --editable client --editable . --group dev --group bench --group trainers \
		async-timeout  # which redis wants where Python is older than 3.11.3, as Debian 12's is
	grep '^#' constraints.txt >build/constraints/new
	build/constraints/venv/bin/python -m pip freeze --exclude-editable >build/constraints/all
	grep -E '^[A-Za-z0-9._-]+==[A-Za-z0-9.!]+$$' build/constraints/all >>build/constraints/new
	mv build/constraints/new constraints.txt
	rm -rf build/constraints
