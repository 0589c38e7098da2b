// Counts the system calls by which a burst could send, receive or wait. For a test program whose
// own symbols come first, also for what it loads (export_dynamic).
#pragma once

#include <atomic>

namespace unis {

// Of this thread.
struct Calls {
  unsigned vector = 0, single = 0, polls = 0, blocking = 0;
  unsigned all() const { return vector + single + polls; }
};
extern thread_local Calls calls;
extern std::atomic<bool> is_blocking;  // some thread was about to wait

}  // namespace unis
