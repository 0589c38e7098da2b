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

  // What `step` returns of the value. It waits for nothing that takes long: who has to, makes two
  // steps and waits in between.
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
