#include "engine/estimator/cycle_estimator.h"

#include <gtest/gtest.h>
#include <rte_memzone.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/platform/memory_for_test.h"
#include "engine/scheduler/fakes_for_test.h"

namespace unis {
namespace {

constexpr Nanoseconds kWay = 700;      // of the first burst of a train, there and back
constexpr Nanoseconds kIdle = 10'000;  // a poll without packets

// What a function does in a poll, and how long it takes. Nothing else moves the clock.
struct Behaviour {
  // Cost of a packet. Trains are counted from 1: an odd one is of one burst, an even one of many.
  std::function<Nanoseconds(unsigned train)> ns = [](unsigned) { return 100; };
  bool drops = false;  // every packet
  bool polls = true;
};

unis_port_shm& Shm() { return *static_cast<unis_port_shm*>(rte_memzone_lookup("port")->addr); }

class PlayedFunction {
 public:
  PlayedFunction(Behaviour behaviour, FakeTimer& timer)
      : behaviour_(std::move(behaviour)), timer_(timer) {}
  virtual ~PlayedFunction() = default;
  // Receives a burst, and answers.
  virtual void Poll() = 0;

 protected:
  void TrainBegins() {
    ++train_;
    way_ = kWay;
  }
  void Work(std::uint32_t packets) {
    timer_.now += packets == 0 ? kIdle : packets * behaviour_.ns(train_);
    timer_.now += std::exchange(way_, 0);
  }

  const Behaviour behaviour_;

 private:
  FakeTimer& timer_;
  unsigned train_ = 0;
  Nanoseconds way_ = 0;
};

// Between rings. It polls once whenever the estimator looks for answers.
class PlayedInjector final : public Injector, public PlayedFunction {
 public:
  PlayedInjector(rte_ring* ingress, rte_ring* egress, const PortShm& port, Behaviour behaviour,
                 FakeTimer& timer)
      : PlayedFunction(std::move(behaviour), timer),
        ingress_(ingress),
        egress_(egress),
        rings_(ingress, egress, port, timer) {}

  std::uint32_t Room() const override { return rings_.Room(); }
  std::uint32_t WaitingBefore() const override { return rings_.WaitingBefore(); }
  std::uint32_t WaitingBehind() const override { return rings_.WaitingBehind(); }
  std::uint32_t Send(std::span<rte_mbuf*> packets) noexcept override {
    TrainBegins();
    next_ = 0;
    return rings_.Send(packets);
  }
  std::uint32_t Receive(std::span<rte_mbuf*> packets) noexcept override {
    Poll();
    return rings_.Receive(packets);
  }
  Nanoseconds DoneAt() noexcept override { return rings_.DoneAt(); }
  void Rewind() noexcept override { rings_.Rewind(); }

  void Poll() override {
    std::array<rte_mbuf*, kBurst> packets;
    void** const table = reinterpret_cast<void**>(packets.data());
    const unsigned count =
        behaviour_.polls ? rte_ring_sc_dequeue_burst(ingress_, table, kBurst, nullptr) : 0;
    Work(count);
    if (!behaviour_.polls) return;
    ++Shm().polls;
    Shm().rx_packets += count;
    for (unsigned i = 0; i < count && expected != nullptr; ++i, ++next_) {
      const auto frame = expected->Bytes((*expected)[next_ % expected->size()]);
      if (std::memcmp(rte_pktmbuf_mtod(packets[i], void*), frame.data(), frame.size()) != 0)
        ++unlike;
    }
    if (behaviour_.drops)
      rte_pktmbuf_free_bulk(packets.data(), count);
    else
      rte_ring_sp_enqueue_bulk(egress_, table, count, nullptr);
  }

  // What each train is expected to consist of, over and over, and packets that were something else.
  const Frames* expected = nullptr;
  unsigned unlike = 0;

 private:
  rte_ring* ingress_;
  rte_ring* egress_;
  RingInjector rings_;
  std::size_t next_ = 0;  // frame of the train
};

// The engine's end of a memif with both directions. The function takes a burst, and works on it
// before it polls again: the work on the last one is not seen.
class PlayedMemif final : public LinkEnd, public PlayedFunction {
 public:
  static constexpr std::uint32_t kSlots = 2048;

  PlayedMemif(rte_mempool* pool, Behaviour behaviour, FakeTimer& timer)
      : PlayedFunction(std::move(behaviour), timer), pool_(pool) {}

  Occupancy to_function() const {
    return Occupancy::Filled({.ahead = &sent_, .behind = &taken_}, kSlots);
  }
  Occupancy from_function() const {
    return Occupancy::Filled({.ahead = &answered_, .behind = &received_}, kSlots);
  }

