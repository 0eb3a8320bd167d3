# elfstream: `make demo` shows it, `make test` checks it; both set up .venv by themselves and may be run again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# cflags: where .ci/preflight put Python's C headers when the machine has none.
PIP := CFLAGS="$$(cat $(VENV)/cflags 2>/dev/null)" $(BIN)/python -m pip install --quiet --disable-pip-version-check
KERNELS := $(wildcard cython_ext/*.pyx cython_ext/*.pxd cython_ext/*.h)
COMPILED := $(patsubst cython_ext/%.pyx,cython_ext.%,$(wildcard cython_ext/*.pyx))

.PHONY: demo test lint type unit spark bench stress wheel deb man clean help
.DEFAULT_GOAL := help

help:
	@echo "make demo     three webservers write, a fleet of four nodes answers, every number checked (30 s)"
	@echo "make test     lint, types, layout and all tests (Spark's too where Java 17 is)"
	@echo "make lint     ruff          make type    mypy and stubtest"
	@echo "make bench    benchmarks against rivals, in one run"
	@echo "make stress   the slow tests: fuzzing, long properties"
	@echo "make wheel    sdist and wheel in dist/"
	@echo "make deb      a Debian package in dist/, for the Python of this distribution"
	@echo "make man      the manual pages in dist/man/"

$(VENV)/created:
	@mkdir -p $(VENV) && sh .ci/preflight $(PYTHON) $(VENV)
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The kernels are built in place; an editable install makes the checkout importable from anywhere in .venv.
$(VENV)/built: $(VENV)/created pyproject.toml setup.py $(KERNELS)
	@sh .ci/preflight $(PYTHON) $(VENV)
	@echo "elfstream: building the kernels (about a minute the first time)"
	@$(PIP) "cython>=3.1" "setuptools>=77" wheel
	@$(PIP) --no-build-isolation --editable ".[regex]"
	@touch $@

$(VENV)/dev: $(VENV)/built
	@$(PIP) --no-build-isolation --editable ".[regex,dev]"
	@touch $@

$(VENV)/spark: $(VENV)/dev
	@if command -v java >/dev/null 2>&1; then \
		echo "elfstream: installing PySpark (450 MB) for the tests that ask Spark itself"; \
		$(PIP) --no-build-isolation --editable ".[regex,dev,spark]"; touch $@; \
	elif [ "$$ELFSTREAM_REQUIRE_JAVA" = 1 ]; then \
		echo "elfstream: no Java; install it:  sudo apt-get install openjdk-17-jre-headless" >&2; exit 1; \
	else \
		echo "elfstream: no Java, so the tests that ask Spark are skipped; to run them:  sudo apt-get install openjdk-17-jre-headless"; \
	fi

demo: $(VENV)/built
	$(BIN)/elfstream demo

test: lint type unit

lint: $(VENV)/dev
	$(BIN)/ruff check .

type: $(VENV)/dev
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml --ignore-disjoint-bases --allowlist .ci/stubtest-allow $(COMPILED)

unit: $(VENV)/dev $(VENV)/spark
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadscope -m "not stress and not alone"
	$(BIN)/python -m pytest -m "not stress and alone"

bench: $(VENV)/dev
	@$(PIP) --no-build-isolation --editable ".[regex,dev,bench]"
	$(BIN)/python -m bench

stress: $(VENV)/dev
	$(BIN)/python -m pytest -m stress

wheel: $(VENV)/dev
	$(BIN)/python -m build

deb: $(VENV)/built
	@CFLAGS="$$(cat $(VENV)/cflags 2>/dev/null)" sh packaging/build_deb $(CURDIR)/$(BIN)/python

man: $(VENV)/built
	$(BIN)/python packaging/manpages.py dist/man

clean:
	rm -rf $(VENV) build dist *.egg-info cython_ext/*.so
