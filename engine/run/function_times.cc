#include "engine/run/function_times.h"

#include <algorithm>

namespace unis {
namespace {

// Counters that were read in another order may seem to go back.
std::int64_t Since(std::uint64_t before, std::uint64_t now) {
  return now > before ? static_cast<std::int64_t>(std::min(now - before, std::uint64_t{1} << 62))
                      : 0;
}

}  // namespace

// The kernel counts what ran and what waited, and the rest is sleep. It counts a wait when the wait
// has ended: until then it would seem to be sleep. So a thread that has begun no sleep since the
// last look, and was in none, has waited. What else was counted as sleep too early is taken from
// the sleep that follows.
FunctionTimes::Shares FunctionTimes::SeenThread::Advance(const Thread& now, Nanoseconds time) {
  const std::int64_t passed = std::max<Nanoseconds>(0, time - at);
  const std::int64_t had = uncounted + Since(times.ran_ns, now.times.ran_ns);
  const std::int64_t told = Since(times.waited_ns, now.times.waited_ns);
  const bool awake = !slept && !now.sleeps && sleeps_begun == now.sleeps_begun;
  at = std::max(at, time);
  times = now.times;
  slept = now.sleeps;
  const std::int64_t parked_since = std::max<Nanoseconds>(0, now.parked - parked);
  parked = now.parked;
  sleeps_begun = now.sleeps_begun;
  const std::int64_t ran = std::min(had, passed);
  uncounted = had - ran;
  const std::int64_t rest = passed - ran;
  if (now.by_signals || (now.stopped && !now.sleeps)) {  // the kernel never tells of a stop
    ahead = 0;
    const std::int64_t rested = std::min(rest, parked_since);
    return {.ran = ran, .waited = rest - rested, .slept = rested};
  }
  if (awake || (ran == 0 && told == 0 && !now.sleeps)) {
    const std::int64_t more = ahead + rest - told;
    ahead = std::max<std::int64_t>(0, more);
    overslept += std::max<std::int64_t>(0, -more);
    return {.ran = ran, .waited = rest};
  }
  const std::int64_t known = std::min(ahead, told);
  ahead -= known;
  if (now.sleeps) ahead = 0;
  const std::int64_t asleep = rest - (told - known) - overslept;
  overslept = std::max<std::int64_t>(0, -asleep);
  const std::int64_t slept = std::max<std::int64_t>(0, asleep);
  return {.ran = ran, .waited = rest - slept, .slept = slept};
}

void FunctionTimes::Look(const std::string& function, const Counters& counters,
                         std::span<const Thread> threads, Nanoseconds now) {
  One& one = functions_[function];
  Shares all;
  std::map<std::pair<pid_t, std::uint64_t>, SeenThread> seen;
  for (const Thread& thread : threads) {
    const std::pair id(thread.tid, thread.start_time);
    const auto before = one.threads.find(id);
    if (before == one.threads.end()) {
      seen[id] = {.at = now,
                  .times = thread.times,
                  .sleeps_begun = thread.sleeps_begun,
                  .slept = thread.sleeps,
                  .parked = thread.parked};
      continue;
    }
    const Shares shares = before->second.Advance(thread, now);
    seen[id] = before->second;
    all.ran += shares.ran;
    all.waited += shares.waited;
    all.slept += shares.slept;
  }
  one.threads = std::move(seen);
  // Packets are a function's to write: not every number of it can be a time.
  const std::uint64_t packets = counters.packets.value_or(one.packets);
  const double work = static_cast<double>(Since(one.packets, packets)) * counters.cost_ns;
  const auto busy = static_cast<std::int64_t>(std::clamp(work, 0.0, static_cast<double>(all.ran)));
  const std::int64_t for_room =
      std::min(all.waited, Since(one.waited_for_room_ns, counters.waited_for_room_ns));
  one.packets = packets;
  one.waited_for_room_ns = std::max(one.waited_for_room_ns, counters.waited_for_room_ns);
  v1::FunctionTime& time = one.time;
  const auto add = [](std::uint64_t counter, std::int64_t ns) {
    return counter + static_cast<std::uint64_t>(ns);
  };
  time.set_elapsed_ns(add(time.elapsed_ns(), all.ran + all.waited + all.slept));
  if (counters.packets || time.has_busy_ns()) time.set_busy_ns(add(time.busy_ns(), busy));
  time.set_spinning_ns(add(time.spinning_ns(), all.ran - busy));
  time.set_run_delay_ns(add(time.run_delay_ns(), all.waited - for_room));
  time.set_backpressured_ns(add(time.backpressured_ns(), for_room));
  time.set_blocked_ns(add(time.blocked_ns(), all.slept));
}

v1::FunctionTime FunctionTimes::Of(const std::string& function) const {
  const auto one = functions_.find(function);
  return one == functions_.end() ? v1::FunctionTime() : one->second.time;
}

}  // namespace unis