  std::uint16_t Send(rte_mbuf** packets, std::uint16_t count) noexcept override {
    TrainBegins();
    rte_pktmbuf_free_bulk(packets, count);  // a memif copies
    sent_ += count;
    return count;
  }
  void Poll() override {
    Work(in_hand_);
    if (!behaviour_.drops) answered_ += in_hand_;
    in_hand_ = std::min(kBurst, sent_ - taken_);
    taken_ += in_hand_;
  }
  std::uint16_t Receive(rte_mbuf** packets, std::uint16_t count) noexcept override {
    Poll();
    const auto back =
        static_cast<std::uint16_t>(std::min<std::uint32_t>(count, answered_ - received_));
    if (rte_pktmbuf_alloc_bulk(pool_, packets, back) != 0) return 0;
    received_ += back;
    return back;
  }
  std::uint32_t Room() noexcept override { return kSlots - (sent_ - taken_); }
  std::uint32_t capacity() const noexcept override { return kSlots; }
  bool carries_mbufs() const noexcept override { return false; }

 private:
  rte_mempool* pool_;
  std::uint32_t sent_ = 0, taken_ = 0, answered_ = 0, received_ = 0;
  std::uint32_t in_hand_ = 0;
};

class CycleEstimatorTest : public MemoryTest {
 protected:
  void SetUp() override {
    MemoryTest::SetUp();
    auto port = PortShm::Create("port");
    ASSERT_TRUE(port.ok()) << port.status();
    port_.emplace(*std::move(port));
    timer_.now = 1'000'000;
    UseRings(2048);
  }

  void UseRings(std::uint32_t slots) {
    chain_.reset();
    rings_.clear();
    chain_ = MakeChain("chain", slots);
  }
  rte_ring* ingress() const { return RingOf(chain_->ingress()); }
  rte_ring* egress() const { return RingOf(chain_->ends().egresses[0]); }
  PlayedInjector Function(Behaviour behaviour = {}) {
    return {ingress(), egress(), *port_, std::move(behaviour), timer_};
  }
  static Behaviour Costing(Nanoseconds ns, bool drops = false) {
    return {.ns = [ns](unsigned) { return ns; }, .drops = drops};
  }
  static Frames OfSize(std::uint32_t size) {
    return MakeFrames({.mix = SizeMix::kFixed, .size = size, .flows = 64}, {});
  }
  absl::StatusOr<CostSamples> Run(PlayedFunction& function, Injector& injector,
                                  const Frames& frames, std::uint32_t rounds) {
    CostSamples samples;
    CycleEstimator estimator(*memory_, injector, timer_);
    const auto status = estimator.Run(frames, rounds, samples);
    EXPECT_EQ(End(estimator, function).ok(), status.code() != absl::StatusCode::kDeadlineExceeded);
    if (!status.ok()) return status;
    EXPECT_EQ(samples.ns.size(), rounds);
    EXPECT_EQ(samples.burst_ns.size(), rounds);
    return samples;
  }
  absl::StatusOr<CostSamples> Run(Behaviour behaviour, std::uint32_t rounds) {
    auto function = Function(std::move(behaviour));
    return Run(function, function, OfSize(64), rounds);
  }
  // As the engine does it, but that nobody stops.
  static absl::Status End(CycleEstimator& estimator, PlayedFunction& function) {
    for (int look = 0; look < 1000 && !estimator.Settle(); ++look) function.Poll();
    return estimator.Finish();
  }

