# UNiS. Every target brings what it needs: packages, hugepages, Python environment, build.
#
#   make build    the engine, the functions, `uv run unis …`
#   make demo     three functions on one core under four schedulers; PCAP=file replays a capture
#   make test     lint, unit tests, the same under sanitizers, end-to-end tests
#   make bench    cost of a decision; simulator against machine
#   make lint     formatting and static checks;  make format  mends the formatting
#   make clean    removes what was built

BUILD ?= build
ASAN_BUILD ?= build-asan
CPP = $(shell git ls-files --cached --others --exclude-standard 'engine/*.cc' 'engine/*.h' 'functions/*.cc' 'functions/*.h')
PROTO = $(wildcard proto/unis/v1/*.proto)
STUBS = unis/v1/engine_pb2.py
SANITIZED = scheduler histogram simulator timer controller platform estimator net_unis functions
SANITIZED_PROGRAMS = engine/scheduler/scheduler_test engine/platform/histogram_test \
  engine/simulator/simulator_test engine/timer/timer_test engine/controller/controller_test \
  engine/platform/platform_test engine/estimator/estimator_test \
  ports/net_unis_test ports/librte_net_unis.so functions/functions_test
UV = UV_PYTHON_PREFERENCE=only-system uv

.PHONY: help build setup test unit sanitize e2e demo bench lint format clean
help:
	@sed -n '3,9s/^# *//p' $(firstword $(MAKEFILE_LIST))

setup:
	@tools/packages
	@tools/hugepages
	@tools/uv

.venv/.stamp: requirements.lock pyproject.toml | setup
	@$(UV) venv -q --allow-existing --python python3 .venv
	@$(UV) pip sync -q --require-hashes requirements.lock
	@$(UV) pip install -q --no-deps --no-build-isolation -e .
	@touch $@

$(STUBS): $(PROTO) .venv/.stamp
	@.venv/bin/python -m grpc_tools.protoc --proto_path=proto --python_out=. --pyi_out=. \
	  --grpc_python_out=. $(PROTO:proto/%=%)
	@touch $@

$(BUILD)/build.ninja: | setup
	@meson setup $(BUILD) >/dev/null || { cat $(BUILD)/meson-logs/meson-log.txt | tail -20; exit 1; }

build: $(STUBS) $(BUILD)/build.ninja
	@ninja -C $(BUILD)

demo: build
	@uv run unis demo $(if $(PCAP),--pcap $(PCAP))

test: lint unit sanitize e2e

unit: build
	meson test -C $(BUILD) --no-rebuild --print-errorlogs

$(ASAN_BUILD)/build.ninja: | setup
	@meson setup $(ASAN_BUILD) -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 >/dev/null

# All unit tests but those that are mostly gRPC, which takes long to compile so.
sanitize: $(ASAN_BUILD)/build.ninja
	@ninja -C $(ASAN_BUILD) $(SANITIZED_PROGRAMS)
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1 \
	  meson test -C $(ASAN_BUILD) --no-rebuild --print-errorlogs --timeout-multiplier 4 $(SANITIZED)

e2e: build
	uv run pytest -q tests

bench: build
	meson test -C $(BUILD) --benchmark --no-rebuild --verbose
	uv run unis bench agreement

lint: $(STUBS)
	clang-format --dry-run -Werror $(CPP)
	uv run ruff check
	uv run ruff format --check
	uv run mypy unis
	for tests in python functions e2e; do uv run mypy tests/$$tests || exit 1; done

format: $(STUBS)
	clang-format -i $(CPP)
	uv run ruff check --fix
	uv run ruff format

clean:
	rm -rf $(BUILD) $(ASAN_BUILD) .venv unis/v1 .mypy_cache .ruff_cache .pytest_cache .hypothesis
