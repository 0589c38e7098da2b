#include "engine/platform/bridge.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/platform/payload_stamp.h"

namespace unis {

void Bridges::Add(LinkEnd& from, std::vector<Branch> branches, Classifier classifier) {
  std::size_t ways = 0;
  std::uint64_t weights = 0;
  for (const Branch& branch : branches) {
    ways += branch.copy ? 0 : 1;
    weights += branch.weight;
  }
  bridges_.push_back({&from, std::move(branches), ways, weights, std::move(classifier)});
}

std::uint32_t Bridges::Iterate() noexcept {
  std::uint32_t carried = 0;
  // Begins with another bridge each time: where several lead into one link, the first takes its
  // room.
  first_ = first_ + 1 < bridges_.size() ? first_ + 1 : 0;
  for (std::size_t i = 0; i < bridges_.size(); ++i) {
    const std::size_t at = first_ + i < bridges_.size() ? first_ + i : first_ + i - bridges_.size();
    carried += Carry(bridges_[at]);
  }
  return carried;
}

std::uint32_t Bridges::Carry(const Bridge& bridge) noexcept {
  std::uint32_t room = kBurst;
  for (std::size_t i = 0; i < bridge.ways && room > 0; ++i)
    if (LinkEnd& to = *bridge.branches[i].to; !to.closed) room = std::min(room, to.Room());
  if (room == 0) return 0;
  std::array<rte_mbuf*, kBurst> burst;
  const std::uint16_t count = bridge.from->Receive(burst.data(), static_cast<std::uint16_t>(room));
  if (count == 0) return 0;
  bridge.from->received.Add(count);
  const std::span packets(burst.data(), count);
  if (!bridge.from->carries_mbufs())
    for (rte_mbuf* packet : packets) memory_.Stamp(packet) = PayloadStamp::Read(packet);
  for (std::size_t i = bridge.ways; i < bridge.branches.size(); ++i)
    Copy(bridge.branches[i], packets);
  if (bridge.ways == 1)
    Send(bridge.branches.front(), packets);
  else
    Divide(bridge, packets);
  return count;
}

void Bridges::Divide(const Bridge& bridge, std::span<rte_mbuf* const> packets) noexcept {
  // Written last on another CPU: all lines are asked for before the first is needed.
  for (rte_mbuf* packet : packets) rte_prefetch0(packet);
  for (rte_mbuf* packet : packets) rte_prefetch0(rte_pktmbuf_mtod(packet, void*));
  std::array<std::int32_t, kBurst> way;
  if (bridge.weights == 0) bridge.classifier.Classify(packets, way);
  for (std::size_t i = 0; bridge.weights > 0 && i < packets.size(); ++i) {
    std::uint64_t at = FlowHash(packets[i]) * bridge.weights >> 32;
    way[i] = 0;
    for (; at >= bridge.branches[way[i]].weight; ++way[i]) at -= bridge.branches[way[i]].weight;
  }
  for (std::size_t branch = 0; branch < bridge.ways; ++branch) {
    std::array<rte_mbuf*, kBurst> own;
    std::size_t count = 0;
    for (std::size_t i = 0; i < packets.size(); ++i)
      if (way[i] == static_cast<std::int32_t>(branch)) own[count++] = packets[i];
    if (count > 0) Send(bridge.branches[branch], std::span(own.data(), count));
  }
}

void Bridges::Send(const Branch& branch, std::span<rte_mbuf*> packets) noexcept {
  const auto count = static_cast<std::uint16_t>(packets.size());
  const std::uint16_t sent = branch.to->closed ? 0 : branch.to->Send(packets.data(), count);
  branch.to->sent.Add(sent);
  branch.carried->packets.Add(sent);
  if (sent < count) [[unlikely]] {
    rte_pktmbuf_free_bulk(packets.data() + sent, count - sent);
    branch.carried->dropped.Add(count - sent);
    branch.lost->Add(count - sent);
  }
}

void Bridges::Copy(const Branch& branch, std::span<rte_mbuf* const> packets) noexcept {
  std::array<rte_mbuf*, kBurst> copies;
  const std::size_t room =
      branch.to->closed ? 0 : std::min<std::size_t>(packets.size(), branch.to->Room());
  std::uint16_t made = 0;
  while (made < room &&
         (copies[made] = rte_pktmbuf_copy(packets[made], memory_.pool(), 0, UINT32_MAX)) != nullptr)
    ++made;
  const std::uint16_t sent = branch.to->Send(copies.data(), made);
  rte_pktmbuf_free_bulk(copies.data() + sent, made - sent);
  branch.to->sent.Add(sent);
  branch.carried->packets.Add(sent);
  branch.carried->dropped.Add(packets.size() - sent);
  copied_.Add(sent);
  copies_dropped_.Add(packets.size() - sent);
}

}  // namespace unis
