# Everything runs in .venv, which .ci/environment.sh makes; nothing outside this folder is touched.
.PHONY: help demo test nightly check lint format types imports quick pytest bench engine stalls zero-impact clean environment environment-dev
.PHONY: docs generated coverage fuzz faults slurm-versions latency race lowest constraints wheels sbom
.NOTPARALLEL:
.DEFAULT_GOAL := help

# Modules of a cluster and other environments set these; they would bring foreign packages into .venv's python.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTEST_ADDOPTS
export PYTHON

RUN := .venv/bin/python
# One test process more than this one may use cores, since many tests wait for a scheduler; four at most. Root's tests have
# another. With two more, tests of Horovod's races failed.
WORKERS = $(shell $(RUN) -c 'import os; n = len(os.sched_getaffinity(0)); print(min(4, n + 1) if n > 1 else 0)')

help:
	@echo "make demo    generate a log, write the report demo/report.html, train an example under a pilot"
	@echo "make test    install the test dependencies (announced, no questions asked), then run all checks and all tests, as CI does"
	@echo "make nightly  what is too long for make test: large frameworks, long stories, faults and fuzzing (after make test)"
	@echo "make check   ruff, mypy, import-linter, and the tests that are not slow: no Slurm, no Horovod, no browser; a few minutes"
	@echo "make engine  compile the engine of replays (needs a C++20 compiler)"
	@echo "make bench   run every benchmark in tests/bench (that of forecasts alone takes hours)"
	@echo "make training  train the examples under random rescales and kills, and at constant sizes (after make test; an hour)"
	@echo "make stalls  measure the cost of a rescale with real Horovod, torchrun and torchft trainers (after make test)"
	@echo "make zero-impact   measure the start delay of main-queue jobs on a real 8-node Slurm (two hours; RUNS=3 for less)"
	@echo "make latency measure the time from an idle node to the first training step there, on a real 8-node Slurm (20 minutes)"
	@echo "make race    the same trials as plain preemptible jobs and under a pilot, on a real 8-node Slurm (an hour; RACE_RUNS=1 for less)"
	@echo "make slurm-versions   run every test on a real Slurm on each version that there is (after make test; VERSIONS=sid for one)"
	@echo "make docs      build the documentation site into build/site; a broken link is an error"
	@echo "make generated write the man pages and shell completion files; run it after changing the command line"
	@echo "make coverage  run pytest with branch coverage, report in build/coverage (TESTS=tests/core for a part)"
	@echo "make fuzz      mutate samples of every reader of files and scheduler output for a minute (SECONDS=3600 for an hour)"
	@echo "make faults    ten thousand random faults on a pilot over a cluster in memory (FAULTS=200 for less, SEED=2 for others)"
	@echo "make lowest    the fast tests with the lowest version of every dependency, in .venv-lowest"
	@echo "make constraints  write the versions in .venv to .ci/constraints.txt, after a run of make test"
	@echo "make wheels    build the wheels of the last commit twice, compare them byte by byte, and put them into dist"
	@echo "make sbom      install those wheels into an environment of their own and list its components (CycloneDX) in dist"
	@echo "make clean   remove everything that make created, including .venv, but not .cache (the Horovod wheel, Slurm's versions)"
	@echo "make PYTHON=/path/to/python3.12 ...   use that interpreter (3.11 or newer) for .venv"

demo: export PATH := $(CURDIR)/.venv/bin:$(PATH)
demo: environment
	@rm -rf demo
	@bftrainer replay generate --nodes 1024 --days 7 --seed 1 --out demo/log.csv.gz
	@bftrainer replay report demo/log.csv.gz --machine-nodes 1024 --out demo
	@bftrainer init --holder trace --state demo/pilot
	@$(RUN) .ci/demo.py demo

test:
	@echo "make test: pip installs bftrainer and its test tools into .venv only (about 110 packages, 800 MB, and torch)."
	@echo "make test: a run takes 25 minutes on 2 quiet cores; the first one also builds Horovod once (3 to 9)."
	@[ "$$(id -u)" -ne 0 ] || echo "make test: tests run as the user bftrainer-tests (useradd makes it), those that need root as root."
	@sh .ci/system-packages.sh plan
	@sh .ci/horovod.sh plan
	@sh .ci/slurm-versions.sh plan
	@sh .ci/system-packages.sh install
	@sh .ci/environment.sh dev
	@sh .ci/horovod.sh install
	@sh .ci/slurm-versions.sh install
	@status=0; $(MAKE) --no-print-directory --keep-going lint format types imports pytest || status=$$?; \
		sh .ci/system-packages.sh left-out && sh .ci/horovod.sh left-out && exit $$status

check: lint format types imports quick

lint: environment-dev
	$(RUN) -m ruff check

format: environment-dev
	$(RUN) -m ruff format --check

types: environment-dev
	$(RUN) -m mypy

imports: environment-dev
	.venv/bin/lint-imports --no-logo

quick: environment-dev
	$(RUN) -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

pytest: environment-dev
	$(RUN) -m pytest -n $(WORKERS) --dist worksteal -m "not nightly"