  FakeTimer timer_;
  std::optional<PortShm> port_;
  std::unique_ptr<Chain> chain_;
};

using Samples = std::vector<double>;

// What each further packet adds: neither the way there and back, nor the poll that shows that a
// function which drops is done.
TEST_F(CycleEstimatorTest, ASampleIsWhatEachFurtherPacketAdds) {
  for (const Nanoseconds ns : {1, 100, 2000}) {
    for (const bool drops : {false, true}) {
      const auto samples = Run(Costing(ns, drops), 3);
      ASSERT_TRUE(samples.ok()) << samples.status();
      const auto cost = static_cast<double>(ns);
      const double burst = kWay + 64 * cost + (drops ? kIdle : 0);
      EXPECT_EQ(samples->ns, Samples({cost, cost, cost}));
      EXPECT_EQ(samples->burst_ns, Samples({burst, burst, burst}));
      EXPECT_EQ(memory_->InUse(), 0U);
      EXPECT_EQ(InRings(*chain_), 0U);
    }
  }
}

// A program over memif tells nothing of itself: it counts as done when it took the last burst.
TEST_F(CycleEstimatorTest, OverAMemifASampleIsTheSame) {
  for (const bool drops : {false, true}) {
    PlayedMemif end(memory_->pool(), Costing(2000, drops), timer_);
    MemifInjector injector(end, end.to_function(), end, end.from_function(), timer_);
    const auto samples = Run(end, injector, OfSize(64), 3);
    ASSERT_TRUE(samples.ok()) << samples.status();
    EXPECT_EQ(samples->ns, Samples({2000, 2000, 2000}));
    const double burst = kIdle + kWay + (drops ? 0 : 64 * 2000);
    EXPECT_EQ(samples->burst_ns, Samples({burst, burst, burst}));
    EXPECT_EQ(memory_->InUse(), 0U);
  }
}

// It may still work on the last packets that it took.
TEST_F(CycleEstimatorTest, OverRingsAFunctionIsDoneWhenItPollsAgain) {
  RingInjector injector(ingress(), egress(), *port_, timer_);
  std::array<rte_mbuf*, kBurst> packets;
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(memory_->pool(), packets.data(), kBurst), 0);
  ASSERT_EQ(injector.Send(packets), kBurst);
  ++Shm().polls;
  EXPECT_EQ(injector.DoneAt(), 0) << "packets wait in front of it";
  Shm().rx_packets += Discard(ingress());
  for (int look = 0; look < 2; ++look) EXPECT_EQ(injector.DoneAt(), 0);
  ++Shm().polls;
  EXPECT_EQ(injector.DoneAt(), timer_.now);
}

TEST_F(CycleEstimatorTest, OverAMemifAFunctionIsDoneWhenNothingMoved) {
  PlayedMemif end(memory_->pool(), Costing(2000, true), timer_);
  MemifInjector injector(end, end.to_function(), end, end.from_function(), timer_);
  std::array<rte_mbuf*, kBurst> packets;
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(memory_->pool(), packets.data(), kBurst), 0);
  ASSERT_EQ(injector.Send(packets), kBurst);
  timer_.now += MemifInjector::kQuiet * 2;
  EXPECT_EQ(injector.DoneAt(), 0) << "packets wait in front of it";
  EXPECT_EQ(injector.Receive(packets), 0U);
  const Nanoseconds taken = timer_.now;
  EXPECT_EQ(injector.DoneAt(), 0);
  timer_.now += MemifInjector::kQuiet;
  EXPECT_EQ(injector.DoneAt(), 0);
  ++timer_.now;
  EXPECT_EQ(injector.DoneAt(), taken);
}

TEST_F(CycleEstimatorTest, RoundsInWhichCachesSettleAreNoSamples) {
  // A round is two trains; eight come before the first sample, one before those of the next call.
  auto function =
      Function({.ns = [](unsigned train) { return static_cast<Nanoseconds>(1000 - train); }});
  CycleEstimator estimator(*memory_, function, timer_);
  CostSamples samples;
  ASSERT_TRUE(estimator.Run(OfSize(64), 1, samples).ok());
  ASSERT_TRUE(estimator.Run(OfSize(64), 2, samples).ok());
  Samples bursts;
  for (const double train : {17, 21, 23}) bursts.push_back(kWay + 64 * (1000 - train));
  EXPECT_EQ(samples.burst_ns, bursts);
  EXPECT_EQ(samples.ns.size(), 3U);
  EXPECT_TRUE(End(estimator, function).ok());
}

// Somebody else had the CPU while one burst was timed.
TEST_F(CycleEstimatorTest, ATrainThatTakesNoLongerThanABurstIsASampleOfNothing) {
  const auto samples =
      Run({.ns = [](unsigned train) { return Nanoseconds{train % 2 == 1 ? 1000 : 10}; }}, 2);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(samples->ns, Samples({0, 0}));
}

// The NF behind it may have been stopped between two reads of the ring's positions.
TEST_F(CycleEstimatorTest, TheRingBehindTheNfIsLeftAsItWas) {
  rte_ring* const egress = this->egress();
  for (const std::uint32_t passed : {0U, 5U, 1500U}) {
    for (std::uint32_t i = 0; i < passed; ++i) {
      const std::uint8_t byte = 0;
      rte_ring_sp_enqueue(egress, Packet(std::span(&byte, 1)));
      Discard(egress);
    }
    const std::uint32_t position = egress->cons.head;
    ASSERT_TRUE(Run(Behaviour(), 3).ok());
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
  for (const std::uint32_t flows : {1U, 7U, 5000U}) {
    const auto frames = MakeFrames({.mix = SizeMix::kFixed, .size = 64, .flows = flows}, {});
    auto function = Function();
    function.expected = &frames;
    EXPECT_TRUE(Run(function, function, frames, 2).ok());
    EXPECT_EQ(function.unlike, 0U);
  }
}

TEST_F(CycleEstimatorTest, ShortRingsTakeShorterTrains) {
  for (const auto& [slots, burst] : {std::pair(128U, 32U), {256U, 64U}, {512U, 64U}}) {
    UseRings(slots);
    const auto samples = Run(Costing(2000), 2);
    ASSERT_TRUE(samples.ok()) << samples.status();
    EXPECT_EQ(samples->ns, Samples({2000, 2000}));
    EXPECT_EQ(samples->burst_ns[0], kWay + burst * 2000) << slots;
  }
  for (const std::uint32_t size : {32U, 64U}) {
    UseRings(size);
    const auto status = Run(Behaviour(), 3).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find("cost_ns"), std::string::npos) << status;
  }
}

