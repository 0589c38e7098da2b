// What shows that a task polls, and what it took: read from outside, while it runs.
#pragma once

#include <cstdint>

namespace unis {

class Activity {
 public:
  virtual ~Activity() = default;
  // Grows while the task runs. No lock, no allocation, no system call.
  virtual std::uint64_t Polls() const noexcept = 0;
  virtual std::uint64_t Packets() const noexcept = 0;  // taken from its ingress links
};

}  // namespace unis
