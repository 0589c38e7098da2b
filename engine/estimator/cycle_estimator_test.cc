#include "engine/estimator/cycle_estimator.h"

#include <gtest/gtest.h>
#include <rte_cycles.h>
#include <rte_memzone.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/eventually_for_test.h"
#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

// A thread on the last CPU that does what an NF behind a net_unis port does.
class PlayedNf {
 public:
  struct Behaviour {
    std::uint64_t cycles = 0;  // per packet
    bool drops = false;        // every packet
  };

  PlayedNf(const Chain& chain, Behaviour behaviour)
      : thread_([&chain, behaviour, this] { Main(chain, behaviour); }) {}
  ~PlayedNf() {
    stop_ = true;
    thread_.join();
  }

 private:
  void Main(const Chain& chain, Behaviour behaviour) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(LastCpu(), &set);
    sched_setaffinity(0, sizeof(set), &set);
    auto* shm = static_cast<unis_port_shm*>(rte_memzone_lookup("port")->addr);
    std::array<rte_mbuf*, kBurst> packets;
    while (!stop_) {
      const unsigned count =
          rte_ring_sc_dequeue_burst(dynamic_cast<RingEnd&>(*chain.ingress()).ring(),
                                    reinterpret_cast<void**>(packets.data()), kBurst, nullptr);
      Add(shm->polls, 1);
      Add(shm->rx_packets, count);
      const std::uint64_t begin = rte_rdtsc();
      while (rte_rdtsc() - begin < count * behaviour.cycles) {
      }
      if (behaviour.drops) {
        rte_pktmbuf_free_bulk(packets.data(), count);
      } else {
        rte_ring_sp_enqueue_bulk(dynamic_cast<RingEnd&>(*chain.ends().egresses[0]).ring(),
                                 reinterpret_cast<void**>(packets.data()), count, nullptr);
        Add(shm->tx_packets, count);
      }
    }
  }
  static void Add(std::uint64_t& counter, std::uint64_t n) {
    __atomic_store_n(&counter, counter + n, __ATOMIC_RELEASE);
  }

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class CycleEstimatorTest : public MemoryTest {
 protected:
  void SetUp() override {
    UNIS_NEED_TWO_CPUS();
    MemoryTest::SetUp();
    auto port = PortShm::Create("port");
    ASSERT_TRUE(port.ok()) << port.status();
    port_.emplace(*std::move(port));
    UseRings(2048);
  }

  void UseRings(std::uint32_t slots) {
    chain_.reset();
    rings_.clear();
    chain_ = MakeChain("chain", slots);
  }
  static Frames OfSize(std::uint32_t size) {
    return MakeFrames({.mix = SizeMix::kFixed, .size = size, .flows = 64}, {});
  }
  // The estimate for an NF of that behaviour; 0 where there was none.
  double Ns(PlayedNf::Behaviour behaviour) {
    const PlayedNf nf(*chain_, behaviour);
    const auto estimate = Run(OfSize(64), 5);
    EXPECT_TRUE(estimate.ok()) << estimate.status();
    return estimate.ok() ? estimate->ns : 0;
  }
  absl::StatusOr<CostEstimate> Run(const Frames& frames, std::uint32_t rounds) const {
    CostSamples samples;
    RingInjector injector(RingOf(chain_->ingress()), RingOf(chain_->ends().egresses[0]), *port_);
    CycleEstimator estimator(*memory_, injector);
    const auto status = estimator.Run(frames, rounds, samples);
    EXPECT_EQ(End(estimator).ok(), status.code() != absl::StatusCode::kDeadlineExceeded);
    if (!status.ok()) return status;
    EXPECT_EQ(samples.ns.size(), rounds);
    return samples.Estimate();
  }
  // As the engine does it, but that nobody stops.
  static absl::Status End(CycleEstimator& estimator) {
    for (int look = 0; look < 100 && !estimator.Settle(); ++look)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return estimator.Finish();
  }
  static unis_port_shm& Shm() {
    return *static_cast<unis_port_shm*>(rte_memzone_lookup("port")->addr);
  }

  std::optional<PortShm> port_;
  std::unique_ptr<Chain> chain_;
};

// Whoever takes the CPU meanwhile makes an estimate dearer, never cheaper: the least of several
// comes near the truth on a busy machine too.
TEST_F(CycleEstimatorTest, ADearerNfCostsMore) {
  for (const bool drops : {false, true}) {
    double cheap = Ns({.cycles = 500, .drops = drops}), dear = Ns({.cycles = 2000, .drops = drops});
    const bool told_apart = Eventually([&] {
      cheap = std::min(cheap, Ns({.cycles = 500, .drops = drops}));
      dear = std::min(dear, Ns({.cycles = 2000, .drops = drops}));
      return dear > 3 * cheap && dear < 5 * cheap;
    });
    EXPECT_TRUE(told_apart) << dear << " and " << cheap << (drops ? " of what it drops" : "");
    EXPECT_EQ(memory_->InUse(), 0U);
    EXPECT_EQ(InRings(*chain_), 0U);
  }
}

