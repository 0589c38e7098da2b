// How many packets a turn may take, as the scheduler tells it tasks that hand the CPU over.
#include <gtest/gtest.h>

#include <vector>

#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

using Quotas = std::vector<std::uint32_t>;

SchedulerSettings OfQuota(std::uint32_t quota = 0) {
  SchedulerSettings settings;
  settings.handover = true;
  settings.quota = quota;
  return settings;
}

// So long that the first quota is not bounded by them.
FakeMonitor LongLinks() {
  FakeMonitor links = Links(4);
  links.capacity.assign(4, 8192);
  links.packets.assign(4, 4000);
  return links;
}

// A chain of three, all of which pass the CPU on.
struct QuotaTest : testing::Test {
  Rig& Make(const SchedulerSettings& settings, FakeMonitor links) {
    rig.reset(new Rig(settings, Chain({0, 0, 0}), 1, std::move(links)));
    rig->controller.in_line = {0, 1, 2};
    rig->observer.wanted = false;
    return *rig;
  }
  // Each packet takes as long as `cost_ns` says of the quota in use, and all have had as many.
  template <typename CostNs>
  void RunFor(Nanoseconds time, CostNs cost_ns) {
    double taken = 0;
    for (const Nanoseconds end = now + time; now < end;) {
      now += 50'000;
      taken += 50'000 / cost_ns(rig->controller.quotas[0]) / 3;
      rig->monitor.received.assign(4,
                                   static_cast<std::uint16_t>(static_cast<std::uint64_t>(taken)));
      rig->controller.turn = {.task = static_cast<TaskIndex>(now / 50'000 % 3), .begun = true};
      rig->TickAt(now);
    }
  }
  std::unique_ptr<Rig> rig;
  Nanoseconds now = 0;
};

double DearSwitches(std::uint32_t quota) { return kCost + 10'000.0 / quota; }
double DearCaches(std::uint32_t quota) { return kCost + quota / 50.0; }

TEST_F(QuotaTest, ItIsSaidBeforeTheFirstRuns) {
  Rig& made = Make(OfQuota(), LongLinks());
  ASSERT_TRUE(made.cores.Start());
  EXPECT_EQ(made.controller.quotas, (Quotas{2048, 2048, 2048}));
}

TEST_F(QuotaTest, OneThatIsGivenStays) {
  Rig& made = Make(OfQuota(300), Links(4));
  ASSERT_TRUE(made.cores.Start());
  RunFor(1'000'000'000, DearSwitches);
  EXPECT_EQ(made.controller.quotas, (Quotas{300, 300, 300}));
  EXPECT_EQ(made.cores[0].Quota(), 300U);
}

TEST_F(QuotaTest, NobodyTakesMoreThanItsLinksHold) {
  FakeMonitor links = Links(4);
  links.capacity = {2048, 2048, 512, 2048};
  Rig& made = Make(OfQuota(4000), links);
  ASSERT_TRUE(made.cores.Start());
  EXPECT_EQ(made.controller.quotas, (Quotas{1536, 384, 384}));
}

TEST_F(QuotaTest, ItGrowsWhereThatBringsMore) {
  Rig& made = Make(OfQuota(), LongLinks());
  ASSERT_TRUE(made.cores.Start());
  RunFor(1'000'000'000, DearSwitches);
  EXPECT_GT(made.cores[0].Quota(), 4000U);
}

TEST_F(QuotaTest, AndShrinks) {
  Rig& made = Make(OfQuota(), Links(4));
  ASSERT_TRUE(made.cores.Start());
  RunFor(2'000'000'000, DearCaches);
  EXPECT_LT(made.cores[0].Quota(), 300U);
}

TEST_F(QuotaTest, ItIsNotSearchedWithoutABacklog) {
  FakeMonitor links = LongLinks();
  links.packets.assign(4, 100);
  Rig& made = Make(OfQuota(), links);
  ASSERT_TRUE(made.cores.Start());
  RunFor(1'000'000'000, DearSwitches);
  EXPECT_EQ(made.cores[0].Quota(), 2048U);
}

TEST_F(QuotaTest, NorWhereALinkIsNotSeen) {
  FakeMonitor links = LongLinks();
  links.unknown = {0};
  Rig& made = Make(OfQuota(), links);
  ASSERT_TRUE(made.cores.Start());
  RunFor(1'000'000'000, DearSwitches);
  EXPECT_EQ(made.cores[0].Quota(), 2048U);
}

TEST_F(QuotaTest, ASearchGoesOnInAnotherScheduler) {
  Make(OfQuota(), Links(4));
  ASSERT_TRUE(rig->cores.Start());
  RunFor(300'000'000, DearCaches);
  const QuotaSearch search = *rig->cores[0].search();
  ASSERT_LT(search.found(), 800U);
  Rig& made = Make(OfQuota(), Links(4));
  made.cores[0].GoOnWith(search);
  ASSERT_TRUE(made.cores.Start());
  EXPECT_EQ(made.controller.quotas[0], search.found());
  RunFor(2'000'000'000, DearCaches);
  EXPECT_LT(made.cores[0].Quota(), 300U);
}

// What links hold under the one γ may be too much under the other.
TEST_F(QuotaTest, NoSearchGoesOnUnderAnotherGamma) {
  Make(OfQuota(), Links(4));
  ASSERT_TRUE(rig->cores.Start());
  const QuotaSearch search = *rig->cores[0].search();
  SchedulerSettings other = OfQuota();
  other.gamma = 0.5;
  Rig& made = Make(other, Links(4));
  made.cores[0].GoOnWith(search);
  ASSERT_TRUE(made.cores.Start());
  EXPECT_EQ(made.cores[0].Quota(), 1024U);
}

// Of the time between two trials only that counts as missed in which nobody looked.
TEST_F(QuotaTest, LooksBetweenTwoTrialsAreNotMissed) {
  Rig& made = Make(OfQuota(), Links(4));
  ASSERT_TRUE(made.cores.Start());
  RunFor(300'000'000, DearSwitches);  // all that may be tried was tried
  const std::uint32_t found = made.cores[0].Quota();
  int tried = 0;
  for (int i = 0; i < 4'000; ++i) {
    RunFor(1'000'000, DearSwitches);
    if (i % 50 == 0) now += 3'000'000;
    tried += made.controller.quotas[0] != found;
  }
  EXPECT_GT(tried, 0);
}

TEST_F(QuotaTest, WhereNobodyHandsTheCpuOverThereIsNone) {
  Rig& made = Make({}, Links(4));
  ASSERT_TRUE(made.cores.Start());
  EXPECT_EQ(made.cores[0].Quota(), 0U);
  EXPECT_TRUE(made.controller.quotas.empty());
}

}  // namespace
}  // namespace unis
