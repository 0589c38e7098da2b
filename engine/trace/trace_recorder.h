// Remembers who ran when, and why each switch was made, in memory that somebody else has made and
// touched beforehand. A recorder watches one core, on the thread of its scheduler.
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

class TraceRecorder final : public SwitchObserver {
 public:
  // Memory for a trace, 12 MB of it. To allocate, touch and free it takes milliseconds: not on a
  // recorder's thread.
  class Room {
   public:
    Room();

   private:
    friend class TraceRecorder;
    std::vector<SwitchRecord> switches_;
    std::vector<RunSeen> runs_;
  };

  // What shows of each task that it runs, in the order of the tasks.
  explicit TraceRecorder(std::vector<std::unique_ptr<Activity>> tasks);

  // Forgets the trace before, whose memory goes into `room`.
  void Begin(Room& room) noexcept;
  void End() { recording_ = false; }
  bool recording() const noexcept { return recording_; }

  bool wants() const noexcept override { return recording_; }
  void OnSwitch(const SwitchRecord& record) noexcept override;
  // Looks which tasks have polled since the last look. Resolution: the time between two looks.
  void Sample(Nanoseconds now) noexcept;

  const std::vector<SwitchRecord>& switches() const { return switches_; }
  const std::vector<RunSeen>& runs() const { return runs_; }
  std::uint64_t lost() const { return lost_; }

 private:
  static constexpr std::size_t kRoom = 1 << 17;  // of each kind

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
  std::vector<SwitchRecord> switches_;
  std::vector<RunSeen> runs_;
  std::uint64_t lost_ = 0;
  bool recording_ = false;
};

}  // namespace unis
