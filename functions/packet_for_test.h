// One packet in packet memory, for tests of what functions do to its buffer.
#pragma once

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "functions/common/checksum.h"
#include "functions/common/headers.h"
#include "functions/test_eal.h"

namespace unis::functions {

using Bytes = std::vector<std::uint8_t>;

// Ethernet and IPv4 without options around `payload`.
inline Bytes Ipv4Frame(std::uint8_t protocol, const Bytes& payload) {
  constexpr std::uint32_t kHeaders = kEtherHeader + kIpv4MinHeader;
  Bytes frame(kHeaders + payload.size(), 2);
  StoreBe16(&frame[12], kEtherIpv4);
  std::uint8_t* const ip = &frame[kEtherHeader];
  std::memset(ip, 0, kIpv4MinHeader);
  ip[0] = 0x45;
  StoreBe16(ip + 2, static_cast<std::uint16_t>(kIpv4MinHeader + payload.size()));
  ip[kIpv4TtlAt] = 64;
  ip[9] = protocol;
  StoreBe32(ip + kIpv4SourceAt, 0x0a000001);
  StoreBe32(ip + kIpv4DestinationAt, 0x0a000002);
  StoreBe16(ip + kIpv4ChecksumAt, static_cast<std::uint16_t>(~OnesSum({ip, kIpv4MinHeader})));
  std::ranges::copy(payload, frame.begin() + kHeaders);
  return frame;
}

class PacketTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(StartTestEal());
    pool_.reset(rte_pktmbuf_pool_create("packet_for_test", 63, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
                                        SOCKET_ID_ANY));
    ASSERT_NE(pool_, nullptr);
  }

  using Packet = std::unique_ptr<rte_mbuf, decltype(&rte_pktmbuf_free)>;
  Packet Make(const Bytes& frame) {
    Packet packet(rte_pktmbuf_alloc(pool_.get()), &rte_pktmbuf_free);
    std::memcpy(rte_pktmbuf_append(packet.get(), static_cast<std::uint16_t>(frame.size())),
                frame.data(), frame.size());
    return packet;
  }
  static Bytes BytesOf(rte_mbuf* packet) {
    return {Frame(packet), Frame(packet) + packet->data_len};
  }

 private:
  struct FreePool {
    void operator()(rte_mempool* pool) const { rte_mempool_free(pool); }
  };
  std::unique_ptr<rte_mempool, FreePool> pool_;
};

}  // namespace unis::functions
