#include "engine/platform/traffic_source.h"

#include <rte_cycles.h>
#include <rte_memcpy.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <limits>

#include "engine/platform/payload_stamp.h"

namespace unis {
namespace {

// The same arrivals in every run.
constexpr std::uint64_t kSeed = 1, kPicksSeed = 2;

ArrivalSchedule MakeSchedule() { return {static_cast<double>(rte_get_tsc_hz()), kSeed}; }

std::size_t After(std::size_t at, std::size_t size) { return at + 1 == size ? 0 : at + 1; }

constexpr double kHold = 5'000;  // ns; for which packets wait for others at most, between naps
constexpr double kFarApart = 1'000'000;  // ns; the scheduler wakes functions at once then

// Written last by an NF on another core: all lines are asked for before the first is needed.
void Prefetch(rte_mbuf* const* packets, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    __builtin_prefetch(rte_pktmbuf_mtod(packets[i], void*), 1);
  }
}

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
                             Classifier classifier, std::vector<List> lists, Rate rate,
                             std::shared_ptr<PassageLog> passages)
    : Component("unis_source"),
      memory_(memory),
      chains_(chains),
      classifier_(std::move(classifier)),
      passages_(std::move(passages)),
      schedule_(MakeSchedule()),
      picks_(kPicksSeed) {
  Take(std::move(classifier_), std::move(lists), rate);
}

TrafficSource::TrafficSource(const PacketMemory& memory, const Chains& chains,
                             Classifier classifier, std::shared_ptr<EthPort> port)
    : Component("unis_source"),
      memory_(memory),
      chains_(chains),
      classifier_(std::move(classifier)),
      port_(std::move(port)),
      passages_(nullptr),
      schedule_(MakeSchedule()),
      picks_(kPicksSeed) {}

void TrafficSource::Take(Classifier classifier, std::vector<List> lists, Rate rate) {
  classifier_ = std::move(classifier);
  rate_ = rate;
  begun_ = false;
  lists_ = std::move(lists);
  next_list_ = 0;
  held_ = MostHeld();
}

void TrafficSource::SetRate(const Rate& rate) {
  Do([this, &rate] {
    rate_ = rate;
    begun_ = false;
  });
}

std::uint32_t TrafficSource::Iterate() noexcept {
  if (paused_.load(std::memory_order_relaxed)) {
    begun_ = false;
    return 0;
  }
  if (port_) return ReceivePackets();
  if (lists_.empty()) return 0;
  return rate_.limited() ? SendDue() : SendFrames();
}

std::int64_t TrafficSource::IdleNs() noexcept {
  if (port_) return 0;  // whose queue a burst would fill during a nap
  if (paused_.load(std::memory_order_relaxed) || lists_.empty()) return LcoreNap::kUntilGiven;
  if (!rate_.limited() || !begun_) return 0;  // it waits for room in a link
  // The source may nap until `held_` packets are due, or the first one has waited for the slack.
  // Where packets are far apart, it naps until the next one is due.
  const bool far_apart = schedule_.gap() >= clock_.ToCycles(kFarApart);
  const auto slack = far_apart ? 0.0 : static_cast<double>(LcoreNap::Of(lcore()).slack_ns());
  return clock_.ToNs(
      schedule_.UntilBurst(rte_rdtsc(), held_, static_cast<std::uint64_t>(clock_.ToCycles(slack))));
}

// An eighth of the shortest first link: half of what wakes functions that sleep.
std::uint32_t TrafficSource::MostHeld() const noexcept {
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  for (const auto& chain : chains_)
    if (chain->ingress() != nullptr) least = std::min(least, chain->ingress()->capacity());
  return std::max(1U, least / 8);
}

std::uint32_t TrafficSource::ReceivePackets() noexcept {
  std::array<rte_mbuf*, kBurst> packets;
  const std::uint16_t count = port_->Receive(packets.data(), kBurst);
  if (count == 0) return 0;
  const std::uint64_t now = rte_rdtsc();
  for (std::uint16_t i = 0; i < count; ++i) memory_.Stamp(packets[i]) = now;
  std::array<std::int32_t, kBurst> chains;
  const std::span received(packets.data(), count);
  classifier_.Classify(received, chains);
  Steer(received, chains);
  return count;
}

std::uint32_t TrafficSource::SendFrames() noexcept {
  List& list = NextList();
  if (IsDown(list)) return Skip(list);
  const std::uint32_t limit = RoomFor(list, kBurst);
  if (limit == 0) return 0;
  std::array<rte_mbuf*, kBurst> packets;
  std::array<std::int32_t, kBurst> chains;
  chains.fill(list.chain[list.next]);  // of all that RoomFor() counts
  if (!TakeFrames(list, std::span(packets.data(), limit))) return 0;
  Steer(std::span(packets.data(), limit), chains);
  return limit;
}

