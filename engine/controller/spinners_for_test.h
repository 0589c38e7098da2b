// NFs for the controllers' tests: child processes on the last CPU that count as long as they run.
// They end on their own within 5 s, so that no mistake can take the machine.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/base/machine_for_test.h"
#include "engine/controller/nf_thread.h"

namespace unis {

using TestClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Calls `condition` until it holds; false: not within `limit`.
template <typename Condition>
bool Eventually(Condition condition, TestClock::duration limit = 2s) {
  const auto deadline = TestClock::now() + limit;
  while (!condition()) {
    if (TestClock::now() > deadline) return false;
    std::this_thread::sleep_for(200us);
  }
  return true;
}

// fork(), but for its −1, which taken for a process means all of them.
inline pid_t ForkOrThrow() {
  const pid_t pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  return pid;
}

// A process that was there and is no more.
inline pid_t DeadProcess() {
  const pid_t pid = ForkOrThrow();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  return pid;
}

// 'R', 'S', 'T', … of /proc/PID/stat.
inline char StateOf(pid_t pid) {
  std::string word, state;
  std::ifstream("/proc/" + std::to_string(pid) + "/stat") >> word >> word >> state;
  return state.empty() ? '?' : state.front();
}

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
    for (const pid_t pid : alive_) kill(pid, SIGKILL);
    for (const pid_t pid : alive_) waitpid(pid, nullptr, 0);
    munmap(slots_, sizeof(Slot) * spinning_);
  }
  Spinners(const Spinners&) = delete;
  Spinners& operator=(const Spinners&) = delete;

  const std::vector<NfThread>& nfs() const { return nfs_; }
  std::vector<NfThread>& nfs() { return nfs_; }
  pid_t pid(std::size_t i) const { return nfs_[i].pid; }

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
  // Whoever else was running stops, and `nf` runs: for `window`, or longer if that is what it takes
  // to see it on a busy machine.
  testing::AssertionResult RunsAlone(std::size_t nf, TestClock::duration window) const {
    std::vector<std::size_t> ran;
    const bool alone = Eventually([&] {
      const Counts before = Now();
      std::this_thread::sleep_for(window);
      Eventually([&] { return Now()[nf] != before[nf]; }, 100ms);
      ran = Differ(before);
      return ran == std::vector{nf};
    });
    if (alone) return testing::AssertionSuccess();
    auto failure = testing::AssertionFailure() << "not " << nf << " alone; what ran at last:";
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
    kill(nfs_[i].pid, SIGKILL);
    waitpid(nfs_[i].pid, nullptr, 0);
    std::erase(alive_, nfs_[i].pid);
  }

 private:
  struct Slot {
    alignas(64) std::atomic<std::uint64_t> count{0};
  };

  void Fork(Slot* slot) {
    const pid_t parent = getpid();
    const pid_t pid = ForkOrThrow();
    if (pid == 0) Child(parent, slot);
    alive_.push_back(pid);
    const std::string name = "nf" + std::to_string(nfs_.size());
    nfs_.push_back({.name = name, .pid = pid, .tid = pid, .core = 0, .cooperates = false});
    Eventually([pid] { return PinnedToLastCpu(pid); });
  }
  static bool PinnedToLastCpu(pid_t pid) {
    cpu_set_t set;
    return sched_getaffinity(pid, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1 &&
           CPU_ISSET(LastCpu(), &set);
  }
  [[noreturn]] static void Child(pid_t parent, Slot* slot) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
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
    _exit(0);
  }

  Slot* slots_ = nullptr;
  std::size_t spinning_ = 0;
  std::vector<NfThread> nfs_;
  std::vector<pid_t> alive_;
};

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
