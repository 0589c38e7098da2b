#include "engine/platform/sink.h"

#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <array>
#include <span>

#include "engine/platform/payload_stamp.h"

namespace unis {

Sink::Sink(const PacketMemory& memory, const Chains& chains, std::shared_ptr<EthPort> port,
           std::shared_ptr<PassageLog> passages)
    : Component("unis_sink"),
      memory_(memory),
      chains_(chains),
      port_(std::move(port)),
      passages_(std::move(passages)) {}

std::uint32_t Sink::Iterate() noexcept {
  std::uint32_t taken = 0;
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    for (LinkEnd* egress : chains_[chain]->ends().egresses) taken += Take(chain, *egress);
    for (LinkEnd* drain : chains_[chain]->ends().drains) taken += Drain(*drain);
  }
  return taken;
}

bool Sink::FreeSent() {
  bool freed = true;
  if (port_) Do([&] { freed = port_->FreeSent(); });
  return freed;
}

std::uint32_t Sink::Drain(LinkEnd& drain) noexcept {
  std::array<rte_mbuf*, kBurst> packets;
  const unsigned count = drain.Receive(packets.data(), kBurst);
  drain.received.Add(count);
  copies_ended_.Add(count);
  rte_pktmbuf_free_bulk(packets.data(), count);
  return count;
}

std::uint32_t Sink::Take(std::size_t number, LinkEnd& egress) noexcept {
  Chain& chain = *chains_[number];
  std::array<rte_mbuf*, kBurst> packets;
  const bool looks = passages_.looks() != 0;
  const std::uint64_t begin = looks ? TscClock::Cycles() : 0;
  const unsigned count = egress.Receive(packets.data(), kBurst);
  if (count == 0) return 0;
  egress.received.Add(count);
  for (unsigned i = 0; i < count; ++i) {
    rte_prefetch0(packets[i]);
    rte_mbuf_prefetch_part2(packets[i]);
  }
  const std::uint64_t now = TscClock::Cycles();
  if (looks) [[unlikely]] {
    passages_.Received(chain.received_sampler, static_cast<std::uint16_t>(number),
                       std::span(packets.data(), count), begin, now);
  }
  const bool mbufs = egress.carries_mbufs();
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < count; ++i) {
    const std::uint64_t stamp = mbufs ? memory_.Stamp(packets[i]) : PayloadStamp::Read(packets[i]);
    if (stamp != 0 && now > stamp) {
      chain.latency.Record(static_cast<std::uint64_t>(clock_.ToNs(now - stamp)));
    }
    bytes += packets[i]->pkt_len;
  }
  unsigned sent = count;
  if (port_) {
    sent = port_->Send(packets.data(), static_cast<std::uint16_t>(count));
    for (unsigned i = sent; i < count; ++i) bytes -= packets[i]->pkt_len;
    rte_pktmbuf_free_bulk(packets.data() + sent, count - sent);
    chain.dropped_sink.Add(count - sent);
  } else {
    rte_pktmbuf_free_bulk(packets.data(), count);
  }
  chain.delivered.Add(sent);
  chain.delivered_bytes.Add(bytes);
  return count;
}

}  // namespace unis
