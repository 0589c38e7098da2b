// What is scheduled: tasks, each one polling thread with the paths that its function serves, as
// plain data.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/scheduler/components.h"

namespace unis {

// A way through a function: it polls `in` and puts what it passes on into `out`.
struct Path {
  LinkIndex in;
  LinkIndex out;
  FunctionIndex function;  // whose cost a packet on this path has
};

// A poll-mode thread polls all of its ports in turn, so it runs with all of its paths or with none.
struct Task {
  CoreIndex core;
  std::uint32_t first_path;  // in TaskSet::paths
  std::uint32_t paths;       // at least 1
};

// Tasks in the order of the chains: wait queues keep it. Flat: a tick never allocates. Tasks with
// the same first path are threads of one function, which nobody can tell apart beforehand.
struct TaskSet {
  std::vector<Task> tasks;
  std::vector<Path> paths;

  // The last of `threads` tasks, one behind the other.
  TaskIndex Add(CoreIndex core, const std::vector<Path>& of_function, std::size_t threads = 1) {
    tasks.insert(tasks.end(), threads,
                 {core, static_cast<std::uint32_t>(paths.size()),
                  static_cast<std::uint32_t>(of_function.size())});
    paths.insert(paths.end(), of_function.begin(), of_function.end());
    return static_cast<TaskIndex>(tasks.size() - 1);
  }
};

// What a packet costs each function, in ns: written by whoever estimates it, the scheduler of its
// core among them, and read by the schedulers at any time, without a lock.
class Costs {
 public:
  explicit Costs(std::size_t functions) : ns_(functions) {}
  explicit Costs(const std::vector<double>& ns) : Costs(ns.size()) {
    for (FunctionIndex function = 0; function < ns.size(); ++function) Set(function, ns[function]);
  }

  double Ns(FunctionIndex function) const noexcept {
    return ns_[function].load(std::memory_order_relaxed);
  }
  // Takes effect at the next slice of a task.
  void Set(FunctionIndex function, double ns) noexcept {
    ns_[function].store(ns, std::memory_order_relaxed);
  }
  std::size_t size() const noexcept { return ns_.size(); }

 private:
  static_assert(std::atomic<double>::is_always_lock_free);
  std::vector<std::atomic<double>> ns_;
};

}  // namespace unis
