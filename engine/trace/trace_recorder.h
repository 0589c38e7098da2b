// Remembers who ran when, and why each switch was made, in memory of somebody else. A recorder
// watches one core, on the thread of its scheduler.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/scheduler/components.h"
#include "engine/trace/activity.h"

namespace unis {

// A task was seen polling from `begin` to `end` without another one of its core in between.
struct RunSeen {
  TaskIndex task;
  Nanoseconds begin, end;
  std::uint64_t packets;
};

// Has 12 MB of memory. To allocate, touch and free it takes milliseconds: not on a recorder's
// thread, nor while others wait.
struct Trace {
  static constexpr std::size_t kRoom = 1 << 17;  // of each kind

  Trace();
  std::vector<SwitchRecord> switches;
  std::vector<RunSeen> runs;
  std::uint64_t lost = 0;  // there was no room for them
};

class TraceRecorder final : public SwitchObserver {
 public:
  // What shows of each task that it runs, in the order of the tasks.
  explicit TraceRecorder(std::vector<std::unique_ptr<Activity>> tasks);

  // Records into `trace`, which is empty, until End().
  void Begin(Trace& trace) noexcept;
  void End() noexcept { trace_ = nullptr; }

  bool wants() const noexcept override { return trace_ != nullptr; }
  void OnSwitch(const SwitchRecord& record) noexcept override;
  // Looks which tasks have polled since the last look. Resolution: the time between two looks.
  void Sample(Nanoseconds now) noexcept;

 private:
  struct Seen {
    std::uint64_t polls = 0;
    std::uint64_t packets = 0;
  };
  struct LastRun {
    bool any = false;
    bool kept = false;    // else there was no room for it
    TaskIndex task = 0;   // that ran
    std::size_t run = 0;  // its position
  };

  void Extend(TaskIndex task, Nanoseconds now, std::uint64_t packets) noexcept;

  std::vector<std::unique_ptr<Activity>> tasks_;
  std::vector<Seen> seen_;
  LastRun last_;
  Trace* trace_ = nullptr;  // null: it does not record
};

}  // namespace unis
