// Remembers who ran when, and why each switch was made, in memory that is reserved beforehand.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/platform/chain.h"
#include "engine/scheduler/components.h"

namespace unis {

// An NF was seen polling from `begin` to `end` without another NF of its core in between.
struct Run {
  NfIndex nf;
  Nanoseconds begin, end;
  std::uint64_t packets;
};

class TraceRecorder final : public SwitchObserver {
 public:
  struct Watched {
    const PortShm* port;
    CoreIndex core;
  };

  TraceRecorder(std::vector<Watched> nfs, CoreIndex cores);

  void Begin();
  void End();
  bool recording() const noexcept { return recording_; }

  void OnSwitch(const SwitchRecord& record) noexcept override;
  // Looks which NFs have polled since the last look. Resolution: the time between two looks.
  void Sample(Nanoseconds now) noexcept;

  const std::vector<SwitchRecord>& switches() const { return switches_; }
  const std::vector<Run>& runs() const { return runs_; }
  std::uint64_t lost() const { return lost_; }

 private:
  static constexpr std::size_t kRoom = 1 << 17;  // of each kind

  struct Seen {
    std::uint64_t polls = 0;
    std::uint64_t packets = 0;
  };
  struct CoreRun {
    bool any = false;
    bool kept = false;    // else there was no room for the core's last run
    NfIndex nf = 0;       // of that run
    std::size_t run = 0;  // its position
  };

  void Extend(NfIndex nf, Nanoseconds now, std::uint64_t packets) noexcept;

  std::vector<Watched> nfs_;
  std::vector<Seen> seen_;
  std::vector<CoreRun> cores_;
  std::vector<SwitchRecord> switches_;
  std::vector<Run> runs_;
  std::uint64_t lost_ = 0;
  bool recording_ = false;
};

}  // namespace unis
