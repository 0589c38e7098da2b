#include "engine/platform/traffic_source.h"

#include <rte_cycles.h>
#include <rte_memcpy.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <array>

namespace unis {
namespace {

// After a stall the source catches up on this much time, and no more.
constexpr double kCatchUpSeconds = 1e-3;

}  // namespace

TrafficSource::List::List(Frames wanted, const Classifier& classifier)
    : frames(std::move(wanted)), chain(frames.size(), Classifier::kNone) {
  rte_mbuf packet = {};  // of no pool: the classifier reads its frame alone
  packet.nb_segs = 1;
  rte_mbuf* const packets[] = {&packet};
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const auto bytes = frames.Bytes(frames[i]);
    packet.buf_addr = const_cast<void*>(static_cast<const void*>(bytes.data()));
    packet.buf_len = packet.data_len = static_cast<std::uint16_t>(bytes.size());
    packet.pkt_len = packet.data_len;
    classifier.Classify(packets, std::span(&chain[i], 1));
  }
}

TrafficSource::TrafficSource(const PacketMemory& memory, const Chains& chains,
                             Classifier classifier, std::vector<List> lists, Rate rate)
    : Component("unis_source"),
      memory_(memory),
      chains_(chains),
      classifier_(std::move(classifier)) {
  Take(std::move(classifier_), std::move(lists), rate);
}

TrafficSource::TrafficSource(const PacketMemory& memory, const Chains& chains,
                             Classifier classifier, std::shared_ptr<EthPort> port)
    : Component("unis_source"),
      memory_(memory),
      chains_(chains),
      classifier_(std::move(classifier)),
      port_(std::move(port)) {}

void TrafficSource::Take(Classifier classifier, std::vector<List> lists, Rate rate) {
  classifier_ = std::move(classifier);
  rate_ = rate;
  lists_ = std::move(lists);
  next_list_ = 0;
}

std::uint32_t TrafficSource::Iterate() noexcept {
  if (paused_.load(std::memory_order_relaxed)) {
    last_ = rte_rdtsc();
    credit_ = 0;
    return 0;
  }
  return port_ ? ReceivePackets() : SendFrames();
}

std::uint32_t TrafficSource::ReceivePackets() noexcept {
  std::array<rte_mbuf*, kBurst> packets;
  const std::uint16_t count = port_->Receive(packets.data(), kBurst);
  if (count > 0) Steer(std::span(packets.data(), count));
  return count;
}

std::uint32_t TrafficSource::SendFrames() noexcept {
  const std::uint32_t allowance = rate_.limited() ? Allowance() : kBurst;
  if (allowance == 0 || lists_.empty()) return 0;
  List& list = lists_[next_list_];
  next_list_ = next_list_ + 1 == lists_.size() ? 0 : next_list_ + 1;
  if (!rate_.limited() && IsDown(list)) return Skip(list);
  const std::uint32_t limit = rate_.limited() ? allowance : RoomFor(list, allowance);
  if (limit == 0) return 0;
  std::array<rte_mbuf*, kBurst> packets;
  const std::uint32_t count = TakeFrames(list, limit, packets.data());
  if (rate_.pps > 0) credit_ -= count;
  if (count > 0) Steer(std::span(packets.data(), count));
  return count;
}

// Token bucket.
std::uint32_t TrafficSource::Allowance() noexcept {
  const std::uint64_t now = rte_rdtsc();
  const double per_second = rate_.pps > 0 ? rate_.pps : rate_.bps;
  const double seconds = std::min(
      static_cast<double>(now - last_) / static_cast<double>(rte_get_tsc_hz()), kCatchUpSeconds);
  last_ = now;
  const double most = std::max(per_second * kCatchUpSeconds, rate_.pps > 0 ? 1.0 : 8.0 * kMaxFrame);
  credit_ = std::min(credit_ + seconds * per_second, most);
  if (rate_.pps > 0) return static_cast<std::uint32_t>(std::min<double>(credit_, kBurst));
  return credit_ > 0 ? kBurst : 0;  // TakeFrames pays the bits and stops when they are spent
}

bool TrafficSource::IsDown(const List& list) const noexcept {
  const std::int32_t chain = list.chain[list.next];
  return chain != Classifier::kNone && !chains_[static_cast<std::size_t>(chain)]->up;
}

