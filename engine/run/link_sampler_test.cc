#include "engine/run/link_sampler.h"

#include <gtest/gtest.h>
#include <rte_cycles.h>

#include "engine/base/eal_for_test.h"

namespace unis {
namespace {

// Its counters move only when somebody looks.
class Sleepy final : public Link {
 public:
  explicit Sleepy(std::uint32_t step) : step_(step) {}
  LinkEnd* end() noexcept override { return nullptr; }
  Occupancy occupancy(unsigned) const override {
    return Occupancy::Filled({.ahead = &put_, .behind = &taken_}, 64);
  }
  void Look(unsigned direction) noexcept override {
    EXPECT_EQ(direction, 1U);
    put_ += step_;
    taken_ = put_ - waits;
  }
  bool looks_disturb() const noexcept override { return disturbed; }

  std::uint32_t waits = 0;  // packets, after a look
  bool disturbed = false;

 private:
  std::uint32_t step_;
  std::uint32_t put_ = 0, taken_ = 0;
};

TEST(LinkSamplerTest, LooksBeforeItCounts) {
  Sleepy link(3);
  LinkSampler sampler;
  sampler.Watch(7, link, 1);
  sampler.Sample(1);
  sampler.Sample(2);
  EXPECT_EQ(sampler.progress(7)->sent(), 6U);
  EXPECT_EQ(sampler.progress(7)->received(), 6U);
  EXPECT_EQ(sampler.progress(8), nullptr);
}

TEST(LinkSamplerTest, CountsStayWhereALinkGoesAndComesAgain) {
  Sleepy link(3);
  LinkSampler sampler;
  sampler.Watch(7, link, 1);
  sampler.Sample(3);
  sampler.Leave(7);
  sampler.Sample(4);
  EXPECT_EQ(sampler.progress(7)->sent(), 3U) << "nobody looks any more";
  Sleepy other(5);
  sampler.Watch(7, other, 1);
  sampler.Sample(5);
  EXPECT_EQ(sampler.progress(7)->sent(), 8U);
  sampler.Watch(7, other, 1);
  sampler.Sample(6);
  EXPECT_EQ(sampler.progress(7)->sent(), 13U) << "it is watched already";
}

// The function whose packets wait there runs: the engine keeps off its CPU's memory. Of an empty
// link the first packet is seen at once.
TEST(LinkSamplerTest, WhilePacketsWaitItLooksNowAndThenAtALinkThatLooksDisturb) {
  ASSERT_TRUE(StartTestEal());  // which knows how fast the TSC counts
  Sleepy link(3);
  link.disturbed = true;
  LinkSampler sampler;
  sampler.Watch(7, link, 1);
  std::uint64_t now = rte_get_tsc_hz();
  sampler.Sample(now++);
  sampler.Sample(now++);
  EXPECT_EQ(sampler.progress(7)->sent(), 6U) << "nothing waits";
  link.waits = 2;
  const std::uint64_t looked = now++;
  sampler.Sample(looked);
  sampler.Sample(now++);
  EXPECT_EQ(sampler.progress(7)->sent(), 9U);
  const std::uint64_t pause = rte_get_tsc_hz() / 1'000'000 * LinkSampler::kPauseUs;
  sampler.Sample(looked + pause - 1);
  EXPECT_EQ(sampler.progress(7)->sent(), 9U);
  sampler.Sample(looked + pause);
  EXPECT_EQ(sampler.progress(7)->sent(), 12U);
  link.disturbed = false;
  sampler.Sample(looked + pause + 1);
  EXPECT_EQ(sampler.progress(7)->sent(), 15U);
}

}  // namespace
}  // namespace unis
