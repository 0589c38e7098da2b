// What functions did with their time. The states exclude one another and sum to the time that
// passed since UNiS took hold of the function, for each of its threads. All only grow.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "engine/base/proc.h"
#include "engine/scheduler/components.h"
#include "unis/v1/engine.pb.h"

namespace unis {

class FunctionTimes {
 public:
  struct Thread {
    pid_t tid = 0;
    std::uint64_t start_time = 0;  // of ProcStat; with the number it names a thread for ever
    ThreadTimes times;
    std::uint64_t sleeps_begun = 0;  // so far: the kernel's voluntary switches
    bool sleeps = false;             // now, and does not wait for a CPU
    bool by_signals = false;         // the engine stops it where others have their turns
    Nanoseconds parked = 0;          // so far, with all others, where signals stop it
    bool stopped = false;            // now, by a signal
  };
  struct Counters {
    // Received, of all paths; it may begin anew. None: nobody counts them.
    std::optional<std::uint64_t> packets = 0;
    double cost_ns = 0;  // of each since the last look
    std::uint64_t waited_for_room_ns = 0;
  };

  // At `now`. A thread counts from the first look at it on.
  void Look(const std::string& function, const Counters& counters, std::span<const Thread> threads,
            Nanoseconds now);
  // The time of the function up to the last Look(). Zeros before the first one.
  v1::FunctionTime Of(const std::string& function) const;
  // A function of that name which comes later begins at nothing.
  void Forget(const std::string& function) { functions_.erase(function); }

 private:
  struct Shares {
    std::int64_t ran = 0, waited = 0, slept = 0;  // ns
  };
  struct SeenThread {
    Nanoseconds at = 0;
    ThreadTimes times;
    std::uint64_t sleeps_begun = 0;
    bool slept = false;  // at the last look
    Nanoseconds parked = 0;
    std::int64_t uncounted = 0;  // it ran, and no time had passed for it: the kernel counts late
    std::int64_t ahead = 0;      // it waited, and the kernel had not counted it yet
    std::int64_t overslept = 0;  // counted as sleep, and then the kernel said that it had waited

    Shares Advance(const Thread& now, Nanoseconds time);
  };
  struct One {
    std::map<std::pair<pid_t, std::uint64_t>, SeenThread> threads;
    std::uint64_t packets = 0, waited_for_room_ns = 0;
    v1::FunctionTime time;
  };

  std::map<std::string, One> functions_;
};

}  // namespace unis
