#include "models/calibrate/sections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "engine/base/machine_for_test.h"
#include "models/calibrate/partner.h"
#include "models/calibrate/probe.h"
#include "models/calibrate/scheduling.h"
#include "models/calibrate/veth.h"

namespace unis {
namespace {

using testing::HasSubstr;

std::string Probes() { return std::getenv("PROBES") ? std::getenv("PROBES") : ""; }

// What a section must leave as it was.
struct ThreadState {
  cpu_set_t cpus{};
  int policy = sched_getscheduler(0);
  int slack_ns = prctl(PR_GET_TIMERSLACK);
  struct stat network {};

  ThreadState() {
    sched_getaffinity(0, sizeof(cpus), &cpus);
    stat("/proc/thread-self/ns/net", &network);
  }
  bool operator==(const ThreadState& other) const {
    return CPU_EQUAL(&cpus, &other.cpus) && policy == other.policy && slack_ns == other.slack_ns &&
           network.st_ino == other.network.st_ino;
  }
};

class SectionTest : public testing::Test {
 protected:
  void SetUp() override {
    UNIS_NEED_ROOT();
    UNIS_NEED_TWO_CPUS();
    settings_ = {.cpu = LastCpu(), .other_cpu = 0, .quick = true, .probes = Probes()};
  }

  // The rows; none twice, and the thread as before.
  std::vector<Row> Rows(void (*section)(const Settings&, const Report&)) {
    const ThreadState before;
    std::vector<Row> rows;
    section(settings_, [&](const Row& row) { rows.push_back(row); });
    EXPECT_TRUE(before == ThreadState());
    EXPECT_EQ(if_nametoindex("u0"), 0U);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // no child is left
    EXPECT_EQ(errno, ECHILD);
    std::set<std::string> names;
    for (Row row : rows) {
      EXPECT_NE(row.ns.has_value(), !row.missing.empty()) << ToJson(row);
      row.ns = {};
      row.missing.clear();
      EXPECT_TRUE(names.insert(ToJson(row)).second) << "twice: " << ToJson(row);
    }
    return rows;
  }

  static std::size_t Measured(const std::vector<Row>& rows) {
    return static_cast<std::size_t>(
        std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.ns.has_value(); }));
  }

  Settings settings_;
};

TEST_F(SectionTest, MemoryHasEachSizeOfPagesAndTheirDifference) {
  const auto rows = Rows(MeasureMemory);
  // 11 arrays of lines; 7 strides in two arrays: three rows each. Forward: 8 strides in two arrays.
  EXPECT_EQ(rows.size(), 3 * (11 + 2 * 7) + 2 * 8U);
  std::size_t of_small = 0, of_huge = 0, differences = 0;
  for (const Row& row : rows) {
    const Label& last = row.labels.at(2);
    of_small += last == Label("page_bytes", 4096) ? 1 : 0;
    of_huge += last == Label("page_bytes", 2 << 20) ? 1 : 0;
    differences += last == Label("part", "tlb") ? 1 : 0;
    if (last == Label("page_bytes", 4096)) {
      EXPECT_TRUE(row.ns) << row.missing;
    }
  }
  EXPECT_EQ(of_small, 25 + 16U);
  EXPECT_EQ(of_huge, 25U);
  EXPECT_EQ(differences, 25U);
}

TEST_F(SectionTest, CallsAreMeasured) { EXPECT_EQ(Measured(Rows(MeasureCalls)), 5U); }

TEST_F(SectionTest, SwitchesAreMeasuredInEveryClassOrSayWhyNot) {
  const auto rows = Rows(MeasureSwitches);
  EXPECT_EQ(rows.size(), 4 * 3 * 2U);
  for (const Row& row : rows) {
    const bool by_yield = row.labels[0].second == decltype(row.labels[0].second)("yield");
    if (by_yield && !row.ns) {
      EXPECT_THAT(row.missing, HasSubstr("sched_yield passes the CPU on in"));
    } else {
      EXPECT_TRUE(row.ns) << row.missing;
    }
  }
}

TEST_F(SectionTest, NoRealTimeClassIsTriedOnCpu0) {
  settings_.cpu = 0;
  settings_.other_cpu.reset();
  for (const auto section : {MeasureSwitches, MeasureWakeUps, MeasureTimers})
    for (const Row& row : Rows(section)) {
      const bool real_time = row.name == "fifo" || row.name == "rr";
      if (real_time) {
        EXPECT_FALSE(row.ns) << ToJson(row);
      }
      if (real_time && row.group != "wake_up") {
        EXPECT_THAT(row.missing, HasSubstr("no real-time class is tried on CPU 0"));
      }
    }
}

