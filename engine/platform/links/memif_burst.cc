#include "engine/platform/links/memif_burst.h"

#include <rte_interrupts.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <thread>

// In the place of the C library's, also for DPDK. The driver has marked the port as not connected
// before it calls this, so that the next burst does not begin.
extern "C" int munmap(void* address, std::size_t length) noexcept {
  if (rte_thread_is_intr() != 0) {
    while (unis::MemifBurst::under_way()) std::this_thread::yield();
  }
  return static_cast<int>(syscall(SYS_munmap, address, length));
}