# Each part runs, whatever the part before it showed.
nightly: environment-dev
	@status=0; $(RUN) -m pytest -n $(WORKERS) --dist worksteal -m nightly || status=1; \
		$(MAKE) --no-print-directory fuzz SECONDS=600 || status=1; \
		$(MAKE) --no-print-directory faults || status=1; exit $$status

bench: environment-dev
	@status=0; for script in tests/bench/[!_]*.py; do \
		echo "== $$script"; $(RUN) "$$script" || status=1; \
	done; exit $$status

engine: environment-dev
	$(RUN) packaging/engine.py

stalls: environment-dev
	@sh .ci/horovod.sh install
	$(RUN) tests/horovod/stalls.py
	$(RUN) tests/torchrun/stalls.py --repeat 1
	$(RUN) tests/torchft/stalls.py

training: environment-dev
	@sh .ci/horovod.sh install
	$(RUN) tests/support/training_schedules.py

RUNS = 20
zero-impact: environment-dev
	$(RUN) tests/slurm/zero_impact.py --runs $(RUNS)

LATENCY_RUNS = 10
latency: environment-dev
	@sh .ci/horovod.sh install
	$(RUN) tests/slurm/latency.py --runs $(LATENCY_RUNS)

RACE_RUNS = 3
race: environment-dev
	$(RUN) tests/slurm/race.py --runs $(RACE_RUNS)

# A file of tests that has passed on a version is not run again: delete build/slurm-versions to start over.
VERSIONS = installed trixie sid
slurm-versions: environment-dev
	@sh .ci/slurm-versions.sh install
	@status=0; for version in $(VERSIONS); do for file in tests/slurm/test_*.py tests/contract/test_*.py; do \
		report=build/slurm-versions/$$version/$$(basename $$file .py).xml; \
		ls $$report >/dev/null 2>&1 && ! grep -L 'errors="0" failures="0"' $${report%xml}*xml | grep -q . && continue; \
		echo "== Slurm: $$version, $$file"; \
		$(RUN) -m pytest -n $(WORKERS) --dist worksteal --slurm $$version --junitxml $$report $$file || status=1; \
	done; done; $(RUN) tests/support/slurm_table.py build/slurm-versions/*/*.xml; exit $$status

docs: environment-dev
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	@echo "wrote build/site/index.html; the search needs a web server: python3 -m http.server -d build/site"

generated: environment-dev
	$(RUN) packaging/generate.py

SECONDS = 60
SEED = 0
fuzz: environment-dev
	$(RUN) tests/fuzz/runner.py --seconds $(SECONDS) --seed $(SEED)

FAULTS = 10000
faults: environment-dev
	$(RUN) tests/support/random_faults.py --faults $(FAULTS) --seed $(SEED)

TESTS = tests
# Of two users, if root runs it.
coverage: export COVERAGE_FILE = $(CURDIR)/build/coverage-data/.coverage
coverage: environment-dev
	mkdir -p build/coverage-data && chmod 1777 build/coverage-data
	$(RUN) -m coverage erase
	status=0; $(RUN) -m coverage run -m pytest -n $(WORKERS) --dist worksteal $(TESTS) || status=$$?; \
	$(RUN) -m coverage combine --quiet && $(RUN) -m coverage html --quiet --directory build/coverage && \
	$(RUN) -m coverage report && exit $$status

# Tools of tests are new: those of the lowest versions do not know the options in pyproject.toml.
LOWEST = .venv-lowest/bin/python
lowest: environment-dev
	@mkdir -p build && $(RUN) .ci/lowest_versions.py >build/lowest-versions.txt
	$(RUN) -m venv .venv-lowest
	$(LOWEST) -m pip install --quiet --disable-pip-version-check --constraint build/lowest-versions.txt \
		--editable ".[gurobi,metrics,top]" ClusterShell hatchling hypothesis mypy packaging psutil pytest pytest-rerunfailures pytest-xdist pyyaml
	$(LOWEST) -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

constraints: environment-dev
	@mkdir -p build && $(RUN) .ci/constraints.py >build/constraints.txt && cp build/constraints.txt .ci/constraints.txt
	@echo "wrote .ci/constraints.txt"

wheels: environment-dev
	$(RUN) packaging/wheels.py --out dist

# Two environments: the list is of the wheels and what they need, without the tool that writes it.
sbom: environment-dev
	@ls dist/*.whl >/dev/null 2>&1 || { echo "sbom: no wheel in dist; run make wheels first" >&2; exit 2; }
	@rm -rf build/sbom build/sbom-tool
	$(RUN) -m venv --without-pip build/sbom
	$(RUN) -m venv build/sbom-tool
	$(RUN) -m pip --disable-pip-version-check --quiet --python build/sbom/bin/python install dist/*.whl
	build/sbom-tool/bin/python -m pip --disable-pip-version-check --quiet install "cyclonedx-bom>=7"
	build/sbom-tool/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON \
		-o dist/bftrainer.cdx.json build/sbom/bin/python
	@echo "wrote dist/bftrainer.cdx.json"

environment:
	@sh .ci/environment.sh runtime

environment-dev:
	@sh .ci/environment.sh dev

clean:
	rm -rf .venv .venv-lowest demo dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
	find adapters bftrainer replay tests -type d -name __pycache__ -exec rm -rf {} +
