// The components of section 4.3 as plain data, for the tests and benchmarks of this folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/scheduler/components.h"
#include "engine/scheduler/core_set.h"

namespace unis {

struct FakeMonitor final : InterfaceMonitor {
  std::vector<std::uint32_t> packets;   // per link
  std::vector<std::uint32_t> capacity;  // per link
  std::uint32_t NumPkts(LinkIndex link) const noexcept override {
    ++reads;
    return packets[link];
  }
  std::uint32_t PktCap(LinkIndex link) const noexcept override { return capacity[link]; }
  std::uint16_t Sent(LinkIndex link) const noexcept override { return Position(sent, link); }
  bool FillsSlowly(LinkIndex) const noexcept override { return slow; }
  bool slow = false;
  bool CountsLate(LinkIndex) const noexcept override { return late; }
  bool late = false;
  std::uint16_t Received(LinkIndex link) const noexcept override {
    return Position(received, link);
  }
  std::uint16_t Position(const std::vector<std::uint16_t>& of, LinkIndex link) const noexcept {
    ++positions;
    return link < of.size() ? of[link] : std::uint16_t{0};
  }
  bool HasOccupancy(LinkIndex link) const noexcept override {
    return std::find(unknown.begin(), unknown.end(), link) == unknown.end();
  }
  std::vector<LinkIndex> unknown;
  std::vector<std::uint16_t> sent, received;  // per link; none: nothing moves
  mutable std::uint64_t reads = 0;
  mutable std::uint64_t positions = 0;  // read so often
};

struct FakeTimer final : TimerSubsystem {
  Nanoseconds now = 0;
  Nanoseconds Now() const noexcept override { return now; }
};

struct SwitchCall {
  CoreIndex core;
  TaskIndex from;
  TaskIndex to;
  bool operator==(const SwitchCall&) const = default;
};

struct FakeController final : ProcessController, YieldingTasks {
  std::vector<SwitchCall> switches;  // those that were carried out
  std::vector<std::pair<CoreIndex, TaskIndex>> starts;
  std::vector<TaskIndex> dead;  // cannot be switched to
  bool IsDead(TaskIndex task) const {
    return std::find(dead.begin(), dead.end(), task) != dead.end();
  }
  bool Switch(CoreIndex core, TaskIndex from, TaskIndex to) noexcept override {
    if (IsDead(to)) return false;
    switches.push_back({core, from, to});
    return true;
  }
  bool Start(CoreIndex core, TaskIndex first) noexcept override {
    if (IsDead(first)) return false;
    starts.emplace_back(core, first);
    return true;
  }
  bool can_park = false;
  std::vector<TaskIndex> cannot_park;  // though others can
  std::vector<TaskIndex> parked;       // now
  int parks = 0;                       // also those that renew
  int renewed = 0;
  std::vector<TaskIndex> unparked;  // ever, in order
  bool CanPark(TaskIndex task) noexcept override {
    return can_park && std::ranges::find(cannot_park, task) == cannot_park.end();
  }
  void Park(TaskIndex task) noexcept override {
    ++parks;
    if (std::ranges::find(parked, task) != parked.end())
      ++renewed;
    else
      parked.push_back(task);
  }
  void Unpark(TaskIndex task) noexcept override {
    if (std::erase(parked, task) > 0) unparked.push_back(task);
  }

  // Of tasks that yield by themselves.
  bool yields = false;  // there may be some
  YieldingTasks* yielding() noexcept override { return yields ? this : nullptr; }
  std::vector<TaskIndex> in_line;
  std::optional<Turn> turn;  // seen at the next look
  std::vector<TaskIndex> asked;
  std::optional<Turn> CurrentTurn(CoreIndex) noexcept override {
    ++looks;
    return std::exchange(turn, std::nullopt);
  }
  bool in_turn = true;  // some task
  bool AnyInTurn(CoreIndex) noexcept override { return in_turn; }
  bool SupportsYield(TaskIndex task) const noexcept override {
    return std::find(in_line.begin(), in_line.end(), task) != in_line.end();
  }
  bool InTurn(TaskIndex task) const noexcept override {
    return std::ranges::find(in_turns, task) != in_turns.end();
  }
  std::vector<TaskIndex> in_turns;
  // Their programs' other threads, `among_rings`, yield while these are in line.
  std::vector<TaskIndex> poll_rings, among_rings;
  std::vector<std::pair<bool, TaskIndex>> joins;  // in order
  bool PollsRings(TaskIndex task) const noexcept override {
    return std::ranges::find(poll_rings, task) != poll_rings.end();
  }
  void LetRingsJoin(bool join, TaskIndex current) noexcept override {
    joins.emplace_back(join, current);
    for (const TaskIndex task : among_rings) {
      std::erase(in_line, task);
      if (join) in_line.push_back(task);
    }
  }
  TurnTimes LastTurns(TaskIndex task) const noexcept override {
    if (before_turn_times) before_turn_times();
    return task < turn_times.size() ? turn_times[task] : TurnTimes{};
  }
  std::uint64_t TurnClock() const noexcept override { return turn_clock; }
  bool PutInOrder(TaskIndex first) noexcept override {
    put_in_order.push_back(first);
    return true;
  }
  std::vector<TurnTimes> turn_times;        // per task
  std::uint64_t turn_clock = ~0ULL;         // now, on their clock
  std::function<void()> before_turn_times;  // is read, each time
  std::vector<TaskIndex> put_in_order;      // who was first, each time
  void RequestYield(TaskIndex task) noexcept override { asked.push_back(task); }
  void Grant(TaskIndex task, std::uint32_t packets) noexcept override { granted[task] = packets; }
  std::map<TaskIndex, std::uint32_t> granted;
  std::uint64_t TurnsOf(TaskIndex task) const noexcept override {
    return task < turns.size() ? turns[task] : 0;
  }
  std::vector<std::uint64_t> turns;  // per task
  std::uint32_t TakenInTurns(TaskIndex task) const noexcept override {
    return task < taken.size() ? taken[task] : 0;
  }
  std::vector<std::uint32_t> taken;  // per task
  void SetBudget(TaskIndex task, std::uint32_t packets) noexcept override {
    budgets.resize(std::max<std::size_t>(budgets.size(), task + 1));
    budgets[task] = packets;
  }
  std::vector<std::uint32_t> budgets;  // per task; 0: none was set
  int looks = 0;
};

struct FakeObserver final : SwitchObserver {
  std::vector<SwitchRecord> records;
  bool wanted = true;
  bool wants() const noexcept override { return wanted; }
  void OnSwitch(const SwitchRecord& record) noexcept override { records.push_back(record); }
};

// A task of one path: one function between two links.
struct OnePath {
  CoreIndex core;
  LinkIndex in, out;
  double cost_ns;
};

struct CostedTasks {
  CostedTasks() = default;
  CostedTasks(const std::vector<OnePath>& tasks) {
    for (const OnePath& task : tasks) Add(task.core, {{task.in, task.out}}, task.cost_ns);
  }
  void Add(CoreIndex core, const std::vector<std::pair<LinkIndex, LinkIndex>>& paths,
           double cost_ns, std::size_t threads = 1) {
    std::vector<Path> of_function;
    const auto function = static_cast<FunctionIndex>(costs.size());
    for (const auto& [in, out] : paths) of_function.push_back({in, out, function});
    set.Add(core, of_function, threads);
    costs.push_back(cost_ns);
    paths_of.insert(paths_of.end(), threads, paths);
  }
  TaskSet set;
  std::vector<std::vector<std::pair<LinkIndex, LinkIndex>>> paths_of;  // each task
  std::vector<double> costs;
};

}  // namespace unis