TEST_F(CycleEstimatorTest, QuartilesAreInOrderAndABurstCostsMoreThanAPacket) {
  const PlayedNf nf(*chain_, {.cycles = 500});
  const auto estimate = Run(OfSize(1500), 20);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_GT(estimate->ns, 0);
  EXPECT_LE(estimate->ns_q1, estimate->ns);
  EXPECT_LE(estimate->ns, estimate->ns_q3);
  EXPECT_GT(estimate->burst_ns, estimate->ns);
}

// The NF behind it may have been stopped between two reads of the ring's positions.
TEST_F(CycleEstimatorTest, TheRingBehindTheNfIsLeftAsItWas) {
  rte_ring* const egress = RingOf(chain_->ends().egresses[0]);
  for (const std::uint32_t passed : {0U, 5U, 1500U}) {
    for (std::uint32_t i = 0; i < passed; ++i) {
      const std::uint8_t byte = 0;
      rte_ring_sp_enqueue(egress, Packet(std::span(&byte, 1)));
      Discard(egress);
    }
    const std::uint32_t position = egress->cons.head;
    const PlayedNf nf(*chain_, {.cycles = 100});
    ASSERT_TRUE(Run(OfSize(64), 3).ok());
    EXPECT_EQ(egress->prod.head, position);
    EXPECT_EQ(egress->prod.tail, position);
    EXPECT_EQ(egress->cons.head, position);
    EXPECT_EQ(egress->cons.tail, position);
  }
}

TEST(CostSamplesTest, OutliersCountForNothingAndTwoCentresAreAveraged) {
  CostSamples outliers{.ns = {900, 50, 50, 50, 50, 50, 50, 1}, .burst_ns = {1}};
  EXPECT_DOUBLE_EQ(outliers.Estimate()->ns, 50);
  CostSamples two_speeds{.ns = {20, 40, 20, 40, 20, 40, 20, 40}, .burst_ns = {1}};
  EXPECT_DOUBLE_EQ(two_speeds.Estimate()->ns, 30);
  CostSamples one{.ns = {7}, .burst_ns = {9}};
  EXPECT_DOUBLE_EQ(one.Estimate()->ns, 7);
  EXPECT_DOUBLE_EQ(one.Estimate()->burst_ns, 9);
}

TEST(CostSamplesTest, ACostOfNothingIsNoCost) {
  CostSamples none{.ns = {0, 0, 0, 0, 0, 0, 0, 12}, .burst_ns = {1}};
  EXPECT_NE(none.Estimate().status().message().find("state cost_ns"), std::string::npos);
}

TEST_F(CycleEstimatorTest, FramesOfAnyNumberAreRepeated) {
  const PlayedNf nf(*chain_, {.cycles = 100});
  for (const std::uint32_t flows : {1U, 7U, 5000U}) {
    const auto frames = MakeFrames({.mix = SizeMix::kFixed, .size = 64, .flows = flows}, {});
    EXPECT_TRUE(Run(frames, 2).ok());
  }
}

TEST_F(CycleEstimatorTest, ShortRingsTakeShorterTrains) {
  const double unknown = std::numeric_limits<double>::max();
  std::map<std::uint32_t, double> ns{{128, unknown}, {256, unknown}, {512, unknown}};
  const bool alike = Eventually([&] {
    for (auto& [slots, least] : ns) {  // 128 with shorter bursts
      UseRings(slots);
      least = std::min(least, Ns({.cycles = 2000}));
    }
    return ns[128] > ns[512] / 2 && ns[128] < ns[512] * 2;
  });
  EXPECT_TRUE(alike) << ns[128] << " and " << ns[512];
  for (const std::uint32_t size : {32U, 64U}) {
    UseRings(size);
    const auto status = Run(OfSize(64), 3).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find("cost_ns"), std::string::npos) << status;
  }
}

TEST_F(CycleEstimatorTest, EachRunAddsItsRounds) {
  const PlayedNf nf(*chain_, {.cycles = 100});
  RingInjector injector(RingOf(chain_->ingress()), RingOf(chain_->ends().egresses[0]), *port_);
  CycleEstimator estimator(*memory_, injector);
  CostSamples samples;
  ASSERT_TRUE(estimator.Run(OfSize(64), 2, samples).ok());
  ASSERT_TRUE(estimator.Run(OfSize(64), 3, samples).ok());
  EXPECT_EQ(samples.ns.size(), 5U);
  EXPECT_TRUE(End(estimator).ok());
}

// A memif may have 16,384 slots, and the packet memory holds none of them.
TEST_F(CycleEstimatorTest, ALinkLongerThanThePacketMemoryIsNoError) {
  UseRings(16384);
  const PlayedNf nf(*chain_, {.cycles = 100});
  const auto estimate = Run(OfSize(64), 3);
  EXPECT_TRUE(estimate.ok()) << estimate.status();
}

