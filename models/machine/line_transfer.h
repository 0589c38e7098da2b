// How far apart two CPUs are: the time that a cache line takes from one's cache into the other's.
//
// It decides what passing packets between them costs. Neighbours on one last-level cache take 20 to
// 60 ns, CPUs of different clusters or sockets 100 to 300; a hypervisor may move a virtual CPU from
// the one to the other at any time.
#pragma once

#include <absl/status/statusor.h>

namespace unis {

// ns one way: half of what it takes two threads, one on each CPU, to pass a line there and back.
// The median of a few milliseconds, so that a thread that was preempted does not count. Fails where
// the CPUs are the same, the caller may not run on them or somebody else has one for two seconds.
absl::StatusOr<double> LineTransfer(unsigned one, unsigned other);

}  // namespace unis
