#include "engine/controller/fair_slice.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <thread>

namespace unis {
namespace {

using std::chrono::nanoseconds;

// As the kernel has it, without what came later; the C library has none.
struct Attributes {
  std::uint32_t size = sizeof(Attributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;  // ns; of a thread in a fair class its slice
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};
static_assert(sizeof(Attributes) == 48);
constexpr std::uint64_t kResetOnFork = 1;  // SCHED_FLAG_RESET_ON_FORK

}  // namespace

nanoseconds FairSliceOf(pid_t tid) noexcept {
  Attributes read;
  if (syscall(SYS_sched_getattr, tid, &read, sizeof(read), 0) != 0) return {};
  return nanoseconds(read.runtime);
}

bool PutFairSlice(pid_t tid, nanoseconds slice) noexcept {
  errno = 0;
  const int nice = getpriority(PRIO_PROCESS, static_cast<id_t>(tid));
  if (errno != 0) return false;
  // At once, or what is cloned in between would keep it.
  const std::uint64_t flags = slice.count() > 0 ? kResetOnFork : 0;
  const Attributes wanted{
      .flags = flags, .nice = nice, .runtime = static_cast<std::uint64_t>(slice.count())};
  return syscall(SYS_sched_setattr, tid, &wanted, 0) == 0;
}

nanoseconds BaseSlice() {
  // Of a thread that is told to have it: ours may have inherited others.
  nanoseconds found{};
  std::thread([&found] {
    if (PutFairSlice(0, {})) found = FairSliceOf(0);
  }).join();
  return found;
}

absl::Status KnowsFairSlices(nanoseconds slice) {
  if (slice.count() > 0) return absl::OkStatus();
  utsname kernel{};
  (void)uname(&kernel);
  return absl::FailedPreconditionError(
      fmt::format("this kernel ({}) gives no thread a time slice of its own, as Linux 6.12 and "
                  "later do: leave fair_slice_ms out, or boot one of those",
                  kernel.release));
}

}  // namespace unis
