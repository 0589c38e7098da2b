#include "engine/base/exponential.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace unis {
namespace {

TEST(ExponentialTest, IsTheLogarithmOfAUniformDraw) {
  Random random(7), same(7);
  double longest = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const double drawn = Exponential(random);
    const double uniform = static_cast<double>(same.Next() | 1) * 0x1p-64;
    ASSERT_NEAR(drawn, -std::log(uniform), 2e-6) << uniform;
    ASSERT_GE(drawn, 0);
    longest = std::max(longest, drawn);
  }
  EXPECT_GT(longest, 10);
}

}  // namespace
}  // namespace unis
