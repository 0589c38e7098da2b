#include "engine/platform/links/tap_queue.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <rte_cycles.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <utility>

namespace unis {
namespace {

// Looks without a packet taken before the queue is asked whether it is empty.
constexpr unsigned kStill = 1000;

UniqueFd DuplicateOf(const UniqueFd& process, int descriptor) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), descriptor, 0)));
}

// A detached file has no queue. net_tap keeps a device by such a file.
bool IsQueueOf(const UniqueFd& file, const std::string& device) {
  ifreq named{};
  return ioctl(file.get(), TUNGETIFF, &named) == 0 && device == named.ifr_name &&
         (named.ifr_flags & IFF_DETACH_QUEUE) == 0;
}

}  // namespace

// ------------------------------------------------------------------ a counter of a device

absl::StatusOr<DeviceCounter> DeviceCounter::Open(const std::string& device,
                                                  const std::string& name) {
  const std::string path = fmt::format("/sys/class/net/{}/statistics/{}", device, name);
  DeviceCounter counter;
  counter.file_ = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!counter.file_.valid()) return absl::ErrnoToStatus(errno, "cannot read " + path);
  counter.Read();
  counter.first_ = counter.last_;
  return counter;
}

std::uint64_t DeviceCounter::Read() noexcept {
  std::array<char, 32> digits;
  const ssize_t bytes = pread(file_.get(), digits.data(), digits.size(), 0);
  if (bytes > 0) std::from_chars(digits.data(), digits.data() + bytes, last_);
  return last_ - first_;
}

// ------------------------------------------------------------------ who has it open

absl::StatusOr<OpenTap> OpenTap::Find(pid_t pid, const std::string& device) {
  namespace fs = std::filesystem;
  UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid())
    return absl::ErrnoToStatus(errno, fmt::format("cannot watch process {}", pid));
  std::error_code error;
  int queue = -1;
  fs::directory_iterator file(fmt::format("/proc/{}/fd", pid), error);
  for (; !error && file != fs::directory_iterator(); file.increment(error)) {
    std::error_code gone;
    if (fs::read_symlink(file->path(), gone) != "/dev/net/tun" || gone) continue;
    const int descriptor = std::atoi(file->path().filename().c_str());
    const UniqueFd ours = DuplicateOf(process, descriptor);
    if (ours.valid() && IsQueueOf(ours, device)) {
      if (queue >= 0) return OpenTap(std::move(process), std::min(queue, descriptor), device);
      queue = descriptor;
    }
    if (!ours.valid() && errno != EBADF)
      return absl::ErrnoToStatus(errno,
                                 fmt::format("cannot duplicate the devices of process {}", pid));
  }
  if (error)
    return absl::ErrnoToStatus(error.value(),
                               fmt::format("cannot list the devices of process {}", pid));
  return absl::NotFoundError(fmt::format("process {} has not opened device {}", pid, device));
}

UniqueFd OpenTap::Duplicate() const noexcept { return DuplicateOf(process_, descriptor_); }

bool OpenTap::Empty() const noexcept {
  const UniqueFd ours = Duplicate();
  if (!ours.valid() || !IsQueueOf(ours, device_)) return false;
  pollfd waits{.fd = ours.get(), .events = POLLIN, .revents = 0};
  return poll(&waits, 1, 0) >= 0 && (waits.revents & POLLIN) == 0;
}

void OpenTap::Wake() const noexcept {
  const UniqueFd ours = Duplicate();
  const int signal = ours.valid() ? fcntl(ours.get(), F_GETSIG) : 0;
  if (signal > 0) syscall(SYS_pidfd_send_signal, process_.get(), signal, nullptr, 0);
}

bool OpenTap::HeldBy(pid_t pid) const {
  const auto found = Find(pid, device_);
  return found.ok() && found->descriptor_ == descriptor_ && Duplicate().valid();
}

// ------------------------------------------------------------------ its queue

absl::StatusOr<std::unique_ptr<TapQueue>> TapQueue::Open(const std::string& device,
                                                         const std::string& from,
                                                         std::uint32_t slots) {
  auto read = DeviceCounter::Open(device, "tx_packets");
  if (!read.ok()) return read.status();
  std::unique_ptr<TapQueue> queue(new TapQueue(*std::move(read), slots));
  if (from.empty()) return queue;
  auto dropped = DeviceCounter::Open(device, "tx_dropped");
  if (!dropped.ok()) return dropped.status();
  queue->dropped_ = *std::move(dropped);
  auto written = DeviceCounter::Open(from, "rx_packets");
  if (!written.ok()) return written.status();
  queue->written_ = *std::move(written);
  return queue;
}

