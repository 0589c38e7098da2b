// Writes packets over and over, as the source does in operation: what the engine's CPU is busy with
// while the cost of a switch is measured.
#pragma once

#include <rte_mbuf.h>

#include <cstring>
#include <vector>

#include "engine/platform/frames.h"
#include "engine/platform/packet_memory.h"

namespace unis {

class PacketWork {
 public:
  explicit PacketWork(const PacketMemory& memory) {
    while (packets_.size() < kPackets) {
      rte_mbuf* const packet = rte_pktmbuf_alloc(memory.pool());
      if (packet == nullptr) break;
      packets_.push_back(packet);
    }
  }
  ~PacketWork() { rte_pktmbuf_free_bulk(packets_.data(), static_cast<unsigned>(packets_.size())); }
  PacketWork(const PacketWork&) = delete;
  PacketWork& operator=(const PacketWork&) = delete;

  void Burst() {
    for (std::size_t i = 0; i < kBurst && !packets_.empty(); ++i) {
      next_ = next_ + 1 < packets_.size() ? next_ + 1 : 0;
      rte_pktmbuf_reset(packets_[next_]);
      std::memset(rte_pktmbuf_mtod(packets_[next_], void*), 0, kMinFrame);
    }
  }

 private:
  static constexpr std::size_t kPackets = 4096;  // two rings full
  std::vector<rte_mbuf*> packets_;
  std::size_t next_ = 0;
};

}  // namespace unis
