#include "engine/monitor/occupancy.h"

#include <gtest/gtest.h>
#include <rte_ring.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "engine/monitor/link_monitor.h"

namespace unis {
namespace {

// A ring as functions can write it, without DPDK's memory.
class RingInMemory {
 public:
  explicit RingInMemory(std::uint32_t slots)
      : ring_(static_cast<rte_ring*>(std::aligned_alloc(
            RTE_CACHE_LINE_SIZE, static_cast<std::size_t>(rte_ring_get_memsize(slots))))) {
    rte_ring_init(ring_.get(), "ring", slots, RING_F_SP_ENQ | RING_F_SC_DEQ);
  }
  rte_ring* operator->() const { return ring_.get(); }
  rte_ring& operator*() const { return *ring_; }

 private:
  struct Free {
    void operator()(rte_ring* ring) const { std::free(ring); }
  };
  std::unique_ptr<rte_ring, Free> ring_;
};

Occupancy OfRing(const rte_ring& ring) {
  return Occupancy::Filled({.ahead = const_cast<std::uint32_t*>(&ring.prod.tail),
                            .behind = const_cast<std::uint32_t*>(&ring.cons.tail)},
                           rte_ring_get_capacity(&ring));
}

// One direction of a memif, whose positions have 16 bits.
Occupancy::Counters Positions(const std::uint16_t& head, const std::uint16_t& tail) {
  return {.ahead = &head, .behind = &tail, .width = Occupancy::Width::k16};
}

TEST(OccupancyTest, ARingReadsAsDpdkCounts) {
  const RingInMemory ring(1024);
  const Occupancy link = OfRing(*ring);
  std::mt19937 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint32_t behind = static_cast<std::uint32_t>(random());  // also around the wrap
    ring->cons.tail = behind;
    ring->prod.tail = behind + static_cast<std::uint32_t>(random()) % 1024;
    EXPECT_EQ(link.Packets(), rte_ring_count(&*ring));
  }
}

TEST(OccupancyTest, WhateverFunctionsWriteAReadingIsBoundedByTheCapacityAtFirst) {
  const RingInMemory ring(1024);
  std::uint16_t head = 0, tail = 0;
  const Occupancy links[] = {OfRing(*ring), Occupancy::Filled(Positions(head, tail), 512),
                             Occupancy::Free(Positions(head, tail), 512)};
  std::mt19937 random(2);
  for (int i = 0; i < 100'000; ++i) {
    ring->prod.tail = static_cast<std::uint32_t>(random());
    ring->cons.tail = static_cast<std::uint32_t>(random());
    ring->capacity = static_cast<std::uint32_t>(random());
    ring->mask = static_cast<std::uint32_t>(random());
    head = static_cast<std::uint16_t>(random());
    tail = static_cast<std::uint16_t>(random());
    ASSERT_LE(links[0].Packets(), 1023U);
    ASSERT_LE(links[1].Packets(), 512U);
    ASSERT_LE(links[2].Packets(), 512U);
  }
  EXPECT_EQ(links[0].capacity(), 1023U);
}

// Whoever moves a position, sender or receiver: what shows which thread of a function does what.
TEST(OccupancyTest, TellsWhatWasEverPutInAndTakenOut) {
  const RingInMemory ring(1024);
  ring->prod.tail = 0x1'0005;
  ring->cons.tail = 0xffff;
  std::uint16_t head = 7, tail = 3;
  const LinkMonitor monitor({OfRing(*ring), Occupancy::Filled(Positions(head, tail), 512),
                             Occupancy::Free(Positions(head, tail), 512),
                             Occupancy::Unreadable(512)});
  EXPECT_EQ(monitor.Sent(0), 5);
  EXPECT_EQ(monitor.Received(0), 0xffff);
  EXPECT_EQ(monitor.Sent(1), 7);
  EXPECT_EQ(monitor.Received(1), 3);
  EXPECT_EQ(monitor.Sent(2), 3) << "the server uses the slots that the client offers";
  EXPECT_EQ(monitor.Received(2), 7);
  EXPECT_EQ(monitor.Sent(3), 0);
  EXPECT_EQ(monitor.Received(3), 0);
}

TEST(OccupancyTest, AMemifIsFilledByItsClientAndFreedForItsServer) {
  std::uint16_t head = 0, tail = 0;
  const Occupancy to_server = Occupancy::Filled(Positions(head, tail), 512);
  const Occupancy to_client = Occupancy::Free(Positions(head, tail), 512);
  EXPECT_EQ(to_server.Packets(), 0U);
  EXPECT_EQ(to_client.Packets(), 512U) << "the client has offered no slot: nothing can be sent";
  for (const int base : {0, 1, 65'000, 65'535}) {
    tail = static_cast<std::uint16_t>(base);
    head = static_cast<std::uint16_t>(base + 200);
    EXPECT_EQ(to_server.Packets(), 200U);
    EXPECT_EQ(to_client.Packets(), 312U);
  }
}

// With several queue pairs a memif has as many rings each way, one behind the other.
TEST(OccupancyTest, AMemifOfSeveralRingsHoldsWhatAllOfThemDo) {
  struct {
    std::uint16_t head, tail, others[62];
  } rings[3] = {};
  const Occupancy::Counters at{.ahead = &rings[0].head,
                               .behind = &rings[0].tail,
                               .width = Occupancy::Width::k16,
                               .queues = 3,
                               .stride = sizeof(rings[0])};
  const Occupancy to_server = Occupancy::Filled(at, 512);
  const Occupancy to_client = Occupancy::Free(at, 512);
  const LinkMonitor monitor({to_server, to_client});
  const std::uint16_t bases[] = {0, 65'530, 7}, counts[] = {10, 20, 30};
  for (int i = 0; i < 3; ++i) {
    rings[i].tail = bases[i];
    rings[i].head = static_cast<std::uint16_t>(bases[i] + counts[i]);
  }
  EXPECT_EQ(to_server.Packets(), 60U);
  EXPECT_EQ(to_server.capacity(), 512U);
  EXPECT_EQ(to_client.Packets(), 512U) << "of 3 * 512 slots 60 are free: no more than one ring's";
  EXPECT_EQ(monitor.Received(0), 1);  // 0 - 6 + 7
  EXPECT_EQ(monitor.Sent(0), 61);
  EXPECT_EQ(monitor.Sent(1), 1);
  EXPECT_EQ(monitor.Received(1), 61);
  for (int i = 0; i < 3; ++i)
    rings[i].head = static_cast<std::uint16_t>(bases[i] + 512 - counts[i]);
  EXPECT_EQ(to_client.Packets(), 60U);
  EXPECT_EQ(to_server.Packets(), 512U);
}

// A packet socket tells bytes, of which a small packet takes more than it has.
TEST(OccupancyTest, WhatIsCountedInBytesReadsInPackets) {
  std::uint32_t put = 0, taken = 0;
  const Occupancy link = Occupancy::Filled({.ahead = &put, .behind = &taken}, 212'992, 832);
  EXPECT_EQ(link.capacity(), 256U);
  put = 0xffff'ff00;
  taken = put - 100 * 832;
  EXPECT_EQ(link.Packets(), 100U);
  taken = put - 300 * 832;
  EXPECT_EQ(link.Packets(), 256U);
}

TEST(LinkMonitorTest, ReadsLinksOfAllKinds) {
  const RingInMemory ring(64);
  ring->prod.tail = 5;
  std::uint16_t head = 9, tail = 2;
  const LinkMonitor monitor(
      {OfRing(*ring), Occupancy::Filled(Positions(head, tail), 128), Occupancy::Unreadable(512)});
  EXPECT_EQ(monitor.NumPkts(0), 5U);
  EXPECT_EQ(monitor.NumPkts(1), 7U);
  EXPECT_EQ(monitor.NumPkts(2), 0U);
  const std::uint32_t capacities[] = {63, 128, 512};
  for (LinkIndex i = 0; i < 3; ++i) EXPECT_EQ(monitor.PktCap(i), capacities[i]);
}

}  // namespace
}  // namespace unis
