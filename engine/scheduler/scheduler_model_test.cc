// Schedulers of tasks with one path against a naive transcription of Algorithm 1, over random
// systems; and every scheduler against itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numeric>
#include <vector>

#include "engine/base/dice_for_test.h"
#include "engine/scheduler/rig_for_test.h"

namespace unis {
namespace {

// Algorithm 1 line by line, as printed, with nothing clever; and what goes beyond the paper, which
// is nothing with lead and max_wait at 0.
class NaiveAlgorithm {
 public:
  NaiveAlgorithm(const SchedulerSettings& settings, const std::vector<OnePath>& tasks,
                 CoreIndex cores, const FakeMonitor& monitor)
      : settings_(settings),
        tasks_(tasks),
        monitor_(monitor),
        cores_(cores),
        idle_at_(tasks.size(), 0) {
    for (TaskIndex task = 0; task < tasks.size(); ++task)
      cores_[tasks[task].core].wq.push_back(task);
    for (Core& core : cores_) {
      core.cur_vnf = Pop(core);
      core.begin = SwitchTime();
      core.expiry = core.begin + TimeSlice(core.cur_vnf);
    }
    monitoring_expiry_ = settings.interval;
  }

  std::vector<SwitchCall> Loop(Nanoseconds now) {
    std::vector<SwitchCall> switches;
    if (now < monitoring_expiry_) return switches;
    for (CoreIndex index = 0; index < cores_.size(); ++index) {
      Core& core = cores_[index];
      if (now < core.begin) continue;
      const TaskIndex f = core.cur_vnf;
      if (now + settings_.latency_compensation >= core.expiry || !WorkIsLeft(f)) {
        core.wq.push_back(f);
        TaskIndex n = Pop(core);
        while (f != n && !IsCandidate(n, now)) {
          core.wq.push_back(n);
          n = Pop(core);
        }
        const Nanoseconds time_slice = TimeSlice(n);
        if (f != n) {
          switches.push_back({index, f, n});
          idle_at_[f] = now;
          core.cur_vnf = n;
          core.begin = now + SwitchTime();
          core.expiry = core.begin + time_slice;
        }
      }
    }
    monitoring_expiry_ = now + settings_.interval;
    return switches;
  }

 private:
  struct Core {
    std::deque<TaskIndex> wq;
    TaskIndex cur_vnf = 0;
    Nanoseconds begin = 0;  // of the slice
    Nanoseconds expiry = 0;
  };

  static TaskIndex Pop(Core& core) {
    const TaskIndex task = core.wq.front();
    core.wq.pop_front();
    return task;
  }

  double Ingress(TaskIndex task) const { return monitor_.packets[tasks_[task].in]; }
  double Egress(TaskIndex task) const { return monitor_.packets[tasks_[task].out]; }
  double ThetaMax(TaskIndex task) const {
    return settings_.theta_max ? *settings_.theta_max
                               : settings_.gamma * Capacity(tasks_[task].out);
  }

  // The lead in packets of this task.
  double Lead(TaskIndex task) const {
    return static_cast<double>(settings_.latency_compensation) / tasks_[task].cost_ns;
  }

  bool WorkIsLeft(TaskIndex task) const {
    if (!settings_.occupancy) return true;
    return Ingress(task) - settings_.theta_min > Lead(task) &&
           std::ceil(ThetaMax(task)) - Egress(task) > Lead(task);
  }

  bool IsCandidate(TaskIndex task, Nanoseconds now) {
    if (!settings_.occupancy) return true;
    const double max = std::ceil(ThetaMax(task));
    if (Ingress(task) == 0) idle_at_[task] = now;
    const bool waited = settings_.max_wait > 0 && now - idle_at_[task] >= settings_.max_wait;
    if (Ingress(task) > 0 && waited) return Egress(task) < max;
    const double most = std::min(max, settings_.gamma * Capacity(tasks_[task].in));
    const double lead = std::min(Lead(task), std::max(0.0, (most - settings_.theta_min) / 4));
    return Ingress(task) - settings_.theta_min > lead && max - Egress(task) > lead;
  }

