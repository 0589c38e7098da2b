// Ends the waiting of other threads, once and for all: a stop that waits for nobody's sleep.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace unis {

class Interrupt {
 public:
  void Raise() {
    {
      const std::lock_guard lock(mutex_);
      raised_ = true;
    }
    condition_.notify_all();
  }
  bool raised() const {
    const std::lock_guard lock(mutex_);
    return raised_;
  }
  // True: slept the whole time. False: interrupted, before or meanwhile.
  bool SleepFor(std::chrono::nanoseconds time) {
    std::unique_lock lock(mutex_);
    return !condition_.wait_for(lock, time, [this] { return raised_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  bool raised_ = false;
};

}  // namespace unis
