// What is scheduled, as plain data: tasks, each one polling thread with the links of its function.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/scheduler/components.h"

namespace unis {

// A way of packets through a function, for those who build task sets from paths.
struct Path {
  LinkIndex in;
  LinkIndex out;
  FunctionIndex function;  // whose cost a packet has
};

struct Range {
  std::uint32_t begin = 0;
  std::uint32_t size = 0;

  template <typename Value>
  std::span<Value> Of(std::vector<Value>& values) const noexcept {
    return {values.data() + begin, size};
  }
  template <typename Value>
  std::span<const Value> Of(const std::vector<Value>& values) const noexcept {
    return {values.data() + begin, size};
  }
  bool operator==(const Range&) const = default;
};

// A link that a task polls. Bit i of `reaches`: its packets may leave by egress i of the task. A
// function that forwards between two ports both ways has two ingresses that reach one egress each.
struct Ingress {
  LinkIndex link;
  std::uint64_t reaches;
  bool operator==(const Ingress&) const = default;
};
inline constexpr std::uint32_t kMostEgresses = 64;  // of a task

// A poll-mode thread polls all of its ports in turn, so it runs with all of its links or with none.
struct Task {
  CoreIndex core;
  Range ingress;  // in TaskSet::ingresses; at least one
  Range egress;   // in TaskSet::egresses; at least one
  FunctionIndex function;
  bool operator==(const Task&) const = default;
};

// Tasks in the order of the chains: wait queues keep it. Flat, so that a tick never allocates.
// Neighbours with the same first ingress are threads of one function.
struct TaskSet {
  std::vector<Task> tasks;
  std::vector<Ingress> ingresses;
  std::vector<LinkIndex> egresses;
  // Links that tasks take from which are not in this set, but on other cores.
  std::vector<LinkIndex> read_elsewhere;
  bool divides = false;   // the engine splits or merges behind a task
  bool circular = false;  // tasks of other cores, or the engine, may bring packets back to a task
  bool operator==(const TaskSet&) const = default;

  // `threads` tasks of a function, one behind the other. Returns the last one. A function with more
  // egresses than kMostEgresses is std::invalid_argument.
  TaskIndex Add(CoreIndex core, FunctionIndex function, const std::vector<Ingress>& in,
                const std::vector<LinkIndex>& out, std::size_t threads = 1) {
    if (out.size() > kMostEgresses)
      throw std::invalid_argument("a function has more than 64 egress links");
    const Range ingress{static_cast<std::uint32_t>(ingresses.size()),
                        static_cast<std::uint32_t>(in.size())};
    const Range egress{static_cast<std::uint32_t>(egresses.size()),
                       static_cast<std::uint32_t>(out.size())};
    tasks.insert(tasks.end(), threads, {core, ingress, egress, function});
    ingresses.insert(ingresses.end(), in.begin(), in.end());
    egresses.insert(egresses.end(), out.begin(), out.end());
    return static_cast<TaskIndex>(tasks.size() - 1);
  }

  // The same for paths of one function: a link that several paths share is one link of the task.
  TaskIndex Add(CoreIndex core, const std::vector<Path>& paths, std::size_t threads = 1) {
    std::vector<Ingress> in;
    std::vector<LinkIndex> out;
    for (const Path& path : paths) {
      auto egress = std::ranges::find(out, path.out);
      if (egress == out.end()) egress = out.insert(out.end(), path.out);
      auto ingress = std::ranges::find(in, path.in, &Ingress::link);
      if (ingress == in.end()) ingress = in.insert(in.end(), {path.in, 0});
      ingress->reaches |= std::uint64_t{1} << (egress - out.begin());
    }
    return Add(core, paths.empty() ? 0 : paths.front().function, in, out, threads);
  }
};

// Where a cost comes from: the deployment states it, nobody knows it, or the scheduler measured it
// while the function ran.
// Numbered as v1::CostSource is.
enum class CostSource : std::uint8_t { kStated = 1, kAssumed = 2, kFollowed = 3 };

// What a packet costs one function, in ns: written by whoever knows it, the scheduler of its core
// among them, and read at any time, without a lock.
class FunctionCost {
 public:
  explicit FunctionCost(double ns = 0, CostSource source = CostSource::kStated) noexcept
      : ns_(ns), source_(source) {}

  double Ns() const noexcept { return ns_.load(std::memory_order_relaxed); }
  CostSource Source() const noexcept { return source_.load(std::memory_order_relaxed); }
  // Takes effect at the next slice of a task.
  void Set(double ns, CostSource source) noexcept {
    ns_.store(ns, std::memory_order_relaxed);
    source_.store(source, std::memory_order_relaxed);
  }
  // How its threads that poll rings are served best, as LineSearch found it; absent: it has not.
  std::optional<std::size_t> RingWay() const noexcept {
    const std::uint8_t way = ring_way_.load(std::memory_order_relaxed);
    return way == 0 ? std::nullopt : std::optional<std::size_t>(way - 1);
  }
  void SetRingWay(std::size_t way) noexcept {
    ring_way_.store(static_cast<std::uint8_t>(way + 1), std::memory_order_relaxed);
  }

 private:
  static_assert(std::atomic<double>::is_always_lock_free);
  std::atomic<double> ns_;
  std::atomic<CostSource> source_;
  std::atomic<std::uint8_t> ring_way_ = 0;  // 0: none; else one more than it is
};

// Those of the functions of a TaskSet.
class Costs {
 public:
  explicit Costs(std::vector<std::shared_ptr<FunctionCost>> of) : of_(std::move(of)) {}
  explicit Costs(std::size_t functions) {
    for (std::size_t i = 0; i < functions; ++i) of_.push_back(std::make_shared<FunctionCost>());
  }
  explicit Costs(const std::vector<double>& ns) : Costs(ns.size()) {
    for (FunctionIndex function = 0; function < ns.size(); ++function) Set(function, ns[function]);
  }

  double Ns(FunctionIndex function) const noexcept { return of_[function]->Ns(); }
  CostSource Source(FunctionIndex function) const noexcept { return of_[function]->Source(); }
  void Set(FunctionIndex function, double ns, CostSource source = CostSource::kStated) noexcept {
    of_[function]->Set(ns, source);
  }
  std::optional<std::size_t> RingWay(FunctionIndex function) const noexcept {
    return of_[function]->RingWay();
  }
  void SetRingWay(FunctionIndex function, std::size_t way) noexcept {
    of_[function]->SetRingWay(way);
  }
  std::size_t size() const noexcept { return of_.size(); }

 private:
  std::vector<std::shared_ptr<FunctionCost>> of_;
};

}  // namespace unis
