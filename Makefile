# UNiS. Every target brings what it needs: packages, hugepages, Python environment, build.
#
#   make build    the engine, the functions, `uv run unis …`; no tests
#   make demo     three functions on one core under four schedulers; PCAP=file replays a capture
#   make check    lint, and the unit tests in Python that need no build and no root: a minute
#   make test     lint, unit tests, those in C++ under sanitizers, end-to-end tests
#   make test-long  more cases of the end-to-end tests, for which `make test` has no time
#   make test-sriov  chains through emulated network cards (QEMU): what works, never how fast
#   make fuzz   chain file, socket, shared memory; SECONDS=60 of each
#   make bench    cost of a decision; comparisons at their shortest; simulator against machine
#   make lint     formatting and static checks;  make format  mends the formatting
#   make third-party  DPDK programs of others, for tests and benchmarks: build/third-party/bin/
#   make docs     docs/cli/ and the schemas;   make wheel   a Python package, in dist/
#   make deb      a Debian package, in build/; make test-deb installs it in a new Debian, and removes it
#   make image    a container image of that package, by podman; ARCHIVE=file saves it; make test-image runs it
#   make install  into PREFIX (/usr/local), DESTDIR before it: `unis` and all that it starts
#   make clean    removes what was built

BUILD ?= build
ASAN_BUILD ?= build-asan
TSAN_BUILD ?= build-tsan
PREFIX ?= /usr/local
CPP = $(shell git ls-files --cached --others --exclude-standard 'engine/*.cc' 'engine/*.h' 'functions/*.cc' 'functions/*.h' 'models/*.c' 'models/*.cc' 'models/*.h')
PROTO = $(wildcard proto/unis/v1/*.proto)
STUBS = unis/v1/engine_pb2.py
# Tests, as `meson test --list` names them: those of address errors and undefined behaviour. What
# is not among them measures, or needs valgrind, and runs without sanitizers; HEAVY runs with both.
SANITIZED = base cache histogram contract simulator scheduler trace timer monitor controller platform \
  memif_region probed_port estimator run server net_unis net_unis_secondary net_mmsg unis_ports unis_ports_offloads passages links functions
# Those with threads of ours alone: neither gRPC nor other processes on the same memory.
THREAD_SANITIZED = base histogram scheduler trace monitor controller platform memif_region run
# Compute for long. Instrumented they leave out SLOW, which is like what they keep, but longer.
HEAVY = simulator scheduler
SLOW = GraphTest.*:RandomGraphTest.OnOneCore*:OnlineCostTest.*:LazyTest.DecidesAs*:RandomScenarioTest.ACore*:RandomScenarioTest.RunsOf*:\
  Chains/JumpTest.*:SimulationTest.Saturated*:SimulationTest.StartingThe*:ServiceCpuTest.EveryPolicy*
SINGLE_THREADED = SchedulerModelTest.*:PathsTest.*:ReplayTest.*:CrewPropertyTest.*
# Has no second thread, or waits for seconds, or asks how fast packets pass.
NOT_THREAD_SANITIZED = ArrivalScheduleTest.*:ClassifierTest.*:ReadCaptureTest.*:MakeFramesTest.*:DueTest.*:\
  PacketMemoryTest.SaysWhatIsMissing:TrafficSourceTest.KeepsToItsRate:TrafficSourceTest.AShortListKeepsToItsRateToo:\
  $(SLOW):$(SINGLE_THREADED):RunPollersTest.*:RunRestTest.*:RunOneWithoutPluginTest.*:RunWithPluginTest.*:\
  RunCostsTest.AnEstimate*:RunCostsTest.Estimates*:RunCostsTest.Chains*:RunCostsTest.ACost*
# Clang instruments in half of GCC's time, and warns of other things. libstdc++ 12 calls by itself
# what it says is deprecated. Gold links in a third of the time.
SANITIZING = CC='ccache clang-19' CXX='ccache clang++-19' CC_LD=gold CXX_LD=gold
# instrumented SANITIZER, FLAGS
instrumented = -Db_sanitize=$(1) -Db_lundef=false -Dunity_size=24 -Doptimization=0 "-Dc_args=$(2)" \
  "-Dcpp_args=$(2) -Wno-deprecated-declarations"
# DPDK's rings and locks by C11 atomics, which the thread sanitizer knows, instead of assembler.
C11_DPDK = -DRTE_USE_C11_MEM_MODEL -DRTE_FORCE_INTRINSICS
UV = UV_PYTHON_PREFERENCE=only-system uv
# The first python3 of root's PATH may be one that other users cannot read, as below /root/.pyenv.
PYTHON ?= $(shell /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  && echo /usr/bin/python3 || echo python3)
# What one clone or build folder has compiled, another need not.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
# pytest would compile each file of tests again in each worker: 6 s.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help build bytecode packages setup check check-python test plain compile-sanitized asan-build tsan-build python unsanitized sanitize tsan e2e test-sriov demo bench fuzz test-long lint format docs wheel install deb test-deb image test-image third-party clean
help:
	@sed -n '3,18s/^# *//p' $(firstword $(MAKEFILE_LIST))

# What has been installed once needs no root again.
packages:
	@tools/packages
	@tools/uv

setup: packages
	@tools/driver-sdk
	@tools/hugepages

.venv/.stamp: requirements.lock pyproject.toml | packages
	@$(UV) venv -q --allow-existing --python $(PYTHON) .venv
	@$(UV) pip sync -q --require-hashes --compile-bytecode requirements.lock
	@$(UV) pip install -q --no-deps --no-build-isolation -e .
	@touch $@

$(STUBS): $(PROTO) .venv/.stamp
	@.venv/bin/python hatch_build.py
	@touch $@

configure = meson setup $(1) >/dev/null || { tail -20 $(firstword $(1))/meson-logs/meson-log.txt; exit 1; }

$(BUILD)/build.ninja: | setup
	@$(call configure,$(BUILD))

# sanitized BUILD, OPTIONS: configured, and afresh where the options have changed.
sanitized = [ "$$(cat $(1)/options 2>/dev/null)" = '$(2)' ] || \
  { rm -rf $(1); export $(SANITIZING); $(call configure,$(1) $(2)); echo '$(2)' >$(1)/options; }

asan-build: | setup
	@$(call sanitized,$(ASAN_BUILD),$(call instrumented,address$(comma)undefined))

tsan-build: | setup
	@$(call sanitized,$(TSAN_BUILD),$(call instrumented,thread,$(C11_DPDK)))

comma := ,

build: $(STUBS) bytecode $(BUILD)/build.ninja
	@ninja -C $(BUILD) programs

# Where PYTHONDONTWRITEBYTECODE is set, each `unis` would compile for 0.3 s.
bytecode: $(STUBS)
	@.venv/bin/python -m compileall -q unis evaluation || true

demo: build
	@uv run unis demo $(if $(PCAP),--pcap $(PCAP))

# Unlike `make test`, with few examples of each property and without what computes for seconds.
check: $(STUBS)
	@$(MAKE) --no-print-directory -j2 -Otarget lint check-python

check-python: $(STUBS)
	.venv/bin/python -m pytest -n 2 -m 'not system and not slow and not benchmark' --hypothesis-profile=check tests/python

# First what the rest needs. Then the tests that wait now and then, while compilers take what is left
# of the CPUs. At last what needs the machine to itself.
test:
	@$(MAKE) --no-print-directory -j2 lint plain
	@$(MAKE) --no-print-directory -j2 python compile-sanitized
	@$(MAKE) --no-print-directory unsanitized sanitize tsan e2e

# What is tested without sanitizers, and the benchmarks, which compile at least.
plain: $(STUBS) bytecode $(BUILD)/build.ninja
	@ninja -C $(BUILD) programs meson-benchmark-prereq $(call programs_of,$(BUILD),$(UNSANITIZED))

# An error is told by `sanitize` and `tsan`, not amid the output of the tests.
compile-sanitized: asan-build tsan-build
	-@nice -n 19 ninja -k 0 -C $(ASAN_BUILD) $(call programs_of,$(ASAN_BUILD),$(SANITIZED)) >/dev/null
	-@nice -n 19 ninja -k 0 -C $(TSAN_BUILD) $(call programs_of,$(TSAN_BUILD),$(THREAD_SANITIZED)) >/dev/null

# programs_of BUILD, TESTS: what these tests need, as ninja calls it.
programs_of = $$(tools/meson_tests programs $(1) $(2))

# All but those that run under sanitizers.
UNSANITIZED = --but $(filter-out $(HEAVY),$(SANITIZED))
unsanitized: plain
	meson test -C $(BUILD) --no-rebuild --print-errorlogs $$(tools/meson_tests names $(BUILD) $(UNSANITIZED))

sanitize: asan-build
	@ninja -C $(ASAN_BUILD) $(call programs_of,$(ASAN_BUILD),$(SANITIZED))
	$(ASAN_TEST) $(filter-out $(HEAVY),$(SANITIZED))
	GTEST_FILTER=-$(subst $() ,,$(SLOW)) $(ASAN_TEST) $(HEAVY)
# Clang's own comes with packages that nothing else needs.
SYMBOLIZER = external_symbolizer_path=$(shell command -v addr2line)
ASAN_TEST = UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:$(SYMBOLIZER) ASAN_OPTIONS=detect_leaks=1:$(SYMBOLIZER) \
  meson test -C $(ASAN_BUILD) --no-rebuild --print-errorlogs --timeout-multiplier 4

# Children of a process with threads start threads of their own (die_after_fork).
tsan: tsan-build
	@ninja -C $(TSAN_BUILD) $(call programs_of,$(TSAN_BUILD),$(THREAD_SANITIZED))
	TSAN_OPTIONS=halt_on_error=1:history_size=7:die_after_fork=0:suppressions=$(CURDIR)/tools/tsan.supp:$(SYMBOLIZER) \
	  GTEST_FILTER=-$(subst $() ,,$(NOT_THREAD_SANITIZED)) \
	  meson test -C $(TSAN_BUILD) --no-rebuild --print-errorlogs --timeout-multiplier 8 $(THREAD_SANITIZED)

# One by one what spins on CPU 1 at real-time priority: it would stand still beside another, and
# stop others.
SPINNING = tests/python/test_clean_up.py tests/python/test_guard.py tests/python/test_held.py tests/fuzz/test_fuzz_socket.py tests/e2e
python: build
	@tools/third-party testpmd examples prometheus
	uv run pytest -n 2 --dist loadfile --durations=15 tests $(addprefix --ignore=,$(SPINNING))

e2e: build
	@tools/third-party testpmd examples openvswitch prometheus chromium
	uv run pytest --durations=25 $(SPINNING)

# What CI has no time for: more cases of the same, and more of what measures.
test-long: build
	@tools/third-party testpmd examples openvswitch prometheus
	uv run pytest -m long --durations=10 tests/e2e

# One test alone: WORDS='-k switch'.
test-sriov: build
	@tools/third-party testpmd openvswitch machine
	uv run python -m tests.machine $(WORDS)

SECONDS ?= 60
fuzz: export UNIS_FUZZ_SECONDS = $(SECONDS)
fuzz: build asan-build
	@ninja -C $(ASAN_BUILD) engine/platform/memif_region_test engine/run/run_test
	$(ASAN_BUILD)/engine/platform/memif_region_test --gtest_filter='Hostile*'
	$(ASAN_BUILD)/engine/run/run_test --gtest_filter='*WhatAPortTells*'
	uv run pytest -o timeout=0 tests/fuzz

bench: build
	@ninja -C $(BUILD)
	meson test -C $(BUILD) --benchmark --no-rebuild --verbose
	CI=true uv run pytest -m benchmark tests
	uv run python -m evaluation agreement

lint: $(STUBS)
	clang-format --dry-run -Werror $(CPP)
	uv run ruff check
	uv run ruff format --check
	uv run mypy unis evaluation tests

format: $(STUBS)
	clang-format -i $(CPP)
	uv run ruff check --fix
	uv run ruff format

docs: $(STUBS)
	@uv run python -m tools.cli_pages docs/cli
	@uv run python -m tools.schemas docs
	@uv run python -m tools.counter_pages docs
	@uv run python -m tools.dashboard docs
	@uv run python -m tools.podman_unit packaging/image/unis@.container > $(BUILD)/unit && mv $(BUILD)/unit packaging/image/unis@.service
	@uv run unis schema > $(BUILD)/schema && mv $(BUILD)/schema docs/chain-file.schema.json

wheel: $(STUBS)
	@uv build --wheel --clear --no-build-isolation --python .venv -q
	@ls dist/*.whl

# The packages have the versions and hashes of requirements.lock. Relocatable: the environment moves
# from DESTDIR to its place.
INSTALLED = $(DESTDIR)$(abspath $(PREFIX))
install: build wheel
	@meson configure $(BUILD) --prefix=$(abspath $(PREFIX))
	@ninja -C $(BUILD) --quiet build.ninja
	@meson install -C $(BUILD) --no-rebuild --quiet --tags runtime
	@$(UV) venv -q --allow-existing --relocatable --python $(PYTHON) $(INSTALLED)/lib/unis
	@$(UV) pip install -q --python $(INSTALLED)/lib/unis --compile-bytecode \
	  --constraints requirements.lock --reinstall-package unis "$$(ls dist/*.whl)[report]"
	@mkdir -p $(INSTALLED)/bin
	@ln -sfn ../lib/unis/bin/unis $(INSTALLED)/bin/unis

# All that the package holds is staged anew.
deb:
	@rm -rf $(BUILD)/deb/staged
	@$(MAKE) --no-print-directory install DESTDIR=$(abspath $(BUILD))/deb/staged PREFIX=/usr
	@tools/deb $(BUILD)/deb/staged $(BUILD)

test-deb: deb
	@tools/deb_check $(BUILD)/deb/debian $(BUILD)/unis_*.deb

# What the package is made of.
PACKAGED = LICENSE Makefile README.md docs engine examples functions hatch_build.py meson.build models \
  packaging/deb ports proto pyproject.toml requirements.lock tools/cli_pages.py tools/deb tools/man_pages.py unis
# newest_deb: the package that is there, unless something of it has changed since.
newest_deb = $$(deb=$$(ls -t $(BUILD)/unis_*.deb 2>/dev/null | head -1); [ -z "$$deb" ] || \
  [ -n "$$(find $(PACKAGED) -path unis/v1 -prune -o -type f -not -name '*.pyc' -newer "$$deb" -print -quit)" ] || echo "$$deb")
PODMAN ?= podman
export PODMAN

image:
	@tools/packages podman
	@[ -n "$(newest_deb)" ] || $(MAKE) --no-print-directory deb
	@tools/image "$(newest_deb)" $(BUILD)/image $(ARCHIVE)

test-image: image
	@tools/image_check

third-party: | setup
	@tools/third-party

clean:
	rm -rf $(BUILD) $(ASAN_BUILD) $(TSAN_BUILD) dist .venv unis/v1 .mypy_cache .ruff_cache .pytest_cache .hypothesis
