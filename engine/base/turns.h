// What a program that UNiS' EAL plug-in is loaded into tells of its turns on the CPU, and is told
// (ports/unis_ports/turns_shm.h).
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ports/unis_ports/turns_shm.h"

namespace unis {

// Mapped as long as it lives, also when the process is gone.
class Turns {
 public:
  // Looks through the open files of `pid`. NotFound: it has not the plug-in.
  static absl::StatusOr<std::shared_ptr<Turns>> Find(pid_t pid);
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Packets that each turn of each thread may take; 0: nobody passes the CPU on.
  void SetBudget(std::uint32_t packets) noexcept {
    __atomic_store_n(&shm_->quota, packets, __ATOMIC_RELEASE);
  }
  // What went through a port that the program counts, by its number there, below UNIS_TURNS_PORTS.
  const unis_port_count& port(std::size_t number) const noexcept { return shm_->ports[number]; }
  // That of the thread, by its number in its own PID namespace, once it has polled with a quota;
  // null before. No system call.
  unis_turn* Of(pid_t tid) noexcept;

 private:
  explicit Turns(unis_turns* shm) : shm_(shm) {}
  unis_turns* shm_;
};

}  // namespace unis
