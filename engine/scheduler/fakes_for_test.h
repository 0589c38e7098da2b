// The components of section 4.3 as plain data, for the tests and benchmarks of this folder.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/scheduler/components.h"
#include "engine/scheduler/scheduler.h"

namespace unis {

struct FakeMonitor final : InterfaceMonitor {
  std::vector<std::uint32_t> packets;   // per link
  std::vector<std::uint32_t> capacity;  // per link
  std::uint32_t NumPkts(LinkIndex link) const noexcept override { return packets[link]; }
  std::uint32_t PktCap(LinkIndex link) const noexcept override { return capacity[link]; }
};

struct FakeTimer final : TimerSubsystem {
  Nanoseconds now = 0;
  Nanoseconds Now() const noexcept override { return now; }
};

struct SwitchCall {
  CoreIndex core;
  NfIndex from;
  NfIndex to;
  bool operator==(const SwitchCall&) const = default;
};

struct FakeController final : ProcessController {
  std::vector<SwitchCall> switches;
  std::vector<std::pair<CoreIndex, NfIndex>> starts;
  void Switch(CoreIndex core, NfIndex from, NfIndex to) noexcept override {
    switches.push_back({core, from, to});
  }
  void Start(CoreIndex core, NfIndex first) noexcept override { starts.emplace_back(core, first); }
};

struct FakeObserver final : SwitchObserver {
  std::vector<SwitchRecord> records;
  void OnSwitch(const SwitchRecord& record) noexcept override { records.push_back(record); }
};

// A scheduler with fakes around it, and the hands to move time and packets.
struct Rig {
  Rig(const SchedulerSettings& settings, const std::vector<ScheduledNf>& nfs, CoreIndex cores,
      FakeMonitor links)
      : monitor(std::move(links)),
        scheduler(settings, nfs, cores, monitor, timer, controller, &observer) {}

  Rig(const Rig&) = delete;  // the scheduler refers to its neighbours
  Rig& operator=(const Rig&) = delete;

  void TickAt(Nanoseconds now) {
    timer.now = now;
    scheduler.Tick();
  }

  FakeMonitor monitor;
  FakeTimer timer;
  FakeController controller;
  FakeObserver observer;
  Scheduler scheduler;
};

}  // namespace unis
