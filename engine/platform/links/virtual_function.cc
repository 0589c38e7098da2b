#include "engine/platform/links/virtual_function.h"

#include <fmt/format.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "engine/platform/links/kinds.h"
#include "engine/platform/packet_memory.h"

namespace unis {

// ------------------------------------------------------------------ the engine's end

std::uint16_t VirtualFunctionEnd::Send(rte_mbuf** packets, std::uint16_t count) noexcept {
  if (next_.stated())
    for (std::uint16_t i = 0; i < count; ++i) next_.Write(packets[i]);
  const std::uint16_t sent = port_.Send(packets, count);
  refused_at_ = sent < count ? rte_rdtsc() : 0;
  return sent;
}

std::uint32_t VirtualFunctionEnd::Room() noexcept {
  if (const auto room = port_.HasRoom(kBurst)) return *room ? kBurst : 0;
  if (refused_at_ == 0) return kBurst;
  const std::uint64_t pause = rte_get_tsc_hz() / 1'000'000 * kRefusedUs;
  return rte_rdtsc() - refused_at_ < pause ? 0 : kBurst;
}

// ------------------------------------------------------------------ the link

namespace {

// None: it changes, because packets move.
std::optional<std::uint32_t> InUseAtRest(const rte_mempool* pool) {
  constexpr int kLooks = 20;
  constexpr unsigned kBetweenUs = 50;
  const std::uint32_t first = rte_mempool_in_use_count(pool);
  for (int look = 0; look < kLooks; ++look) {
    rte_delay_us_sleep(kBetweenUs);
    if (rte_mempool_in_use_count(pool) != first) return std::nullopt;
  }
  return first;
}

// To receive, each with a buffer. A driver that does not tell has none, as net_af_packet.
std::uint32_t Descriptors(const EthPort& port) {
  rte_eth_rxq_info queue{};
  return rte_eth_rx_queue_info_get(port.id(), 0, &queue) == 0 ? queue.nb_desc : 0;
}

}  // namespace

// Of what its receive queue holds no driver tells exactly how much: the difference says so. While
// packets move that is theirs as well.
absl::StatusOr<std::unique_ptr<VirtualFunctionLink>> VirtualFunctionLink::Create(
    const v1::LinkConfig& config, rte_mempool* pool) {
  std::unique_ptr<VirtualFunctionLink> link(new VirtualFunctionLink(config.slots()));
  const v1::VirtualFunctions& ends = config.sriov();
  if (!ends.engine_end()) return link;
  const auto slots = static_cast<std::uint16_t>(config.slots());
  const bool addressed = !ends.next_mac().empty();
  const auto before = InUseAtRest(pool);
  auto port = EthPort::Open(ends.address0(), pool, {.rx = slots, .tx = slots}, !addressed);
  if (!port.ok())
    return absl::Status(port.status().code(), fmt::format("link {}: {}", config.name(),
                                                          std::string(port.status().message())));
  const auto after = InUseAtRest(pool);
  link->held_ = before && after ? *after - std::min(*before, *after) : Descriptors(*port);
  NextHop next;
  if (addressed) next = NextHop(ends.next_mac(), port->Address());
  link->end_ = std::make_unique<VirtualFunctionEnd>(*std::move(port), next);
  return link;
}

// What the NIC had no descriptor for: of a program's port its driver alone counts that.
std::uint64_t VirtualFunctionLink::Dropped(unsigned direction) {
  return end_ && direction == 0 ? end_->port().Missed() : 0;
}

Link::Passed VirtualFunctionLink::Counts::Of(unsigned direction) const noexcept {
  const unis_port_count& count = turns->port(port);
  const auto load = [](const std::uint64_t& word) {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
  };
  if (direction == 0) return {.packets = load(count.received), .bytes = 0};
  const std::uint64_t packets = load(count.sent);  // first: its bytes are there before it
  return {.packets = packets, .bytes = load(count.sent_bytes)};
}

Link::Passed VirtualFunctionLink::passed(unsigned direction) const {
  Passed all = before_[direction];
  if (!now_) return all;
  const Passed since = now_->Of(direction);
  all.packets += since.packets;
  all.bytes += since.bytes;
  return all;
}

absl::StatusOr<std::unique_ptr<Link::Found>> VirtualFunctionLink::FindCounts(
    pid_t pid, std::size_t port) const {
  if (now_ && now_->pid == pid) return nullptr;
  if (port >= UNIS_TURNS_PORTS)
    return absl::InvalidArgumentError(fmt::format("port {} of a function is not counted", port));
  auto turns = Turns::Find(pid);
  if (!turns.ok()) return turns.status();
  auto found = std::make_unique<Counts>();
  found->pid = pid;
  found->turns = *std::move(turns);
  found->port = port;
  return found;
}

void VirtualFunctionLink::Take(std::unique_ptr<Found> found) {
  Forget(0);
  now_.reset(static_cast<Counts*>(found.release()));
}

void VirtualFunctionLink::Forget(unsigned) {
  for (unsigned direction = 0; direction < before_.size(); ++direction)
    before_[direction] = passed(direction);
  now_.reset();
}

// ------------------------------------------------------------------ the kind

namespace {

class VirtualFunctions final : public LinkKind {
 public:
  std::string name() const override { return "sriov"; }
  bool in_group() const override { return false; }
  bool can_be_read() const override { return false; }
  bool hands_over_at_once() const override { return false; }
  v1::LinkConfig::SettingsCase settings() const override { return v1::LinkConfig::kSriov; }
  bool engine_has_end(const v1::LinkConfig& config) const override {
    return config.sriov().engine_end();
  }
  bool is_wire(const v1::LinkConfig& config) const override {
    return config.sriov().address1().empty();
  }
  // What waits to be filled, and what was sent and is not freed.
  std::uint32_t packets(const v1::LinkConfig& config) const override {
    return engine_has_end(config) ? 2 * config.slots() + 2 * kBurst : 0;
  }
  absl::Status Check(const v1::LinkConfig& config, bool foreign) const override {
    if (foreign) return WrongLink(config, "is foreign, which an sriov cannot be");
    if (!config.has_slots()) return WrongLink(config, "has no slots");
    if (config.slots() > kMostDescriptors)
      return WrongLink(config, fmt::format("has {} slots; an sriov has at most {}", config.slots(),
                                           kMostDescriptors));
    if (is_wire(config) && engine_has_end(config))
      return WrongLink(config, "is a wire, of which a function has the end");
    if (config.sriov().address0() == config.sriov().address1())
      return WrongLink(config, "has the same device at both ends");
    return CheckNextMac(config, config.sriov().next_mac());
  }
  absl::Status CheckBeside(const v1::LinkConfig& config,
                           const v1::LinkConfig& other) const override {
    for (const auto& one : {config.sriov().address0(), config.sriov().address1()})
      for (const auto& another : {other.sriov().address0(), other.sriov().address1()})
        if (one == another && !one.empty())
          return WrongLink(config, fmt::format("has device {}, as link {}", one, other.name()));
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Link>> Make(const v1::LinkConfig& config, bool,
                                             rte_mempool* pool) const override {
    return VirtualFunctionLink::Create(config, pool);
  }

 private:
  static constexpr std::uint32_t kMostDescriptors = 32768;
};

}  // namespace

const LinkKind& SriovKind() {
  static const VirtualFunctions kind;
  return kind;
}

}  // namespace unis
