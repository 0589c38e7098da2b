// What a tick costs: ns per core against cores and tasks per core (section 4.4.3: linear in the
// tasks at worst).
#include <benchmark/benchmark.h>

#include <cstdint>

#include "engine/scheduler/fakes_for_test.h"

namespace unis {
namespace {

struct NullController final : ProcessController {
  bool Switch(CoreIndex, TaskIndex, TaskIndex) noexcept override { return true; }
  bool Start(CoreIndex, TaskIndex) noexcept override { return true; }
};

// The tasks of a core yield, and one begins a turn at each look.
struct LineController final : ProcessController, YieldingTasks {
  YieldingTasks* yielding() noexcept override { return this; }
  bool Switch(CoreIndex, TaskIndex, TaskIndex) noexcept override { return true; }
  bool Start(CoreIndex, TaskIndex) noexcept override { return true; }
  bool SupportsYield(TaskIndex) const noexcept override { return true; }
  std::optional<Turn> CurrentTurn(CoreIndex) noexcept override {
    return Turn{.task = next = (next + 1) % tasks, .begun = true};
  }
  void RequestYield(TaskIndex) noexcept override { ++asked; }
  void Grant(TaskIndex, std::uint32_t) noexcept override { ++asked; }
  std::uint64_t TurnsOf(TaskIndex) const noexcept override { return 0; }
  void SetBudget(TaskIndex, std::uint32_t) noexcept override {}
  TaskIndex tasks = 1, next = 0;
  std::uint64_t asked = 0;
};

struct PlainMonitor final : InterfaceMonitor {
  std::vector<std::uint32_t> packets, capacity;  // per link
  std::uint32_t NumPkts(LinkIndex link) const noexcept override { return packets[link]; }
  std::uint32_t PktCap(LinkIndex link) const noexcept override { return capacity[link]; }
};

constexpr std::uint32_t kCapacity = 2048;
constexpr std::uint32_t kPlenty = 1000;

// One chain for each core; tasks without cost have slices of 0, which makes them switch each tick.
class Fixture {
 public:
  Fixture(const benchmark::State& state, double cost_ns, std::uint32_t packets, bool lazy,
          std::uint32_t paths = 1)
      : cores_(static_cast<CoreIndex>(state.range(0))) {
    const auto tasks = static_cast<std::uint32_t>(state.range(1));
    settings_.lazy = lazy;
    const std::uint32_t links = cores_ * (tasks + 1) * paths;
    monitor_.packets.assign(links, packets);
    monitor_.capacity.assign(links, kCapacity);
    for (CoreIndex core = 0; core < cores_; ++core) {
      for (std::uint32_t i = 0; i < tasks; ++i) {
        std::vector<std::pair<LinkIndex, LinkIndex>> of_task;
        for (std::uint32_t path = 0; path < paths; ++path) {
          const LinkIndex ingress = (core * (tasks + 1) + i) * paths + path;
          of_task.emplace_back(ingress, ingress + paths);
        }
        tasks_.Add(core, of_task, cost_ns);
      }
    }
  }

  void Run(benchmark::State& state) { Run(state, controller_, settings_.interval); }
  void RunLine(benchmark::State& state, Nanoseconds look) {
    settings_.online_cost = true;
    line_.tasks = static_cast<TaskIndex>(tasks_.set.tasks.size());
    Run(state, line_, look);
    state.counters["asked/tick"] =
        static_cast<double>(line_.asked) / static_cast<double>(state.iterations());
  }

