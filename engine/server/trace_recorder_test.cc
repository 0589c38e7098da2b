#include "engine/server/trace_recorder.h"

#include <gtest/gtest.h>
#include <rte_memzone.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/base/eal_for_test.h"

namespace unis {
namespace {

// Two NFs on core 0 and one on core 1, whose ports the tests write.
class TraceRecorderTest : public testing::Test {
 protected:
  static constexpr CoreIndex kCoreOf[] = {0, 0, 1};

  void SetUp() override {
    ASSERT_TRUE(StartTestEal());
    ports_.reserve(3);
    for (NfIndex nf = 0; nf < 3; ++nf) {
      const std::string name = "trace_port_" + std::to_string(nf);
      auto port = PortShm::Create(name);
      ASSERT_TRUE(port.ok()) << port.status();
      ports_.push_back(*std::move(port));
      shm_.push_back(static_cast<unis_port_shm*>(rte_memzone_lookup(name.c_str())->addr));
    }
  }
  TraceRecorder Recorder() const {
    std::vector<TraceRecorder::Watched> watched;
    for (NfIndex nf = 0; nf < 3; ++nf) watched.push_back({&ports_[nf], kCoreOf[nf]});
    return {watched, 2};
  }
  void Poll(NfIndex nf, std::uint64_t packets) {
    ++shm_[nf]->polls;
    shm_[nf]->rx_packets += packets;
  }
  static void ExpectRun(const unis::Run& run, NfIndex nf, Nanoseconds begin, Nanoseconds end,
                        std::uint64_t packets) {
    EXPECT_EQ(run.nf, nf);
    EXPECT_EQ(run.begin, begin);
    EXPECT_EQ(run.end, end);
    EXPECT_EQ(run.packets, packets);
  }

  std::vector<PortShm> ports_;
  std::vector<unis_port_shm*> shm_;
};

TEST_F(TraceRecorderTest, ARunLastsWhileNobodyElseOfTheCorePolls) {
  TraceRecorder recorder = Recorder();
  recorder.Begin();
  recorder.Sample(100);  // nobody
  Poll(0, 5);
  recorder.Sample(200);
  Poll(0, 0);
  recorder.Sample(300);
  recorder.Sample(400);  // paused
  Poll(0, 7);
  Poll(2, 1);  // the other core does not end it
  recorder.Sample(500);
  Poll(1, 3);
  recorder.Sample(600);
  Poll(0, 2);
  recorder.Sample(700);

  ASSERT_EQ(recorder.runs().size(), 4U);
  ExpectRun(recorder.runs()[0], 0, 200, 500, 12);
  ExpectRun(recorder.runs()[1], 2, 500, 500, 1);
  ExpectRun(recorder.runs()[2], 1, 500, 600, 3);
  ExpectRun(recorder.runs()[3], 0, 600, 700, 2);
}

TEST_F(TraceRecorderTest, WhatWasBeforeDoesNotCount) {
  TraceRecorder recorder = Recorder();
  Poll(0, 1000);
  recorder.Begin();
  recorder.Sample(100);
  EXPECT_TRUE(recorder.runs().empty());
  Poll(0, 3);
  recorder.Sample(200);
  ASSERT_EQ(recorder.runs().size(), 1U);
  EXPECT_EQ(recorder.runs()[0].packets, 3U);
}

TEST_F(TraceRecorderTest, BeginForgets) {
  TraceRecorder recorder = Recorder();
  recorder.Begin();
  Poll(0, 1);
  recorder.Sample(100);
  recorder.OnSwitch({});
  recorder.End();
  recorder.Begin();
  EXPECT_TRUE(recorder.runs().empty());
  EXPECT_TRUE(recorder.switches().empty());
  EXPECT_EQ(recorder.lost(), 0U);
  Poll(1, 1);
  recorder.Sample(900);
  ASSERT_EQ(recorder.runs().size(), 1U);
  ExpectRun(recorder.runs()[0], 1, 900, 900, 1);  // not since the end of an earlier trace
}

TEST_F(TraceRecorderTest, KeepsSwitchesOnlyWhileRecording) {
  TraceRecorder recorder = Recorder();
  SwitchRecord record{};
  recorder.OnSwitch(record);
  EXPECT_FALSE(recorder.recording());
  recorder.Begin();
  EXPECT_TRUE(recorder.recording());
  record.time = 5;
  record.from = 0;
  record.to = 1;
  record.reason = SwitchReason::kEgressHigh;
  recorder.OnSwitch(record);
  recorder.End();
  recorder.OnSwitch(record);
  ASSERT_EQ(recorder.switches().size(), 1U);
  EXPECT_EQ(recorder.switches()[0].time, 5);
  EXPECT_EQ(recorder.switches()[0].to, 1U);
  EXPECT_EQ(recorder.switches()[0].reason, SwitchReason::kEgressHigh);
}

// Whoever polls, however often somebody looks: runs of a core follow each other without a gap, no
// NF follows itself, and every packet is in one of them.
TEST_F(TraceRecorderTest, RunsOfACoreAreSeamlessAndHoldEveryPacket) {
  TraceRecorder recorder = Recorder();
  recorder.Begin();
  std::mt19937 random(8);
  std::map<NfIndex, std::uint64_t> sent;
  for (Nanoseconds now = 0; now < 5000; now += 1 + random() % 3) {
    // One NF of a core at a time, as on a real one.
    for (const NfIndex nf : {static_cast<NfIndex>(random() % 2), NfIndex{2}}) {
      if (random() % 3 == 0) continue;
      const std::uint64_t packets = random() % 65;
      Poll(nf, packets);
      sent[nf] += packets;
    }
    recorder.Sample(now);
  }
  std::map<NfIndex, std::uint64_t> seen;
  std::map<CoreIndex, unis::Run> last;
  for (const unis::Run& run : recorder.runs()) {
    seen[run.nf] += run.packets;
    EXPECT_LE(run.begin, run.end);
    const CoreIndex core = kCoreOf[run.nf];
    if (last.contains(core)) {
      EXPECT_EQ(run.begin, last[core].end);
      EXPECT_NE(run.nf, last[core].nf);
    }
    last[core] = run;
  }
  EXPECT_EQ(seen, sent);
  EXPECT_GT(recorder.runs().size(), 500U);
}

TEST_F(TraceRecorderTest, CountsWhatItHasNoRoomFor) {
  TraceRecorder recorder = Recorder();
  recorder.Begin();
  constexpr std::uint64_t kEvents = 200'000;
  for (std::uint64_t i = 0; i < kEvents; ++i) recorder.OnSwitch({});
  const std::uint64_t lost_switches = recorder.lost();
  EXPECT_GT(lost_switches, 0U);
  EXPECT_EQ(recorder.switches().size() + lost_switches, kEvents);
  const auto* before = recorder.switches().data();
  for (std::uint64_t i = 0; i < kEvents; ++i) {
    Poll(static_cast<NfIndex>(i % 2), 1);
    recorder.Sample(static_cast<Nanoseconds>(i));
  }
  EXPECT_GT(recorder.lost(), lost_switches);
  EXPECT_EQ(recorder.runs().size() + recorder.lost() - lost_switches, kEvents);
  recorder.Begin();
  EXPECT_EQ(recorder.lost(), 0U);
  recorder.OnSwitch({});
  EXPECT_EQ(recorder.switches().data(), before) << "memory was allocated anew";
}

}  // namespace
}  // namespace unis
