#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace unis {

// A thread of this process that sleeps.
class SleepingThread {
 public:
  SleepingThread() : thread_([this] { Main(); }) {
    while (tid_ == 0) std::this_thread::yield();
  }
  ~SleepingThread() { End(); }
  pid_t tid() const { return tid_; }
  void End() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Main() {
    tid_ = static_cast<pid_t>(syscall(SYS_gettid));
    while (!stop_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::atomic<pid_t> tid_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace unis