 private:
  void Run(benchmark::State& state, ProcessController& controller, Nanoseconds step) {
    Costs costs(tasks_.costs);
    CoreSet cores(MakeSchedulers(*TraitsOf(Policy::kUnis), settings_, tasks_.set, cores_, costs,
                                 monitor_, timer_, controller, [](CoreIndex) { return nullptr; }),
                  timer_);
    cores.Start();
    const std::uint64_t before = cores.Sum(&CoreStatistics::switches);
    for (auto _ : state) {
      timer_.now += step;
      cores.Tick();
    }
    const auto ticks = static_cast<double>(state.iterations());
    state.counters["switches/tick"] =
        static_cast<double>(cores.Sum(&CoreStatistics::switches) - before) / ticks;
    state.SetItemsProcessed(state.iterations() * cores_);   // cores ticked
    state.SetComplexityN(state.range(0) * state.range(1));  // tasks
  }

  CoreIndex cores_;
  SchedulerSettings settings_;
  PlainMonitor monitor_;
  FakeTimer timer_;
  NullController controller_;
  LineController line_;
  CostedTasks tasks_;
};

// The usual tick: the running task has work and a slice that does not end.
void BM_TickWithoutSwitch(benchmark::State& state) {
  Fixture(state, 1e9, kPlenty, false).Run(state);
}

// The same of a function that takes 100 ns, looked at when its work may be done.
void BM_LazyTickWithoutSwitch(benchmark::State& state) {
  Fixture(state, 1e9, kPlenty, true).Run(state);
}

void BM_TickThatSwitchesEveryCore(benchmark::State& state) {
  Fixture(state, 0, kPlenty, false).Run(state);
}

// The worst: every task of every core is looked at, and none has work.
void BM_TickThatFindsNoWork(benchmark::State& state) { Fixture(state, 1e9, 0, false).Run(state); }

// A look every 50 µs at tasks that hand the CPU over.
void BM_LookAtALine(benchmark::State& state) {
  Fixture(state, 100, kPlenty, false).RunLine(state, 50'000);
}

// A look every 5 µs, as long as every egress is full, at whom is asked to leave each time.
void BM_WatchOfAFullEgress(benchmark::State& state) {
  Fixture(state, 100, kCapacity, false).RunLine(state, 5'000);
}

void BM_TickOfTwoPathsThatFindsNoWork(benchmark::State& state) {
  Fixture(state, 1e9, 0, false, 2).Run(state);
}

const std::vector<std::vector<std::int64_t>> kSizes = {{1, 2, 4, 8, 16, 32, 64},
                                                       {1, 2, 4, 8, 16, 64}};
const std::vector<std::int64_t> kTasks = {1, 2, 4, 8, 16, 32, 64};

// Constant in the tasks of a core, linear in the cores; what finds no work is linear in both.
BENCHMARK(BM_TickWithoutSwitch)->ArgNames({"cores", "tasks"})->ArgsProduct(kSizes);
BENCHMARK(BM_LazyTickWithoutSwitch)->ArgNames({"cores", "tasks"})->ArgsProduct(kSizes);
BENCHMARK(BM_TickThatSwitchesEveryCore)
    ->ArgNames({"cores", "tasks"})
    ->ArgsProduct({kSizes[0], {2, 4, 8, 16, 64}});
BENCHMARK(BM_TickThatFindsNoWork)
    ->ArgNames({"cores", "tasks"})
    ->ArgsProduct({{1}, kTasks})
    ->Complexity(benchmark::oN);
BENCHMARK(BM_TickThatFindsNoWork)->ArgNames({"cores", "tasks"})->ArgsProduct(kSizes);
BENCHMARK(BM_LookAtALine)->ArgNames({"cores", "tasks"})->ArgsProduct({{1}, kTasks});
BENCHMARK(BM_WatchOfAFullEgress)  // one that is alone is not asked
    ->ArgNames({"cores", "tasks"})
    ->ArgsProduct({{1}, {2, 4, 8, 16, 32, 64}});
BENCHMARK(BM_TickOfTwoPathsThatFindsNoWork)
    ->ArgNames({"cores", "tasks"})
    ->ArgsProduct({{1}, kTasks})
    ->Complexity(benchmark::oN);

}  // namespace
}  // namespace unis

BENCHMARK_MAIN();
