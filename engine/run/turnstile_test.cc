#include "engine/run/turnstile.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "engine/base/eventually_for_test.h"

namespace unis {
namespace {

TEST(TurnstileTest, OneAtATimeAndTheOthersAreToldWho) {
  Turnstile turnstile;
  {
    const auto pass = turnstile.Enter("measuring");
    ASSERT_TRUE(pass.ok());
    const auto second = turnstile.Enter("starting");
    EXPECT_EQ(second.status().code(), absl::StatusCode::kAborted);
    EXPECT_NE(second.status().message().find("the engine is measuring"), std::string::npos);
  }
  EXPECT_TRUE(turnstile.Enter("starting").ok());
}

// Else one operation after the other could slip in before the end.
TEST(TurnstileTest, NobodyEntersWhileTheLastOneWaits) {
  Turnstile turnstile;
  std::optional pass(turnstile.Enter("measuring"));
  ASSERT_TRUE(pass->ok());
  std::atomic<bool> ended = false;
  std::thread last([&] {
    const auto end = turnstile.EnterLast();
    ended = true;
  });
  EXPECT_TRUE(Eventually([&] {
    return turnstile.Enter("starting").status().code() == absl::StatusCode::kUnavailable;
  }));
  EXPECT_FALSE(ended);
  pass.reset();
  last.join();
  EXPECT_EQ(turnstile.Enter("starting").status().code(), absl::StatusCode::kUnavailable) << "ended";
  const auto again = turnstile.EnterLast();
}

}  // namespace
}  // namespace unis
