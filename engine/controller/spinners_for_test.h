// Functions for the controllers' tests: child processes on the last CPU that count as long as they
// run. They end on their own within 5 s, so that no mistake can take the machine.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/eventually_for_test.h"
#include "engine/base/machine_for_test.h"
#include "engine/base/process_for_test.h"
#include "engine/controller/held_thread.h"
#include "engine/controller/task_controller.h"

namespace unis {

class Spinners {
 public:
  using Counts = std::vector<std::uint64_t>;

  // `spinning` processes, and after them `sleeping` ones, which may stand at any priority.
  explicit Spinners(std::size_t spinning, std::size_t sleeping = 0) {
    LeaveLastCpu();
    void* memory = mmap(nullptr, sizeof(Slot) * spinning, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    slots_ = static_cast<Slot*>(memory);
    for (std::size_t i = 0; i < spinning; ++i) Fork(new (&slots_[i]) Slot);
    for (std::size_t i = 0; i < sleeping; ++i) Fork(nullptr);
    spinning_ = spinning;
    Eventually([this] { return AllSpin(Counts(spinning_)); });
  }
  ~Spinners() {
    // All are told before the first is awaited: one below another could not die else.
    for (const ChildProcess& child : children_) child.Kill();
    threads_.clear();
    children_.clear();
    munmap(slots_, sizeof(Slot) * spinning_);
  }
  Spinners(const Spinners&) = delete;
  Spinners& operator=(const Spinners&) = delete;

  std::vector<HeldThread*> tasks() {
    std::vector<HeldThread*> tasks;
    for (HeldThread& thread : threads_) tasks.push_back(&thread);
    return tasks;
  }
  HeldThread& thread(std::size_t i) { return threads_[i]; }
  std::size_t size() const { return threads_.size(); }
  pid_t pid(std::size_t i) const { return threads_[i].pid(); }

  Counts Now() const {
    Counts counts;
    for (std::size_t i = 0; i < spinning_; ++i)
      counts.push_back(slots_[i].count.load(std::memory_order_relaxed));
    return counts;
  }
  bool AllSpin(const Counts& since) const {
    const Counts now = Now();
    for (std::size_t i = 0; i < now.size(); ++i)
      if (now[i] == since[i]) return false;
    return true;
  }
  // Whoever else was running stops, and `task` runs: for `window`, or longer if that is what it
  // takes to see it on a busy machine.
  testing::AssertionResult RunsAlone(std::size_t task, TestClock::duration window) const {
    std::vector<std::size_t> ran;
    const bool alone = Eventually([&] {
      const Counts before = Now();
      std::this_thread::sleep_for(window);
      Eventually([&] { return Now()[task] != before[task]; }, 100ms);
      ran = Differ(before);
      return ran == std::vector{task};
    });
    if (alone) return testing::AssertionSuccess();
    auto failure = testing::AssertionFailure() << "not " << task << " alone; what ran at last:";
    for (const std::size_t other : ran) failure << ' ' << other;
    return failure;
  }
  // Those that made progress.
  std::vector<std::size_t> Differ(const Counts& since) const {
    std::vector<std::size_t> ran;
    const Counts now = Now();
    for (std::size_t i = 0; i < now.size(); ++i)
      if (now[i] != since[i]) ran.push_back(i);
    return ran;
  }
  // A process that ends, and is reaped, while the others go on.
  void End(std::size_t i) {
    children_[i].Kill();
    // One below another that spins could not die.
    const sched_param above{.sched_priority = 60};
    sched_setscheduler(pid(i), SCHED_FIFO, &above);
    children_[i].End();
  }

 private:
  struct Slot {
    alignas(64) std::atomic<std::uint64_t> count{0};
  };

  void Fork(Slot* slot) {
    children_.emplace_back([slot] { Child(slot); });
    const pid_t pid = children_.back().pid();
    Eventually([pid] { return PinnedToLastCpu(pid); });
    const std::string name = "task" + std::to_string(threads_.size());
    threads_.push_back(HeldThread::Take(name, pid, pid).value());
  }
  static bool PinnedToLastCpu(pid_t pid) {
    cpu_set_t set;
    return sched_getaffinity(pid, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1 &&
           CPU_ISSET(LastCpu(), &set);
  }
  static void Child(Slot* slot) {
    alarm(5);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(LastCpu(), &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) _exit(1);
    const auto deadline = TestClock::now() + 5s;
    if (slot == nullptr) std::this_thread::sleep_until(deadline);
    while (TestClock::now() < deadline) {
      for (int i = 0; i < 256; ++i) slot->count.fetch_add(1, std::memory_order_relaxed);
    }
  }

  Slot* slots_ = nullptr;
  std::size_t spinning_ = 0;
  std::vector<ChildProcess> children_;
  std::deque<HeldThread> threads_;
};

// A function that was taken and has ended since.
inline HeldThread DeadThread() {
  ChildProcess child;
  return HeldThread::Take("dead", child.pid(), child.pid()).value();
}

// Real processes on the last CPU, under a real controller.
class ControllerTest : public testing::Test {
 protected:
  void SetUp() override {
    UNIS_NEED_ROOT();
    UNIS_NEED_TWO_CPUS();
    // Test and children, which inherit it, get their turns on a busy machine too.
    setpriority(PRIO_PROCESS, 0, -15);
  }
  void TearDown() override { setpriority(PRIO_PROCESS, 0, 0); }
};

}  // namespace unis
