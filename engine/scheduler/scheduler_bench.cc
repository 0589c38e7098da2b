// What a decision costs: ns per Tick() against cores and NFs per core (section 4.4.3: linear in the
// NFs at worst).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "engine/scheduler/fakes.h"
#include "engine/scheduler/scheduler.h"

namespace unis {
namespace {

struct NullController final : ProcessController {
  void Switch(CoreIndex, NfIndex, NfIndex) noexcept override {}
  void Start(CoreIndex, NfIndex) noexcept override {}
};

constexpr std::uint32_t kCapacity = 2048;
constexpr std::uint32_t kPlenty = 1000;

// One chain for each core; NFs without cost have slices of 0, which makes them switch each tick.
class Fixture {
 public:
  Fixture(const benchmark::State& state, double cost_ns, std::uint32_t packets)
      : cores_(static_cast<CoreIndex>(state.range(0))),
        nfs_per_core_(static_cast<std::uint32_t>(state.range(1))) {
    const std::uint32_t links = cores_ * (nfs_per_core_ + 1);
    monitor_.packets.assign(links, packets);
    monitor_.capacity.assign(links, kCapacity);
    for (CoreIndex core = 0; core < cores_; ++core) {
      for (std::uint32_t i = 0; i < nfs_per_core_; ++i) {
        const LinkIndex ingress = core * (nfs_per_core_ + 1) + i;
        nfs_.push_back({core, ingress, ingress + 1, cost_ns});
      }
    }
  }

  void Run(benchmark::State& state) {
    Scheduler scheduler(SchedulerSettings{}, nfs_, cores_, monitor_, timer_, controller_);
    scheduler.Start();
    const std::uint64_t before = Switches(scheduler);
    for (auto _ : state) {
      timer_.now += scheduler.settings().interval;
      scheduler.Tick();
    }
    const auto ticks = static_cast<double>(state.iterations());
    state.counters["switches/tick"] = static_cast<double>(Switches(scheduler) - before) / ticks;
    state.SetItemsProcessed(state.iterations() * cores_);  // cores decided
  }

 private:
  std::uint64_t Switches(const Scheduler& scheduler) const {
    std::uint64_t sum = 0;
    for (CoreIndex core = 0; core < cores_; ++core) sum += scheduler.Switches(core);
    return sum;
  }

  CoreIndex cores_;
  std::uint32_t nfs_per_core_;
  FakeMonitor monitor_;
  FakeTimer timer_;
  NullController controller_;
  std::vector<ScheduledNf> nfs_;
};

// The usual tick: the running NF has work and a slice that does not end.
void BM_TickWithoutSwitch(benchmark::State& state) { Fixture(state, 1e9, kPlenty).Run(state); }

void BM_TickThatSwitchesEveryCore(benchmark::State& state) {
  Fixture(state, 0, kPlenty).Run(state);
}

// The worst: every NF of every core is looked at, and none has work.
void BM_TickThatFindsNoWork(benchmark::State& state) { Fixture(state, 1e9, 0).Run(state); }

const std::vector<std::vector<std::int64_t>> kSizes = {{1, 2, 4, 8, 16, 32, 64}, {1, 2, 4, 8, 16}};

BENCHMARK(BM_TickWithoutSwitch)->ArgNames({"cores", "nfs"})->ArgsProduct(kSizes);
BENCHMARK(BM_TickThatSwitchesEveryCore)
    ->ArgNames({"cores", "nfs"})
    ->ArgsProduct({kSizes[0], {2, 4, 8, 16}});
BENCHMARK(BM_TickThatFindsNoWork)->ArgNames({"cores", "nfs"})->ArgsProduct(kSizes);

}  // namespace
}  // namespace unis

BENCHMARK_MAIN();
