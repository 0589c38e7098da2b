// One operation at a time: what measures, estimates or changes a run holds this, and a second one
// is told who does, or that the run is ending. An operation that only reads needs it not.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "engine/run/services.h"

namespace unis {

class Turnstile {
 public:
  class Pass {
   public:
    Pass(Pass&& other) noexcept : turnstile_(std::exchange(other.turnstile_, nullptr)) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (turnstile_ != nullptr) turnstile_->Leave();
    }

   private:
    friend class Turnstile;
    explicit Pass(Turnstile* turnstile) : turnstile_(turnstile) {}
    Turnstile* turnstile_;
  };

  // `what` as in "the engine is taking a trace".
  absl::StatusOr<Pass> Enter(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (closing_) return Ending();
    if (!inside_.empty())
      return absl::AbortedError("the engine is " + inside_ + "; try again when it is done");
    inside_ = what;
    return Pass(this);
  }
  // Waits for whoever is inside, who has been told to leave. Nobody enters from now on but by this.
  Pass EnterLast() {
    std::unique_lock lock(mutex_);
    closing_ = true;
    left_.wait(lock, [this] { return inside_.empty(); });
    inside_ = "ending";
    return Pass(this);
  }

 private:
  void Leave() {
    const std::lock_guard lock(mutex_);
    inside_.clear();
    left_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable left_;
  std::string inside_;
  bool closing_ = false;
};

}  // namespace unis
