#include "engine/contract/check_limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "unis/v1/engine.pb.h"

namespace unis {
namespace {

v1::SchedulerSettings Settings() {
  v1::SchedulerSettings settings;
  settings.set_gamma(0.75);
  settings.set_interval_ns(1000);
  return settings;
}

std::string Breach(const google::protobuf::Message& message) {
  return std::string(CheckLimits(message).message());
}

TEST(LimitsTest, WithinAllBoundsNothingIsSaid) { EXPECT_EQ(Breach(Settings()), ""); }

TEST(LimitsTest, NumbersAreBounded) {
  auto settings = Settings();
  settings.set_gamma(1.5);
  EXPECT_EQ(Breach(settings), "gamma of SchedulerSettings is 1.5; it is at most 1");
  settings.set_gamma(0);
  EXPECT_EQ(Breach(settings), "gamma of SchedulerSettings is 0; it is above 0");
  settings.set_gamma(std::nan(""));
  EXPECT_NE(Breach(settings), "");
  settings = Settings();
  settings.set_interval_ns(~0ULL);
  EXPECT_NE(Breach(settings), "");
}

TEST(LimitsTest, AnAbsentOptionalNumberHasNoBound) {
  auto settings = Settings();
  EXPECT_EQ(Breach(settings), "");
  settings.set_theta_max(0);
  EXPECT_NE(Breach(settings), "");
}

v1::LinkConfig Ring(const std::string& name) {
  v1::LinkConfig link;
  link.set_name(name);
  link.set_kind(v1::LINK_RING);
  link.set_slots(2048);
  return link;
}

TEST(LimitsTest, NamesCannotLeaveAFolder) {
  EXPECT_EQ(Breach(Ring("edge.0")), "");
  for (const char* name : {"..", "/x", "a/b", "", ".a", "a\nb"})
    EXPECT_NE(Breach(Ring(name)), "") << name;
  EXPECT_NE(Breach(Ring(std::string(25, 'a'))), "");
}

TEST(LimitsTest, WalksIntoListsOfMessages) {
  v1::DeployRequest request;
  request.set_run("demo");
  *request.add_links() = Ring("edge.0");
  EXPECT_EQ(Breach(request), "");
  request.add_links()->CopyFrom(Ring("edge.1"));
  request.mutable_links(1)->set_slots(1000);
  EXPECT_EQ(Breach(request), "slots of LinkConfig is 1000; it is a power of two");
  request.mutable_links(1)->set_slots(2048);
  for (int i = 0; i < 300; ++i) *request.add_links() = Ring("edge.0");
  EXPECT_EQ(Breach(request), "links of DeployRequest has 302 items; it has at most 256");
}

TEST(LimitsTest, RequiredMeansGiven) {
  v1::PolicyRequest request;
  EXPECT_EQ(Breach(request), "policy of PolicyRequest is not given");
  request.set_policy(static_cast<v1::Policy>(77));
  EXPECT_EQ(Breach(request), "policy of PolicyRequest has the unknown value 77");
  request.set_policy(v1::POLICY_UNIS);
  EXPECT_EQ(Breach(request), "");
  v1::EstimateRequest estimate;
  EXPECT_EQ(Breach(estimate), "functions of EstimateRequest is an empty list; add at least one");
  estimate.add_functions("fw");
  estimate.add_sizes(32);
  EXPECT_EQ(Breach(estimate), "sizes of EstimateRequest is 32; it is at least 64");
}

}  // namespace
}  // namespace unis
