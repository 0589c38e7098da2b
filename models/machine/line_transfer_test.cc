#include "models/machine/line_transfer.h"

#include <gtest/gtest.h>

#include "engine/base/machine_for_test.h"

namespace unis {
namespace {

TEST(LineTransferTest, TakesMoreThanALookIntoOnesOwnCache) {
  UNIS_NEED_TWO_CPUS();
  const auto found = LineTransfer(0, LastCpu());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_GT(*found, 1.0);
}

TEST(LineTransferTest, NeedsTwoCpusThatAreThere) {
  EXPECT_EQ(LineTransfer(0, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LineTransfer(0, CPU_SETSIZE).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LineTransfer(0, CPU_SETSIZE - 1).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(LineTransfer(CPU_SETSIZE - 1, 0).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace unis