std::uint32_t TapQueue::Put() noexcept {
  if (written_) return static_cast<std::uint32_t>(written_->Read());
  return sent_ == nullptr ? 0 : __atomic_load_n(sent_, __ATOMIC_ACQUIRE);
}

// What came in between was put and has not gone: so too much waits, not too little.
TapQueue::Account TapQueue::Take() noexcept {
  const std::uint64_t read = read_.Read(), dropped = Refused();
  return {.read = read, .dropped = dropped, .put = Put()};
}

std::int32_t TapQueue::Left(const Account& at) const noexcept {
  const auto lost = static_cast<std::uint64_t>(lost_);
  return static_cast<std::int32_t>(at.put -
                                   static_cast<std::uint32_t>(at.read + at.dropped + lost));
}

void TapQueue::Publish(const Account& at) noexcept {
  const auto waiting =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(Left(at), 0, std::int64_t{capacity_}));
  const auto taken = static_cast<std::uint32_t>(at.read);
  const std::uint32_t grown = taken + waiting - put_;
  __atomic_store_n(&waiting_, waiting, __ATOMIC_RELEASE);
  if (static_cast<std::int32_t>(grown) > 0) __atomic_store_n(&put_, put_ + grown, __ATOMIC_RELEASE);
  __atomic_store_n(&taken_, taken, __ATOMIC_RELEASE);
  gone_.store(at.put - waiting, std::memory_order_release);
}

void TapQueue::Look(const OpenTap& program) noexcept {
  const std::uint64_t now = rte_get_tsc_cycles();
  if (now - looked_ < rte_get_tsc_hz() / kLooks) return;
  looked_ = now;
  const std::unique_lock lock(counting_, std::try_to_lock);
  if (!lock) return;
  Account at = {.read = read_.Read(), .dropped = before_.dropped, .put = Put()};
  if (Left(at) != 0) at = Take();
  Correct(at, program);
  Publish(at);
  before_ = at;
}

// The kernel counts what a program has read or written just behind that: so a number that does not
// fit is believed when it is the same at two looks. What is believed wrongly shows, and is taken
// back.
void TapQueue::Correct(const Account& at, const OpenTap& program) noexcept {
  const std::int32_t left = Left(at);
  still_ = left > 0 && at.read == before_.read ? still_ + 1 : 0;
  if (still_ >= kStill) unsure_ = true;
  if (left == 0 || at != before_) return;
  if (left > 0 && !unsure_) return;
  if (left > 0) {
    still_ = 0;
    unsure_ = false;
    if (!program.Empty()) {
      if (std::exchange(woken_, at.read + 1) != at.read + 1) program.Wake();
      return;
    }
    // Whatever was put before it was empty has gone.
    if (Take() != at) return;
  }
  lost_ += left;
}

Occupancy TapQueue::occupancy() const {
  return Occupancy::Told({.ahead = &put_, .behind = &taken_}, &waiting_, capacity_);
}

std::uint32_t TapQueue::Room(std::uint32_t most, std::uint32_t sent) const noexcept {
  return std::min(most,
                  capacity_ - std::min(capacity_, sent - gone_.load(std::memory_order_acquire)));
}

void TapQueue::Begin() noexcept {
  const std::lock_guard lock(counting_);
  if (!held_) Lose();
  held_ = unsure_ = true;
}

void TapQueue::Abandon() noexcept {
  const std::lock_guard lock(counting_);
  Lose();
  held_ = false;
}

// All that is left.
void TapQueue::Lose() noexcept {
  constexpr int kTries = 16;
  Account at = Take();
  for (int i = 0; i < kTries; ++i)
    if (const Account before = std::exchange(at, Take()); before == at) break;
  lost_ += Left(at);
  Publish(at);
}

std::uint64_t TapQueue::Dropped() noexcept {
  const std::lock_guard lock(counting_);
  if (!held_) Lose();
  return Refused() + static_cast<std::uint64_t>(std::max<std::int64_t>(lost_, 0));
}

}  // namespace unis
