// Functions for the tests of the hand-over: processes on the last CPU that count as long as they
// run, and have the file of a plug-in, by which they pass the CPU on as it would. They end on their
// own within 5 s.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <rte_cycles.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/eventually_for_test.h"
#include "engine/base/machine_for_test.h"
#include "engine/base/process_for_test.h"
#include "engine/controller/held_thread.h"
#include "engine/controller/task_controller.h"
#include "ports/unis_ports/turns_shm.h"

namespace unis {

// As the plug-in makes it; `version` as it would be another's.
inline unis_turns* MakeTurnsFile(std::uint32_t version = UNIS_TURNS_VERSION, bool sealed = true) {
  const int fd = memfd_create(UNIS_TURNS_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (ftruncate(fd, sizeof(unis_turns)) != 0) return nullptr;
  if (sealed && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return nullptr;
  void* const memory = mmap(nullptr, sizeof(unis_turns), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const turns = static_cast<unis_turns*>(memory);
  turns->version = version;
  return turns;
}

class TurnTakers {
 public:
  // Passes the CPU on after `quota` counts, and sleeps when it is told to; kDeaf: has the file and
  // never looks at it again; kHasRings: takes turns, and has another thread that takes none, which
  // is a task behind those of all processes.
  enum class Kind { kTakesTurns, kNoPlugin, kDeaf, kHasRings };
  struct Slot {
    alignas(64) std::atomic<std::uint64_t> count{0};
    std::atomic<pid_t> tid{0};
    std::atomic<bool> polls{false};  // at least once, also if it takes no turns
  };

  explicit TurnTakers(const std::vector<Kind>& kinds)
      : count_(kinds.size() +
               static_cast<std::size_t>(std::ranges::count(kinds, Kind::kHasRings))) {
    LeaveLastCpu();
    void* memory = mmap(nullptr, sizeof(Slot) * count_, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    slots_ = static_cast<Slot*>(memory);
    Slot* rings = slots_ + kinds.size();
    for (std::size_t i = 0; i < count_; ++i) new (&slots_[i]) Slot;
    std::vector<std::pair<pid_t, Slot*>> more;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      Slot* const slot = &slots_[i];
      Slot* const beside = kinds[i] == Kind::kHasRings ? rings++ : nullptr;
      children_.emplace_back([=, kind = kinds[i]] { Child(slot, beside, kind); });
      const pid_t pid = children_.back().pid();
      Eventually([slot] { return slot->count.load() > 0; });
      threads_.push_back(HeldThread::Take("task" + std::to_string(i), pid, pid).value());
      if (beside != nullptr) more.emplace_back(pid, beside);
    }
    for (const auto& [pid, slot] : more)
      threads_.push_back(HeldThread::Take("rings", pid, slot->tid.load()).value());
  }
  ~TurnTakers() {
    for (const ChildProcess& child : children_) child.Kill();
    threads_.clear();
    children_.clear();
    munmap(slots_, sizeof(Slot) * count_);
  }
  TurnTakers(const TurnTakers&) = delete;
  TurnTakers& operator=(const TurnTakers&) = delete;

  std::vector<HeldThread*> tasks() {
    std::vector<HeldThread*> tasks;
    for (HeldThread& thread : threads_) tasks.push_back(&thread);
    return tasks;
  }
  pid_t pid(std::size_t i) const { return threads_[i].pid(); }
  const HeldThread& thread(std::size_t i) const { return threads_[i]; }
  std::vector<std::uint64_t> Now() const {
    std::vector<std::uint64_t> counts;
    for (std::size_t i = 0; i < count_; ++i) counts.push_back(slots_[i].count.load());
    return counts;
  }
  bool Runs(std::size_t i) const { return Counts(i, 1); }
  // The thread beside one that kHasRings polls a port from now on.
  bool Polls(std::size_t i) {
    slots_[i].polls = true;
    return Eventually([&] { return !slots_[i].polls.load(); });
  }
  // For as long as many turns would take.
  bool KeepsRunning(std::size_t i) const { return Counts(i, 1'000'000); }
  // No other runs meanwhile.
  bool KeepsRunningAlone(std::size_t i) const {
    const auto before = Now();
    if (!KeepsRunning(i)) return false;
    auto now = Now();
    now[i] = before[i];
    return now == before;
  }

 private:
  bool Counts(std::size_t i, std::uint64_t more) const {
    const std::uint64_t wanted = slots_[i].count.load() + more;
    return Eventually([&] { return slots_[i].count.load() >= wanted; });
  }
  static void Begin(unis_turn& turn) {
    __atomic_store_n(&turn.began_before, turn.began_at, __ATOMIC_RELAXED);
    __atomic_store_n(&turn.began_at, rte_rdtsc(), __ATOMIC_RELEASE);
    __atomic_store_n(&turn.began, turn.began + 1, __ATOMIC_RELEASE);
  }
  static void Child(Slot* slot, Slot* beside, Kind kind) {
    alarm(5);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(LastCpu(), &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) _exit(1);
    unis_turns* const turns = kind == Kind::kNoPlugin ? nullptr : MakeTurnsFile();
    if (beside != nullptr) {
      std::thread([beside, turns] {
        beside->tid = gettid();
        for (;;) {
          beside->count.fetch_add(1, std::memory_order_relaxed);
          if (!beside->polls.load(std::memory_order_relaxed)) continue;
          __atomic_store_n(&turns->threads[1].tid, gettid(), __ATOMIC_RELEASE);
          beside->polls = false;
        }
      }).detach();
      while (beside->count.load() == 0) sched_yield();
    }
    if (turns != nullptr) {
      turns->threads[0].began = 1;
      __atomic_store_n(&turns->threads[0].tid, gettid(), __ATOMIC_RELEASE);
    }
    std::uint32_t taken = 0, spent = 0, granted = 0;
    for (;;) {
      for (int i = 0; i < 256; ++i) slot->count.fetch_add(1, std::memory_order_relaxed);
      if (kind != Kind::kTakesTurns && kind != Kind::kHasRings) continue;
      taken += 256;
      unis_turn& turn = turns->threads[0];
      if (const std::uint32_t rest = __atomic_load_n(&turn.rest, __ATOMIC_RELAXED); rest != 0) {
        __atomic_store_n(&turn.passed, turn.began, __ATOMIC_RELEASE);
        syscall(SYS_futex, &turn.rest, FUTEX_WAIT, rest, nullptr, nullptr, 0);
        Begin(turn);
      }
      const std::uint32_t quota = __atomic_load_n(&turns->quota, __ATOMIC_RELAXED);
      if (quota == 0) continue;
      const std::uint32_t grant = __atomic_load_n(&turn.grant, __ATOMIC_RELAXED);
      spent = std::exchange(granted, grant) == grant ? spent + 256 : 0;
      const bool spends = grant != 0 && spent >= (grant & UNIS_GRANT_MOST);
      if (taken < quota && !spends && __atomic_load_n(&turn.leave, __ATOMIC_RELAXED) != turn.began)
        continue;
      taken = 0;
      __atomic_store_n(&turn.passed, turn.began, __ATOMIC_RELEASE);
      sched_yield();
      Begin(turn);
    }
  }

  const std::size_t count_;
  Slot* slots_ = nullptr;
  std::vector<ChildProcess> children_;
  std::deque<HeldThread> threads_;
};

}  // namespace unis
