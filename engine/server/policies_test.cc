#include "engine/server/policies.h"

#include <gtest/gtest.h>

#include <iterator>

namespace unis {
namespace {

TEST(PoliciesTest, EveryPolicyOfTheContractMeansSomethingHere) {
  const auto* descriptor = v1::Policy_descriptor();
  for (int i = 0; i < descriptor->value_count(); ++i) {
    const auto policy = static_cast<v1::Policy>(descriptor->value(i)->number());
    const auto traits = TraitsOf(policy);
    EXPECT_EQ(traits.ok(), policy != v1::POLICY_UNSPECIFIED) << descriptor->value(i)->name();
    if (!traits.ok()) continue;
    EXPECT_EQ(traits->policy, policy);
    // The kernel refuses a real-time class without a priority, and any other with one.
    const bool real_time = traits->kernel_class == SCHED_FIFO || traits->kernel_class == SCHED_RR;
    EXPECT_EQ(traits->priority > 0, real_time) << descriptor->value(i)->name();
    EXPECT_LE(traits->priority, 49) << "above the kernel's interrupt threads";
  }
  EXPECT_EQ(std::size(kPolicies) + 1, static_cast<std::size_t>(descriptor->value_count()));
  EXPECT_FALSE(TraitsOf(static_cast<v1::Policy>(77)).ok());
}

TEST(PoliciesTest, OneIsAlgorithmOneAndOneIsIntrusive) {
  EXPECT_TRUE(TraitsOf(v1::POLICY_UNIS)->engine_decides);
  EXPECT_FALSE(TraitsOf(v1::POLICY_UNIS)->nfs_yield);
  EXPECT_TRUE(TraitsOf(v1::POLICY_COOPERATIVE)->nfs_yield);
  for (const auto policy : {v1::POLICY_COOPERATIVE, v1::POLICY_RR, v1::POLICY_FIFO,
                            v1::POLICY_OTHER, v1::POLICY_BATCH}) {
    EXPECT_FALSE(TraitsOf(policy)->engine_decides);
    EXPECT_EQ(TraitsOf(policy)->nfs_yield, policy == v1::POLICY_COOPERATIVE);
  }
}

}  // namespace
}  // namespace unis
