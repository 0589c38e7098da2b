// A part of the engine that runs for ever on a service lcore, as a DPDK service. Components that
// share an lcore take turns, one Iterate() each.
#pragma once

#include <absl/status/status.h>
#include <rte_service_component.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "engine/base/counter.h"
#include "engine/platform/lcore_nap.h"

namespace unis {

class Component {
 public:
  explicit Component(std::string name);
  virtual ~Component();
  Component(const Component&) = delete;
  Component& operator=(const Component&) = delete;

  // Registers the service and lets `lcore`, made a service lcore if need be, run it from now on.
  absl::Status RunOn(unsigned lcore);

  // Runs `work` on the component's own thread, between two iterations, and waits for it. All state
  // that Iterate() touches is changed and read so. Before RunOn(): on the caller's thread.
  void Do(const std::function<void()>& work);

  // A component that rests does nothing but what it is given by Do(). From when this returns.
  void Rest(bool rests) {
    Do([this, rests] { rests_ = rests; });
  }

  // Takes the component off its lcore; Do() works on the caller's thread afterwards. Derived
  // classes call it in their destructor, before their members go.
  void Halt();

  const std::string& name() const { return name_; }
  unsigned lcore() const { return lcore_; }
  std::uint64_t handled() const { return handled_.value(); }
  // TSC cycles of the iterations that handled something.
  std::uint64_t busy_cycles() const { return busy_cycles_.value(); }

 protected:
  // By any thread: ends a nap of the lcore.
  void Wake() noexcept { LcoreNap::Of(lcore_).Wake(); }
  // A few µs at most: no lock, no allocation, no system call but the scheduler's switch and what a
  // link's end needs to send. Returns how many packets it handled, or how many switches it made.
  virtual std::uint32_t Iterate() noexcept = 0;
  // After an Iterate() that has handled nothing: in how many ns there is something to do that
  // neither a packet nor a call of Do() brings; 0: at once, or packets may come unannounced.
  virtual std::int64_t IdleNs() noexcept { return LcoreNap::kUntilGiven; }

 private:
  static std::int32_t Call(void* self);  // the service
  bool TakeTurn() noexcept;              // whether it has handled anything

  std::string name_;
  std::uint32_t service_ = 0;
  unsigned lcore_ = 0;
  bool running_ = false;
  bool rests_ = false;  // of the component's thread
  Counter handled_;
  Counter busy_cycles_;
  std::mutex callers_;  // one Do() at a time
  std::atomic<const std::function<void()>*> work_{nullptr};
  std::mutex done_mutex_;
  std::condition_variable done_;
};

}  // namespace unis