// What it leaves in front of the NF may be delivered some day: it enters no histogram.
TEST_F(CycleEstimatorTest, ProbesHaveNoTimeOfEntry) {
  std::vector<rte_mbuf*> all(memory_->size());
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(memory_->pool(), all.data(), memory_->size()), 0);
  for (rte_mbuf* packet : all) memory_->Stamp(packet) = 4711;
  rte_pktmbuf_free_bulk(all.data(), memory_->size());
  EXPECT_FALSE(Run(OfSize(64), 3).ok()) << "nobody answers";
  void* packet = nullptr;
  while (rte_ring_sc_dequeue(RingOf(chain_->ingress()), &packet) == 0) {
    EXPECT_EQ(memory_->Stamp(static_cast<rte_mbuf*>(packet)), 0U);
    rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
  }
}

TEST_F(CycleEstimatorTest, AnNfThatNeverAnswersIsAnError) {
  const auto status = Run(OfSize(64), 3).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("0 of 64 packets"), std::string::npos) << status;
  EXPECT_EQ(memory_->InUse(), 64U) << "they wait for the NF";

  const auto again = Run(OfSize(64), 3).status();
  EXPECT_FALSE(again.ok());
  EXPECT_EQ(memory_->InUse(), InRings(*chain_)) << "packets were lost";
  Discard(RingOf(chain_->ingress()));
}

// What a function left in its rings must not be taken for the answer, nor push packets out.
TEST_F(CycleEstimatorTest, RingsThatAreNotEmptyAreAnError) {
  for (rte_ring* ring : {RingOf(chain_->ingress()), RingOf(chain_->ends().egresses[0])}) {
    const std::uint8_t byte = 0;
    while (rte_ring_free_count(ring) > 40) rte_ring_sp_enqueue(ring, Packet(std::span(&byte, 1)));
    EXPECT_FALSE(Run(OfSize(64), 3).ok());
    EXPECT_EQ(rte_ring_free_count(ring), 40U) << "they are not the estimator's";
    EXPECT_EQ(memory_->InUse(), InRings(*chain_));
    Discard(ring);
  }
}

// Between its read of the ring's position and its store of the next one nothing of an NF's sending
// shows: with packets in hand it may stand there.
TEST_F(CycleEstimatorTest, TheRingBehindAnNfIsRewoundOnlyWhenItHasNothingInHand) {
  rte_ring* const egress = RingOf(chain_->ends().egresses[0]);
  const std::uint32_t position = egress->cons.head;
  RingInjector injector(RingOf(chain_->ingress()), egress, *port_);
  CycleEstimator estimator(*memory_, injector);
  CostSamples samples;
  EXPECT_FALSE(estimator.Run(OfSize(64), 3, samples).ok());
  std::array<void*, kBurst> late;  // the function, slow as it is
  ASSERT_EQ(rte_ring_sc_dequeue_burst(RingOf(chain_->ingress()), late.data(), kBurst, nullptr),
            kBurst);
  Shm().rx_packets += kBurst;
  ++Shm().polls;
  EXPECT_FALSE(estimator.Settle()) << "it has not polled since";
  ++Shm().polls;
  EXPECT_FALSE(estimator.Settle());
  ASSERT_EQ(rte_ring_sp_enqueue_burst(egress, late.data(), 16, nullptr), 16U);
  const auto held = estimator.Finish();
  EXPECT_NE(held.message().find("0 packets wait in front of it and it holds 48"), std::string::npos)
      << held;
  EXPECT_EQ(egress->prod.head, position + 16);
  ASSERT_EQ(rte_ring_sp_enqueue_burst(egress, late.data() + 16, 48, nullptr), 48U);
  EXPECT_TRUE(End(estimator).ok());
  for (const std::uint32_t at :
       {egress->prod.head, egress->prod.tail, egress->cons.head, egress->cons.tail})
    EXPECT_EQ(at, position);
}

// With 32 bits 2^32 − 1 rounds and the first, untimed ones were fewer than those.
TEST_F(CycleEstimatorTest, NoNumberOfRoundsIsNone) {
  RingInjector injector(RingOf(chain_->ingress()), RingOf(chain_->ends().egresses[0]), *port_);
  CycleEstimator estimator(*memory_, injector);
  CostSamples samples;
  const std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  EXPECT_FALSE(estimator.Run(OfSize(64), most, samples).ok()) << "nobody answers: it tried";
  EXPECT_EQ(estimator.Finish().code(), absl::StatusCode::kFailedPrecondition);
  Discard(RingOf(chain_->ingress()));
}

TEST_F(CycleEstimatorTest, AnEmptyPacketMemoryIsAnError) {
  const PlayedNf nf(*chain_, {});
  std::vector<rte_mbuf*> all(memory_->size());
  for (rte_mbuf*& packet : all) packet = rte_pktmbuf_alloc(memory_->pool());
  const auto status = Run(OfSize(64), 3).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
}

}  // namespace
}  // namespace unis