std::uint32_t TrafficSource::SendDue() noexcept {
  const std::uint64_t now = rte_rdtsc();
  if (!begun_) schedule_.Begin(rate_, now);
  begun_ = true;
  // Else hardly a turn would be without a packet, and the lcore would never nap.
  if (LcoreNap::Of(lcore()).slack_ns() > 0 &&
      !schedule_.IsBurstDue(now, std::min(held_, kBurst / 2),
                            static_cast<std::uint64_t>(clock_.ToCycles(kHold))))
    return 0;
  if (!schedule_.IsDue(now)) return 0;
  struct Due {
    const List* list;
    std::size_t frame;
    std::uint64_t at;
  };
  std::array<Due, kBurst> due;
  std::uint32_t count = 0;
  do {
    List& list = NextList();
    const std::uint32_t bits = 8 * (list.frames[list.next].length + kFcs);
    due[count++] = {.list = &list, .frame = list.next, .at = schedule_.Take(bits)};
    list.next = After(list.next, list.frames.size());
  } while (count < kBurst && schedule_.IsDue(now));
  std::array<rte_mbuf*, kBurst> packets;
  if (rte_pktmbuf_alloc_bulk(memory_.pool(), packets.data(), count) != 0) [[unlikely]] {
    for (std::uint32_t i = 0; i < count; ++i) DropUnmade(due[i].list->chain[due[i].frame]);
    return count;
  }
  Prefetch(packets.data(), count);
  std::array<std::int32_t, kBurst> chains;
  for (std::uint32_t i = 0; i < count; ++i) {
    Fill(packets[i], *due[i].list, due[i].frame, due[i].at);
    chains[i] = due[i].list->chain[due[i].frame];
  }
  Steer(std::span(packets.data(), count), chains);
  return count;
}

// Independent draws split a Poisson process into such processes; turns would not.
TrafficSource::List& TrafficSource::NextList() noexcept {
  if (rate_.arrivals == Arrivals::kPoisson) return lists_[picks_.Next() % lists_.size()];
  List& list = lists_[next_list_];
  next_list_ = After(next_list_, lists_.size());
  return list;
}

void TrafficSource::DropUnmade(std::int32_t chain) noexcept {
  if (chain == Classifier::kNone) return unclassified_.Add(1);
  chains_[static_cast<std::size_t>(chain)]->offered.Add(1);
  chains_[static_cast<std::size_t>(chain)]->dropped_ingress_full.Add(1);
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
  list.next = After(list.next, list.frames.size());
  return 1;
}

// How many of the next frames of a list, all of one chain, find room in its link.
std::uint32_t TrafficSource::RoomFor(const List& list, std::uint32_t limit) noexcept {
  const std::int32_t chain = list.chain[list.next];
  if (chain == Classifier::kNone) return 1;
  LinkEnd& ingress = *chains_[static_cast<std::size_t>(chain)]->ingress();
  limit = std::min(limit, ingress.capacity());
  // Full bursts, and a look at the link's far end only now and then.
  if (ingress.Room() < limit) return 0;
  std::uint32_t run = 1;
  for (std::size_t i = After(list.next, list.frames.size()); run < limit && list.chain[i] == chain;
       i = After(i, list.frames.size()))
    ++run;
  return run;
}

// False: there is no memory.
bool TrafficSource::TakeFrames(List& list, std::span<rte_mbuf*> packets) noexcept {
  const auto count = static_cast<std::uint32_t>(packets.size());
  if (rte_pktmbuf_alloc_bulk(memory_.pool(), packets.data(), count) != 0) return false;
  Prefetch(packets.data(), count);
  const std::uint64_t now = rte_rdtsc();
  for (rte_mbuf* packet : packets) {
    Fill(packet, list, list.next, now);
    list.next = After(list.next, list.frames.size());
  }
  return true;
}

void TrafficSource::Fill(rte_mbuf* packet, const List& list, std::size_t frame,
                         std::uint64_t stamp) noexcept {
  const Frames::Frame& of = list.frames[frame];
  rte_memcpy(rte_pktmbuf_mtod(packet, void*), list.frames.Bytes(of).data(), of.stored);
  if (of.stamped) PayloadStamp::Write(rte_pktmbuf_mtod(packet, std::byte*), stamp);
  packet->data_len = of.length;
  packet->pkt_len = of.length;
  memory_.Stamp(packet) = stamp;
}

void TrafficSource::Steer(std::span<rte_mbuf*> packets,
                          std::span<const std::int32_t> chains) noexcept {
  // Packets of one chain mostly come together: runs are enqueued whole.
  for (std::size_t begin = 0; begin < packets.size();) {
    std::size_t end = begin + 1;
    while (end < packets.size() && chains[end] == chains[begin]) ++end;
    const auto run = packets.subspan(begin, end - begin);
    if (chains[begin] == Classifier::kNone) {
      rte_pktmbuf_free_bulk(run.data(), static_cast<unsigned>(run.size()));
      unclassified_.Add(run.size());
    } else {
      Enqueue(static_cast<std::size_t>(chains[begin]), run);
    }
    begin = end;
  }
}

void TrafficSource::Enqueue(std::size_t number, std::span<rte_mbuf*> packets) noexcept {
  Chain& chain = *chains_[number];
  const auto count = static_cast<unsigned>(packets.size());
  chain.offered.Add(count);
  if (!chain.up.load(std::memory_order_relaxed)) [[unlikely]] {
    rte_pktmbuf_free_bulk(packets.data(), count);
    chain.dropped_down.Add(count);
    return;
  }
  const auto send = [&] {
    return chain.ingress()->Send(packets.data(), static_cast<std::uint16_t>(count));
  };
  const unsigned taken =
      passages_.looks() == 0
          ? send()
          : passages_.Sent(chain.sent_sampler, static_cast<std::uint16_t>(number), packets, send);
  chain.ingress()->sent.Add(taken);
  if (taken == count) return;
  rte_pktmbuf_free_bulk(packets.data() + taken, count - taken);
  chain.dropped_ingress_full.Add(count - taken);
}

}  // namespace unis
