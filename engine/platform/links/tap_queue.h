// The queue of a tap device, in which packets wait for the program that has the device open, as
// DPDK's net_tap does. The kernel tells nobody how many there are. It counts what the program read
// and what the device dropped; what was put there the sender counts. The difference waits.
//
// Each counter is a file below /sys, some microseconds a reading: so a look reads them no more
// often than kLooks times a second.
//
// What waits when a program closes the device is freed, and the kernel counts it nowhere. Nor does
// it count what other devices sent there while nobody had it open, or while it was down. All that
// shows as a difference that stays though the queue is empty, and is dropped packets from then on.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/base/unique_fd.h"
#include "engine/platform/links/packet_receiver.h"

namespace unis {

// A packet counter of a device of our network namespace, from 0 when it is opened.
class DeviceCounter {
 public:
  static absl::StatusOr<DeviceCounter> Open(const std::string& device, const std::string& name);
  // A system call; what was read last where the device is gone.
  std::uint64_t Read() noexcept;

 private:
  DeviceCounter() = default;
  UniqueFd file_;
  std::uint64_t first_ = 0, last_ = 0;  // as the kernel counts
};

// A device that a process has open.
class OpenTap {
 public:
  // NotFound: it has not, or is not ready to read. net_tap has the queue twice, to read and to
  // write, and by then it hears of packets that come.
  static absl::StatusOr<OpenTap> Find(pid_t pid, const std::string& device);
  // Whether no packet waits there. Some system calls; false where nobody can tell.
  bool Empty() const noexcept;
  // Has it look there. net_tap reads only after the signal that tells of a new packet, and misses
  // those that came before it had asked for signals: if they fill the queue none comes any more.
  void Wake() const noexcept;
  bool HeldBy(pid_t pid) const;

 private:
  OpenTap(UniqueFd process, int descriptor, std::string device)
      : process_(std::move(process)), descriptor_(descriptor), device_(std::move(device)) {}
  // Ours is closed at once: as long as it is open the queue outlives the process.
  UniqueFd Duplicate() const noexcept;

  UniqueFd process_;
  int descriptor_;  // of the process
  std::string device_;
};

class TapQueue {
 public:
  static constexpr std::uint64_t kLooks = 100'000;  // a second, at most
  // Of its slots, those that the kernel may not have freed yet: it does so by 16 at once.
  static constexpr std::uint32_t kUnfreed = 16;

  // `from`: the device whose program sends to it; empty: who sends is told by Feed().
  static absl::StatusOr<std::unique_ptr<TapQueue>> Open(const std::string& device,
                                                        const std::string& from,
                                                        std::uint32_t slots);
  void Feed(const std::uint32_t* sent) noexcept { sent_ = sent; }

  // As a PacketReceiver. `program` has the device open; null: none has.
  void Look(const OpenTap& program) noexcept;
  Occupancy occupancy() const;
  std::uint32_t Room(std::uint32_t most, std::uint32_t sent) const noexcept;
  // Another program has opened it: what waits there may be less than what was put since.
  void Begin() noexcept;
  // The program is gone, and what waited.
  void Abandon() noexcept;
  // Packets, ever. Some system calls. It may become less, see Correct().
  std::uint64_t Dropped() noexcept;

 private:
  struct Account {
    std::uint64_t read, dropped;
    std::uint32_t put;  // modulo 2^32
    bool operator==(const Account&) const = default;
  };
  TapQueue(DeviceCounter read, std::uint32_t slots)
      : read_(std::move(read)), capacity_(slots - std::min(slots, kUnfreed)) {}

  std::uint32_t Put() noexcept;
  std::uint64_t Refused() noexcept { return dropped_ ? dropped_->Read() : 0; }
  Account Take() noexcept;
  std::int32_t Left(const Account& at) const noexcept;
  void Publish(const Account& at) noexcept;
  void Lose() noexcept;
  void Correct(const Account& at, const OpenTap& program) noexcept;

  DeviceCounter read_;
  // Where a program sends, what it wrote to its own device, and what this one had no room for. What
  // the engine sends stays its own then.
  std::optional<DeviceCounter> written_, dropped_;
  const std::uint32_t* sent_ = nullptr;  // null: nobody tells
  const std::uint32_t capacity_;
  std::uint64_t looked_ = 0;  // when, in cycles

  std::mutex counting_;    // for what is below, of which a look takes no more than it gets at once
  bool held_ = false;      // by a program, which is known
  std::int64_t lost_ = 0;  // that no counter has
  Account before_ = {};    // at the look before
  unsigned still_ = 0;     // looks since the program took one
  bool unsure_ = false;    // whether what is left waits
  std::uint64_t woken_ = 0;  // as before_.read, and 1 more

  std::uint32_t put_ = 0, taken_ = 0, waiting_ = 0;  // of occupancy()
  std::atomic<std::uint32_t> gone_ = 0;              // of what was put
};

class FollowedTap final : public PacketReceiver {
 public:
  FollowedTap(OpenTap program, TapQueue& queue) : program_(std::move(program)), queue_(queue) {}
  void Look() noexcept override { queue_.Look(program_); }
  Occupancy occupancy() const override { return queue_.occupancy(); }
  std::uint32_t Room(std::uint32_t most, std::uint32_t sent) const noexcept override {
    return queue_.Room(most, sent);
  }
  void Feed(const std::uint32_t* sent) noexcept override { queue_.Feed(sent); }
  // Both are the queue's own, which outlives this.
  std::uint64_t TakeDrops() noexcept override { return 0; }
  std::uint64_t TakeAbandoned() noexcept override {
    queue_.Abandon();
    return 0;
  }
  bool HeldBy(pid_t pid) const override { return program_.HeldBy(pid); }

 private:
  OpenTap program_;
  TapQueue& queue_;
};

}  // namespace unis
