// Tells the thread sanitizer what it cannot see: DPDK's libraries and other processes are not
// instrumented, so what they order between two of our threads would be taken for a race. Without
// the sanitizer these do nothing.
#pragma once

// Clang 19 tells by __has_feature which sanitizers are on, GCC by macros.
#ifdef __has_feature
#define UNIS_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#define UNIS_THREAD_SANITIZER __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define UNIS_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define UNIS_THREAD_SANITIZER 1
#endif

#if UNIS_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
// For a function that a real-time thread may interrupt for long. The sanitizer takes locks of its
// own in what it instruments, and all threads would wait for those.
#define UNIS_UNINSTRUMENTED __attribute__((disable_sanitizer_instrumentation))
#else
#define UNIS_UNINSTRUMENTED
#endif

namespace unis {

// What a thread did before this call happened before what another does after Acquired() of the same
// address.
inline void Released([[maybe_unused]] const void* at) noexcept {
#if UNIS_THREAD_SANITIZER
  __tsan_release(const_cast<void*>(at));
#endif
}

inline void Acquired([[maybe_unused]] const void* at) noexcept {
#if UNIS_THREAD_SANITIZER
  __tsan_acquire(const_cast<void*>(at));
#endif
}

// Stands for the functions: packets pass through their processes from one thread of ours to
// another.
inline const char kOtherProcesses = 0;

}  // namespace unis