TEST_F(SectionTest, WakeUpsFromAnotherCpuNeedOne) {
  EXPECT_EQ(Measured(Rows(MeasureWakeUps)), 8U);
  settings_.other_cpu.reset();
  const auto rows = Rows(MeasureWakeUps);
  EXPECT_EQ(Measured(rows), 4U);
  for (const Row& row : rows)
    if (!row.ns) {
      EXPECT_EQ(row.missing, "there is only one CPU");
    }
}

TEST_F(SectionTest, TimersNeverEndEarly) {
  const auto rows = Rows(MeasureTimers);
  EXPECT_EQ(Measured(rows), 12U);
  for (const Row& row : rows)
    if (row.ns) {
      EXPECT_GT(row.ns->low, 0) << ToJson(row);
    }
}

TEST_F(SectionTest, PacketCallsAreMeasuredAndNoDeviceIsLeft) {
  const auto rows = Rows(MeasurePacketCalls);
  // 4 without packets. By frame: send past and through the discipline, recv, 9 batches both ways.
  EXPECT_EQ(rows.size(), 4 + 2 * (3 + 2 * 9U));
  EXPECT_EQ(Measured(rows), rows.size());
}

TEST_F(SectionTest, ProbesAreMeasuredOrSayWhyNot) {
  EXPECT_EQ(Measured(Rows(MeasureProbes)), 12U);
  settings_.probes = "/nonexistent/probes.bpf.o";
  for (const Row& row : Rows(MeasureProbes))
    EXPECT_THAT(row.missing, HasSubstr("cannot open /nonexistent/probes.bpf.o"));
}

TEST_F(SectionTest, AProbeCountsWhatPasses) {
  const PinnedTo pinned(settings_.cpu);
  const auto pair = VethPair::Make();
  ASSERT_TRUE(pair.ok()) << pair.status();
  const auto way = FrameWay::Open(*pair, false);
  ASSERT_TRUE(way.ok()) << way.status();
  Batches batches(100, 60, 32);
  const auto pass = [&] {
    EXPECT_EQ(batches.Send(way->sender()), 100U);
    EXPECT_EQ(batches.Receive(way->receiver()), 100U);
  };
  for (const char* name :
       {"netif_receive_skb", "net_dev_queue", "net_dev_start_xmit", "skb_copy_datagram_iovec"}) {
    auto probe = Probe::Load(Probes(), name), other = Probe::Load(Probes(), name);
    ASSERT_TRUE(probe.ok()) << probe.status();
    ASSERT_TRUE(other.ok()) << other.status();
    pass();
    EXPECT_EQ(probe->EventsOn(settings_.cpu), 0U) << name;
    ASSERT_TRUE(probe->Attach().ok());
    ASSERT_TRUE(other->Attach().ok());
    pass();
    probe->Detach();
    pass();
    // Other devices of the machine may have had packets meanwhile, though few on this CPU.
    EXPECT_GE(probe->EventsOn(settings_.cpu), 100U) << name;
    EXPECT_LT(probe->EventsOn(settings_.cpu), 200U) << name;
    EXPECT_GE(other->EventsOn(settings_.cpu), 200U) << name;
  }
}

TEST(InChildTest, ReturnsWhatWasMeasuredOrWhyNot) {
  const Samples found = InChild(5, [] { return Samples({1.5, 2.5}); });
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(*found, testing::ElementsAre(1.5, 2.5));
  EXPECT_EQ(InChild(5, [] { return Samples(absl::NotFoundError("nothing")); }).status().message(),
            "nothing");
}

TEST(InChildTest, EndsWhatDoesNotEnd) {
  const Samples found = InChild(1, []() -> Samples {
    while (true) pause();
  });
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("it was ended by signal 14"));
}

TEST(PinnedToTest, SaysIfTheCpuCannotBeHad) {
  EXPECT_TRUE(PinnedTo(LastCpu()).there());
  EXPECT_FALSE(PinnedTo(CPU_SETSIZE - 1).there());
}

TEST(InChildTest, LeavesTheCallersClassAlone) {
  const ThreadState before;
  const Samples found = InChild(5, []() -> Samples {
    if (const absl::Status runs = RunOn(LastCpu(), kBatch); !runs.ok()) return runs;
    return std::vector<double>{static_cast<double>(sched_getscheduler(0))};
  });
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->at(0), SCHED_BATCH);
  EXPECT_TRUE(before == ThreadState());
}

TEST(SharedTest, IsSeenByBothProcesses) {
  const Shared<int> number;
  EXPECT_EQ(*number, 0);
  {
    const Beside child = Beside::Process([&] { *number = 7; });
  }
  EXPECT_EQ(*number, 7);
}

}  // namespace
}  // namespace unis