// A frame for a chain that is down, without the work of making a packet of it. One at a time, so
// that a source without a rate does not drop faster than any chain could be.
std::uint32_t TrafficSource::Skip(List& list) noexcept {
  Chain& chain = *chains_[static_cast<std::size_t>(list.chain[list.next])];
  chain.offered.Add(1);
  chain.dropped_down.Add(1);
  list.next = list.next + 1 == list.frames.size() ? 0 : list.next + 1;
  return 1;
}

// How many of the next frames of a list find room in their rings.
std::uint32_t TrafficSource::RoomFor(const List& list, std::uint32_t limit) noexcept {
  const std::int32_t chain = list.chain[list.next];
  if (chain == Classifier::kNone) return 1;
  const rte_ring* ring = chains_[static_cast<std::size_t>(chain)]->ingress();
  limit = std::min(limit, rte_ring_get_capacity(ring));
  // Full bursts, and a look at the ring's far end only now and then.
  if (rte_ring_free_count(ring) < limit) return 0;
  std::uint32_t run = 1;
  for (std::size_t i = list.next + 1;
       run < limit && i < list.frames.size() && list.chain[i] == chain; ++i)
    ++run;
  return run;
}

std::uint32_t TrafficSource::TakeFrames(List& list, std::uint32_t limit,
                                        rte_mbuf** packets) noexcept {
  limit =
      std::min<std::uint32_t>(limit, static_cast<std::uint32_t>(list.frames.size() - list.next));
  if (rte_pktmbuf_alloc_bulk(memory_.pool(), packets, limit) != 0) return 0;
  // Written last by an NF on another core: all lines are asked for before the first is needed.
  for (std::uint32_t i = 0; i < limit; ++i) {
    __builtin_prefetch(rte_pktmbuf_mtod(packets[i], void*), 1);
  }
  const std::uint64_t now = rte_rdtsc();
  std::uint32_t taken = 0;
  while (taken < limit && (rate_.bps <= 0 || credit_ > 0)) {
    const Frames::Frame& frame = list.frames[list.next + taken];
    rte_mbuf* packet = packets[taken++];
    rte_memcpy(rte_pktmbuf_mtod(packet, void*), list.frames.Bytes(frame).data(), frame.stored);
    packet->data_len = frame.length;
    packet->pkt_len = frame.length;
    memory_.Stamp(packet) = now;
    if (rate_.bps > 0) credit_ -= 8.0 * (frame.length + kFcs);
  }
  if (taken < limit) rte_pktmbuf_free_bulk(packets + taken, limit - taken);
  list.next += taken;
  if (list.next == list.frames.size()) list.next = 0;
  return taken;
}

void TrafficSource::Steer(std::span<rte_mbuf*> packets) noexcept {
  if (port_) {
    const std::uint64_t now = rte_rdtsc();
    for (rte_mbuf* packet : packets) memory_.Stamp(packet) = now;
  }
  std::array<std::int32_t, kBurst> chains;
  classifier_.Classify(packets, chains);
  // Packets of one chain mostly come together: runs are enqueued whole.
  for (std::size_t begin = 0; begin < packets.size();) {
    std::size_t end = begin + 1;
    while (end < packets.size() && chains[end] == chains[begin]) ++end;
    const auto run = packets.subspan(begin, end - begin);
    if (chains[begin] == Classifier::kNone) {
      rte_pktmbuf_free_bulk(run.data(), static_cast<unsigned>(run.size()));
      unclassified_.Add(run.size());
    } else {
      Enqueue(*chains_[static_cast<std::size_t>(chains[begin])], run);
    }
    begin = end;
  }
}

void TrafficSource::Enqueue(Chain& chain, std::span<rte_mbuf*> packets) noexcept {
  const auto count = static_cast<unsigned>(packets.size());
  chain.offered.Add(count);
  if (!chain.up.load(std::memory_order_relaxed)) [[unlikely]] {
    rte_pktmbuf_free_bulk(packets.data(), count);
    chain.dropped_down.Add(count);
    return;
  }
  const unsigned taken = rte_ring_sp_enqueue_burst(
      chain.ingress(), reinterpret_cast<void**>(packets.data()), count, nullptr);
  if (taken == count) return;
  rte_pktmbuf_free_bulk(packets.data() + taken, count - taken);
  chain.dropped_ingress_full.Add(count - taken);
}

}  // namespace unis
