// Scheduler against a naive transcription of Algorithm 1, over random systems; and its replay.
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "engine/scheduler/fakes.h"

namespace unis {
namespace {

// Algorithm 1 line by line, as printed, with nothing clever.
class PrintedAlgorithm {
 public:
  PrintedAlgorithm(const SchedulerSettings& settings, const std::vector<ScheduledNf>& nfs,
                   CoreIndex cores, const FakeMonitor& monitor)
      : settings_(settings), nfs_(nfs), monitor_(monitor), cores_(cores) {
    for (NfIndex nf = 0; nf < nfs.size(); ++nf) cores_[nfs[nf].core].wq.push_back(nf);
    for (Core& core : cores_) {
      core.cur_vnf = Pop(core);
      core.expiry = TimeSlice(core.cur_vnf);
    }
    monitoring_expiry_ = settings.interval;
  }

  std::vector<SwitchCall> Loop(Nanoseconds now) {
    std::vector<SwitchCall> switches;
    if (now < monitoring_expiry_) return switches;
    for (CoreIndex index = 0; index < cores_.size(); ++index) {
      Core& core = cores_[index];
      const NfIndex f = core.cur_vnf;
      if (now >= core.expiry || NoWork(f)) {
        core.wq.push_back(f);
        NfIndex n = Pop(core);
        while (f != n && NoWork(n)) {
          core.wq.push_back(n);
          n = Pop(core);
        }
        const Nanoseconds time_slice = TimeSlice(n);
        if (f != n) {
          switches.push_back({index, f, n});
          core.cur_vnf = n;
          core.expiry = now + time_slice;
        }
      }
    }
    monitoring_expiry_ = now + settings_.interval;
    return switches;
  }

 private:
  struct Core {
    std::deque<NfIndex> wq;
    NfIndex cur_vnf = 0;
    Nanoseconds expiry = 0;
  };

  static NfIndex Pop(Core& core) {
    const NfIndex nf = core.wq.front();
    core.wq.pop_front();
    return nf;
  }

  bool NoWork(NfIndex nf) const {
    if (!settings_.occupancy) return false;
    const double theta_max =
        settings_.theta_max ? *settings_.theta_max : settings_.gamma * Capacity(nfs_[nf].egress);
    return monitor_.packets[nfs_[nf].ingress] <= settings_.theta_min ||
           monitor_.packets[nfs_[nf].egress] >= theta_max;
  }

  Nanoseconds TimeSlice(NfIndex nf) const {
    return static_cast<Nanoseconds>(nfs_[nf].cost_ns * settings_.gamma * Capacity(nfs_[nf].egress));
  }

  double Capacity(LinkIndex link) const { return monitor_.capacity[link]; }

  SchedulerSettings settings_;
  std::vector<ScheduledNf> nfs_;
  const FakeMonitor& monitor_;
  std::vector<Core> cores_;
  Nanoseconds monitoring_expiry_ = 0;
};

struct RandomSystem {
  SchedulerSettings settings;
  std::vector<ScheduledNf> nfs;
  CoreIndex cores = 1;
  FakeMonitor links;
};

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::uint32_t Between(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(engine_() % (high - low + 1));
  }
  bool OneIn(std::uint32_t n) { return Between(1, n) == 1; }