  Nanoseconds TimeSlice(TaskIndex task) const {
    return static_cast<Nanoseconds>(tasks_[task].cost_ns * settings_.gamma *
                                    Capacity(tasks_[task].out));
  }

  Nanoseconds SwitchTime() const {
    return settings_.switch_latency.value_or(settings_.latency_compensation);
  }
  double Capacity(LinkIndex link) const { return monitor_.capacity[link]; }

  SchedulerSettings settings_;
  std::vector<OnePath> tasks_;
  const FakeMonitor& monitor_;
  std::vector<Core> cores_;
  std::vector<Nanoseconds> idle_at_;  // when a task last ran or was seen without packets
  Nanoseconds monitoring_expiry_ = 0;
};

struct RandomSystem {
  SchedulerSettings settings;
  std::vector<OnePath> tasks;
  CoreIndex cores = 1;
  FakeMonitor links;
};

RandomSystem DrawSystem(Dice& dice) {
  RandomSystem system;
  system.cores = dice.Between(1, 4);
  const std::uint32_t count = system.cores + dice.Between(0, 10);
  for (TaskIndex task = 0; task < count; ++task) {
    // The first tasks populate the cores, the others go anywhere; some links are shared as in a
    // chain.
    const CoreIndex core = task < system.cores ? task : dice.Between(0, system.cores - 1);
    const LinkIndex ingress = dice.OneIn(3) ? 2 * task : task;
    // Exact in binary: a power of two of ns, at times a fraction.
    system.tasks.push_back({core, ingress, ingress + 1, (1u << dice.Between(0, 9)) / 4.0});
  }
  for (LinkIndex link = 0; link < 2 * count + 2; ++link) {
    system.links.capacity.push_back(64u << dice.Between(0, 5));
    system.links.packets.push_back(0);
  }
  system.settings.gamma = dice.Between(1, 4) / 4.0;  // exact: capacities are powers of two
  system.settings.theta_min = dice.Between(0, 60);
  if (dice.OneIn(2)) system.settings.theta_max = dice.Between(1, 1500);
  system.settings.interval = dice.Between(1, 2'000);
  system.settings.occupancy = !dice.OneIn(5);
  return system;
}

// Mostly at and around the thresholds, where mistakes live.
void DrawPackets(Dice& dice, const SchedulerSettings& settings, FakeMonitor& links) {
  for (LinkIndex link = 0; link < links.packets.size(); ++link) {
    if (dice.OneIn(2)) continue;
    const std::uint32_t capacity = links.capacity[link];
    const auto by_gamma = static_cast<std::uint32_t>(settings.gamma * capacity);
    const std::uint32_t around[] = {settings.theta_min, settings.theta_max.value_or(by_gamma),
                                    dice.Between(0, capacity), 0, capacity};
    const std::uint32_t value = around[dice.Between(0, 4)] + dice.Between(0, 2);
    links.packets[link] = value > 0 ? value - 1 : 0;
  }
}

// As they were recorded; a start is no switch.
void ExpectCountedByReason(Rig& rig, CoreIndex core) {
  std::array<std::uint64_t, kSwitchReasons> reasons = {};
  for (const SwitchRecord& record : rig.observer.records) {
    if (record.core == core && record.reason != SwitchReason::kStart)
      ++reasons[static_cast<std::size_t>(record.reason)];
  }
  const CoreStatistics counted = rig.cores[core].statistics();
  EXPECT_EQ(counted.reasons, reasons);
  EXPECT_EQ(counted.switches, std::reduce(reasons.begin(), reasons.end()));
}

std::uint64_t SwitchesOfRandomSystems(void (*beyond_the_paper)(Dice&, SchedulerSettings&)) {
  std::uint64_t switches = 0;
  for (std::uint64_t seed = 1; seed <= Cases(1'000); ++seed) {
    Dice dice(seed);
    RandomSystem system = DrawSystem(dice);
    beyond_the_paper(dice, system.settings);
    Rig rig(system.settings, system.tasks, system.cores, system.links);
    rig.cores.Start();
    NaiveAlgorithm naive(system.settings, system.tasks, system.cores, rig.monitor);
    Nanoseconds now = 0;
    for (int step = 0; step < 500; ++step) {
      now += dice.OneIn(10) ? dice.Between(0, 200'000) : dice.Between(0, 1'500);
      DrawPackets(dice, system.settings, rig.monitor);
      rig.controller.switches.clear();
      rig.TickAt(now);
      const auto expected = naive.Loop(now);
      EXPECT_EQ(rig.controller.switches, expected) << "seed " << seed << " step " << step;
      if (rig.controller.switches != expected) return 0;
      switches += expected.size();
    }
    for (CoreIndex core = 0; core < system.cores; ++core) ExpectCountedByReason(rig, core);
  }
  return switches;
}

TEST(SchedulerModelTest, AgreesWithThePrintedAlgorithm) {
  EXPECT_GT(SwitchesOfRandomSystems([](Dice&, SchedulerSettings&) {}), Cases(100'000));
}

TEST(SchedulerModelTest, AgreesOnTheLead) {
  const auto lead = [](Dice& dice, SchedulerSettings& settings) {
    settings.latency_compensation = dice.Between(0, 20'000);
  };
  EXPECT_GT(SwitchesOfRandomSystems(lead), Cases(50'000));
}

TEST(SchedulerModelTest, AgreesOnTheTimeThatASwitchTakes) {
  const auto switch_time = [](Dice& dice, SchedulerSettings& settings) {
    if (dice.OneIn(2)) settings.latency_compensation = dice.Between(0, 5'000);
    settings.switch_latency = dice.Between(0, 20'000);
  };
  EXPECT_GT(SwitchesOfRandomSystems(switch_time), Cases(50'000));
}

TEST(SchedulerModelTest, AgreesOnTheLongestWait) {
  const auto max_wait = [](Dice& dice, SchedulerSettings& settings) {
    if (dice.OneIn(2)) settings.latency_compensation = dice.Between(0, 5'000);
    settings.max_wait = dice.Between(1, 50'000);
  };
  EXPECT_GT(SwitchesOfRandomSystems(max_wait), Cases(100'000));
}

// What the scheduler decides is a function of what monitor, timer and controller answer.
TEST(ReplayTest, TheSameAnswersGiveTheSameSwitches) {
  const auto switches = [](std::uint64_t seed) {
    Dice dice(seed);
    RandomSystem system = DrawSystem(dice);
    system.settings.latency_compensation = dice.OneIn(2) ? 0 : 3'000;
    system.settings.max_wait = dice.OneIn(2) ? 0 : 20'000;
    system.settings.lazy = dice.OneIn(2);
    system.settings.online_cost = dice.OneIn(2);
    Rig rig(system.settings, system.tasks, system.cores, system.links, dice.OneIn(2));
    for (TaskIndex task = 0; task < system.tasks.size(); ++task)
      if (dice.OneIn(2)) rig.controller.in_line.push_back(task);
    rig.cores.Start();
    for (int tick = 0; tick < 400; ++tick) {
      DrawPackets(dice, system.settings, rig.monitor);
      if (dice.OneIn(3))
        rig.controller.turn = {
            .task = dice.Between(0, static_cast<std::uint32_t>(system.tasks.size() - 1)),
            .begun = dice.OneIn(2)};
      rig.TickAt(rig.timer.now + dice.Between(0, 2'000));
    }
    return rig.observer.records;
  };
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto once = switches(seed);
    EXPECT_GT(once.size(), 0u);
    EXPECT_EQ(once, switches(seed)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace unis
