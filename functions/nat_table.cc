#include "functions/nat_table.h"

#include <algorithm>
#include <numeric>

#include "functions/common/headers.h"

namespace unis::functions {
namespace {

constexpr std::uint32_t kSlotsPerBurst = 4;
// A flood of new flows against a full table must not make each burst scan all of it.
constexpr std::uint32_t kSlotsWhenFull = 256;

}  // namespace

PublicPorts::PublicPorts(std::uint16_t first, std::uint16_t last)
    : free_(static_cast<std::size_t>(last - first) + 1), count_(free_.size()) {
  std::iota(free_.begin(), free_.end(), first);
}

std::optional<std::uint16_t> PublicPorts::Take() {
  if (count_ == 0) return std::nullopt;
  const std::uint16_t port = free_[head_];
  head_ = (head_ + 1) % free_.size();
  --count_;
  return port;
}

void PublicPorts::GiveBack(std::uint16_t port) {
  free_[(head_ + count_) % free_.size()] = port;
  ++count_;
}

Result<NatTable> NatTable::Create(const Limits& limits) {
  auto table = FlowTable<Ipv4FlowKey>::Create("nat", limits.max_flows);
  if (!table) return table.error();
  return NatTable(std::move(*table), limits);
}

NatTable::NatTable(FlowTable<Ipv4FlowKey> table, const Limits& limits)
    : table_(std::move(table)),
      flows_(table_.capacity()),
      spaces_(3, {PublicPorts(limits.first_port, limits.last_port),
                  std::vector<std::uint32_t>(std::size_t{limits.last_port} + 1)}),
      idle_timeout_(limits.idle_timeout) {}

NatTable::PortSpace& NatTable::SpaceOf(std::uint32_t protocol) {
  return spaces_[protocol == kTcp ? 0 : protocol == kUdp ? 1 : 2];
}

void NatTable::BeginBurst(std::uint64_t now) {
  now_ = now;
  swept_when_full_ = false;
  Sweep(kSlotsPerBurst);
}

void NatTable::LookupBurst(const Ipv4FlowKey* keys, std::uint16_t count, NatFlow** flows) {
  std::int32_t positions[kBurst];
  table_.LookupBurst(keys, count, positions);
  for (std::uint16_t i = 0; i < count; ++i) {
    flows[i] = positions[i] < 0 ? nullptr : &flows_[static_cast<std::size_t>(positions[i])];
    if (flows[i] != nullptr) rte_prefetch0(flows[i]);
  }
  // Also keeps them from the sweep when a later packet of the burst finds the table full.
  for (std::uint16_t i = 0; i < count; ++i) {
    if (flows[i] != nullptr) flows[i]->last_seen = now_;
  }
}

NatFlow* NatTable::FindOrAdd(const Ipv4FlowKey& key) {
  NatFlow* flow = TryAdd(key);
  if (flow == nullptr && !swept_when_full_) {
    swept_when_full_ = true;
    Sweep(kSlotsWhenFull);
    flow = TryAdd(key);
  }
  if (flow != nullptr) flow->last_seen = now_;
  return flow;
}

NatFlow* NatTable::TryAdd(const Ipv4FlowKey& key) {
  const std::int32_t position = table_.Add(key);
  if (position < 0) return nullptr;
  NatFlow& flow = flows_[static_cast<std::size_t>(position)];
  if (flow.public_port != 0) return &flow;  // an earlier packet of the burst added it
  PortSpace& space = SpaceOf(key.protocol);
  const auto port = space.free.Take();
  if (!port) {
    table_.Remove(key);
    return nullptr;
  }
  flow = {key, now_, *port};
  space.position_of[*port] = static_cast<std::uint32_t>(position) + 1;
  ++active_;
  return &flow;
}

NatFlow* NatTable::FindReply(std::uint32_t protocol, std::uint16_t public_port,
                             std::uint32_t remote, std::uint16_t remote_port) {
  const PortSpace& space = SpaceOf(protocol);
  if (public_port >= space.position_of.size()) return nullptr;
  const std::uint32_t position = space.position_of[public_port];
  if (position == 0) return nullptr;
  NatFlow& flow = flows_[position - 1];
  if (flow.key.destination != remote || flow.key.destination_port != remote_port) return nullptr;
  flow.last_seen = now_;
  return &flow;
}

void NatTable::Sweep(std::uint32_t slots) {
  slots = std::min(slots, table_.capacity());
  for (std::uint32_t i = 0; i < slots; ++i) {
    NatFlow& flow = flows_[hand_];
    hand_ = hand_ + 1 == flows_.size() ? 0 : hand_ + 1;
    // Signed: clocks of two cores may differ by a little when the thread has moved.
    const auto age = static_cast<std::int64_t>(now_ - flow.last_seen);
    if (flow.public_port != 0 && age > static_cast<std::int64_t>(idle_timeout_)) Remove(flow);
  }
}

void NatTable::Remove(NatFlow& flow) {
  PortSpace& space = SpaceOf(flow.key.protocol);
  space.position_of[flow.public_port] = 0;
  space.free.GiveBack(flow.public_port);
  table_.Remove(flow.key);
  flow = {};
  --active_;
  ++expired_;
}

}  // namespace unis::functions
