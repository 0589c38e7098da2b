// Tells the thread sanitizer what it cannot see: DPDK's libraries and other processes are not
// instrumented, so what they order between two of our threads would be taken for a race. Without
// the sanitizer these do nothing.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace unis {

// What a thread did before this call happened before what another does after Acquired() of the same
// address.
inline void Released([[maybe_unused]] const void* at) noexcept {
#ifdef __SANITIZE_THREAD__
  __tsan_release(const_cast<void*>(at));
#endif
}

inline void Acquired([[maybe_unused]] const void* at) noexcept {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(const_cast<void*>(at));
#endif
}

// Stands for the functions: packets pass through their processes from one thread of ours to
// another.
inline const char kOtherProcesses = 0;

}  // namespace unis
