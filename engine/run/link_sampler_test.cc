#include "engine/run/link_sampler.h"

#include <gtest/gtest.h>

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
    taken_ = put_;
  }

 private:
  std::uint32_t step_;
  std::uint32_t put_ = 0, taken_ = 0;
};

TEST(LinkSamplerTest, LooksBeforeItCounts) {
  Sleepy link(3);
  LinkSampler sampler;
  sampler.Watch(7, link, 1);
  sampler.Sample();
  sampler.Sample();
  EXPECT_EQ(sampler.progress(7)->sent(), 6U);
  EXPECT_EQ(sampler.progress(7)->received(), 6U);
  EXPECT_EQ(sampler.progress(8), nullptr);
}

TEST(LinkSamplerTest, CountsStayWhereALinkGoesAndComesAgain) {
  Sleepy link(3);
  LinkSampler sampler;
  sampler.Watch(7, link, 1);
  sampler.Sample();
  sampler.Leave(7);
  sampler.Sample();
  EXPECT_EQ(sampler.progress(7)->sent(), 3U) << "nobody looks any more";
  Sleepy other(5);
  sampler.Watch(7, other, 1);
  sampler.Sample();
  EXPECT_EQ(sampler.progress(7)->sent(), 8U);
  sampler.Watch(7, other, 1);
  sampler.Sample();
  EXPECT_EQ(sampler.progress(7)->sent(), 13U) << "it is watched already";
}

}  // namespace
}  // namespace unis