// A memif may have 16,384 slots, and the packet memory holds none of them.
TEST_F(CycleEstimatorTest, ALinkLongerThanThePacketMemoryIsNoError) {
  UseRings(16384);
  const auto samples = Run(Behaviour(), 3);
  EXPECT_TRUE(samples.ok()) << samples.status();
}

// What it leaves in front of the NF may be delivered some day: it enters no histogram.
TEST_F(CycleEstimatorTest, ProbesHaveNoTimeOfEntry) {
  std::vector<rte_mbuf*> all(memory_->size());
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(memory_->pool(), all.data(), memory_->size()), 0);
  for (rte_mbuf* packet : all) memory_->Stamp(packet) = 4711;
  rte_pktmbuf_free_bulk(all.data(), memory_->size());
  EXPECT_FALSE(Run({.polls = false}, 3).ok()) << "nobody answers";
  void* packet = nullptr;
  while (rte_ring_sc_dequeue(ingress(), &packet) == 0) {
    EXPECT_EQ(memory_->Stamp(static_cast<rte_mbuf*>(packet)), 0U);
    rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
  }
}

TEST_F(CycleEstimatorTest, AnNfThatNeverAnswersIsAnError) {
  const Nanoseconds begin = timer_.now;
  const auto status = Run({.polls = false}, 3).status();
  EXPECT_GT(timer_.now - begin, 500'000'000);
  EXPECT_LT(timer_.now - begin, 600'000'000);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("0 of 64 packets"), std::string::npos) << status;
  EXPECT_EQ(memory_->InUse(), 64U) << "they wait for the NF";

  const auto again = Run({.polls = false}, 3).status();
  EXPECT_FALSE(again.ok());
  EXPECT_EQ(memory_->InUse(), InRings(*chain_)) << "packets were lost";
  Discard(ingress());
}

// What a function left in its rings must not be taken for the answer, nor push packets out.
TEST_F(CycleEstimatorTest, RingsThatAreNotEmptyAreAnError) {
  for (rte_ring* ring : {ingress(), egress()}) {
    const std::uint8_t byte = 0;
    while (rte_ring_free_count(ring) > 40) rte_ring_sp_enqueue(ring, Packet(std::span(&byte, 1)));
    EXPECT_FALSE(Run(Behaviour(), 3).ok());
    EXPECT_EQ(rte_ring_free_count(ring), 40U) << "they are not the estimator's";
    EXPECT_EQ(memory_->InUse(), InRings(*chain_));
    Discard(ring);
  }
}

// Between its read of the ring's position and its store of the next one nothing of an NF's sending
// shows: with packets in hand it may stand there.
TEST_F(CycleEstimatorTest, TheRingBehindAnNfIsRewoundOnlyWhenItHasNothingInHand) {
  rte_ring* const egress = this->egress();
  const std::uint32_t position = egress->cons.head;
  auto function = Function({.polls = false});
  CycleEstimator estimator(*memory_, function, timer_);
  CostSamples samples;
  EXPECT_FALSE(estimator.Run(OfSize(64), 3, samples).ok());
  std::array<void*, kBurst> late;  // the function, slow as it is
  ASSERT_EQ(rte_ring_sc_dequeue_burst(ingress(), late.data(), kBurst, nullptr), kBurst);
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
  EXPECT_TRUE(End(estimator, function).ok());
  for (const std::uint32_t at :
       {egress->prod.head, egress->prod.tail, egress->cons.head, egress->cons.tail})
    EXPECT_EQ(at, position);
}

// With 32 bits 2^32 − 1 rounds and the first, untimed ones were fewer than those.
TEST_F(CycleEstimatorTest, NoNumberOfRoundsIsNone) {
  auto function = Function({.polls = false});
  CycleEstimator estimator(*memory_, function, timer_);
  CostSamples samples;
  const std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  EXPECT_FALSE(estimator.Run(OfSize(64), most, samples).ok()) << "nobody answers: it tried";
  EXPECT_EQ(estimator.Finish().code(), absl::StatusCode::kFailedPrecondition);
  Discard(ingress());
}

TEST_F(CycleEstimatorTest, AnEmptyPacketMemoryIsAnError) {
  std::vector<rte_mbuf*> all(memory_->size());
  for (rte_mbuf*& packet : all) packet = rte_pktmbuf_alloc(memory_->pool());
  const auto status = Run(Behaviour(), 3).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
}

}  // namespace
}  // namespace unis