 private:
  std::mt19937_64 engine_;
};

RandomSystem DrawSystem(Dice& dice) {
  RandomSystem system;
  system.cores = dice.Between(1, 4);
  const std::uint32_t count = system.cores + dice.Between(0, 10);
  for (NfIndex nf = 0; nf < count; ++nf) {
    // The first NFs populate the cores, the others go anywhere; some links are shared as in a
    // chain.
    const CoreIndex core = nf < system.cores ? nf : dice.Between(0, system.cores - 1);
    const LinkIndex ingress = dice.OneIn(3) ? 2 * nf : nf;
    system.nfs.push_back({core, ingress, ingress + 1, dice.Between(1, 400) / 4.0});
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

TEST(SchedulerModelTest, AgreesWithThePrintedAlgorithm) {
  std::uint64_t switches = 0;
  for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
    Dice dice(seed);
    const RandomSystem system = DrawSystem(dice);
    Rig rig(system.settings, system.nfs, system.cores, system.links);
    rig.scheduler.Start();
    PrintedAlgorithm printed(system.settings, system.nfs, system.cores, rig.monitor);
    Nanoseconds now = 0;
    for (int step = 0; step < 500; ++step) {
      now += dice.OneIn(10) ? dice.Between(0, 200'000) : dice.Between(0, 1'500);
      DrawPackets(dice, system.settings, rig.monitor);
      rig.controller.switches.clear();
      rig.TickAt(now);
      ASSERT_EQ(rig.controller.switches, printed.Loop(now)) << "seed " << seed << " step " << step;
      switches += rig.controller.switches.size();
    }
  }
  EXPECT_GT(switches, 100'000u);  // the systems drawn do switch
}

// What monitor and timer were asked and what they answered.
struct Recording {
  std::vector<std::pair<LinkIndex, std::uint32_t>> packets;
  std::vector<std::pair<LinkIndex, std::uint32_t>> capacities;
  std::vector<Nanoseconds> times;
};

struct RecordingMonitor final : InterfaceMonitor {
  RecordingMonitor(const FakeMonitor& source, Recording& tape) : source(source), tape(tape) {}
  std::uint32_t NumPkts(LinkIndex link) const noexcept override {
    return tape.packets.emplace_back(link, source.NumPkts(link)).second;
  }
  std::uint32_t PktCap(LinkIndex link) const noexcept override {
    return tape.capacities.emplace_back(link, source.PktCap(link)).second;
  }
  const FakeMonitor& source;
  Recording& tape;
};

struct ReplayingMonitor final : InterfaceMonitor {
  explicit ReplayingMonitor(const Recording& tape) : tape(tape) {}
  static std::uint32_t Next(const std::vector<std::pair<LinkIndex, std::uint32_t>>& answers,
                            std::size_t& at, LinkIndex link) {
    if (at >= answers.size() || answers[at].first != link) {
      ADD_FAILURE() << "question " << at << " about link " << link << " was not asked before";
      return 0;
    }
    return answers[at++].second;
  }
  std::uint32_t NumPkts(LinkIndex link) const noexcept override {
    return Next(tape.packets, packets_at, link);
  }
  std::uint32_t PktCap(LinkIndex link) const noexcept override {
    return Next(tape.capacities, capacities_at, link);
  }
  const Recording& tape;
  mutable std::size_t packets_at = 0;
  mutable std::size_t capacities_at = 0;
};

struct RecordingTimer final : TimerSubsystem {
  explicit RecordingTimer(Recording& tape) : tape(tape) {}
  Nanoseconds Now() const noexcept override { return tape.times.emplace_back(now); }
  Recording& tape;
  Nanoseconds now = 0;
};

struct ReplayingTimer final : TimerSubsystem {
  explicit ReplayingTimer(const Recording& tape) : tape(tape) {}
  Nanoseconds Now() const noexcept override { return tape.times.at(at++); }
  const Recording& tape;
  mutable std::size_t at = 0;
};

class ReplayTest : public testing::TestWithParam<std::pair<Nanoseconds, Nanoseconds>> {};

TEST_P(ReplayTest, TheSameAnswersGiveTheSameSwitches) {
  constexpr int kTicks = 5'000;
  Dice dice(7);
  RandomSystem system = DrawSystem(dice);
  system.settings.occupancy = true;
  std::tie(system.settings.lead, system.settings.max_wait) = GetParam();

  Recording tape;
  FakeMonitor links = system.links;
  const RecordingMonitor monitor(links, tape);
  RecordingTimer timer(tape);
  FakeController first;
  Scheduler scheduler(system.settings, system.nfs, system.cores, monitor, timer, first);
  scheduler.Start();
  for (int tick = 0; tick < kTicks; ++tick) {
    timer.now += dice.Between(0, 2'000);
    DrawPackets(dice, system.settings, links);
    scheduler.Tick();
  }

  const ReplayingMonitor replayed_monitor(tape);
  const ReplayingTimer replayed_timer(tape);
  FakeController second;
  Scheduler replay(system.settings, system.nfs, system.cores, replayed_monitor, replayed_timer,
                   second);
  replay.Start();
  for (int tick = 0; tick < kTicks; ++tick) replay.Tick();

  EXPECT_GT(first.switches.size(), 100u);
  EXPECT_EQ(first.switches, second.switches);
  EXPECT_EQ(first.starts, second.starts);
  EXPECT_EQ(replayed_monitor.packets_at, tape.packets.size());
  EXPECT_EQ(replayed_timer.at, tape.times.size());
}

INSTANTIATE_TEST_SUITE_P(LeadAndMaxWait, ReplayTest,
                         testing::Values(std::pair(0, 0), std::pair(3'000, 0), std::pair(0, 20'000),
                                         std::pair(3'000, 20'000)));

}  // namespace
}  // namespace unis
