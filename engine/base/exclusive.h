// A value that several threads change, each in steps that have it for themselves.
#pragma once

#include <mutex>
#include <utility>

namespace unis {

template <typename Value>
class Exclusive {
 public:
  template <typename... Arguments>
  explicit Exclusive(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}

  // Runs `step` with the value locked, and returns its result. A step never waits; an operation
  // that must wait uses two steps.
  template <typename Step>
  auto Do(Step step) {
    const std::lock_guard lock(mutex_);
    return step(value_);
  }

 private:
  std::mutex mutex_;
  Value value_;
};

}  // namespace unis
