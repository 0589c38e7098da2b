#include "engine/trace/trace_recorder.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <array>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace unis {
namespace {

struct Polled {
  std::uint64_t polls = 0;
  std::uint64_t packets = 0;
};

struct FakeActivity final : Activity {
  explicit FakeActivity(const Polled& of) : of(of) {}
  std::uint64_t Polls() const noexcept override { return of.polls; }
  std::uint64_t Packets() const noexcept override { return of.packets; }
  const Polled& of;
};

class TraceRecorderTest : public testing::Test {
 protected:
  TraceRecorder Recorder() const {
    std::vector<std::unique_ptr<Activity>> tasks;
    for (const Polled& task : activity_) tasks.push_back(std::make_unique<FakeActivity>(task));
    return TraceRecorder(std::move(tasks));
  }
  void Begin(TraceRecorder& recorder) {
    trace_ = {};
    recorder.Begin(trace_);
  }
  void Poll(TaskIndex task, std::uint64_t packets) {
    ++activity_[task].polls;
    activity_[task].packets += packets;
  }
  static void ExpectRun(const RunSeen& run, TaskIndex task, Nanoseconds begin, Nanoseconds end,
                        std::uint64_t packets) {
    EXPECT_EQ(run.task, task);
    EXPECT_EQ(run.begin, begin);
    EXPECT_EQ(run.end, end);
    EXPECT_EQ(run.packets, packets);
  }

  std::array<Polled, 2> activity_;
  Trace trace_;
};

TEST_F(TraceRecorderTest, ARunLastsWhileNobodyElsePolls) {
  TraceRecorder recorder = Recorder();
  Begin(recorder);
  recorder.Sample(100);  // nobody
  Poll(0, 5);
  recorder.Sample(200);
  Poll(0, 0);
  recorder.Sample(300);
  recorder.Sample(400);  // paused
  Poll(0, 7);
  recorder.Sample(500);
  Poll(1, 3);
  recorder.Sample(600);
  Poll(0, 2);
  recorder.Sample(700);

  ASSERT_EQ(trace_.runs.size(), 3U);
  ExpectRun(trace_.runs[0], 0, 200, 500, 12);
  ExpectRun(trace_.runs[1], 1, 500, 600, 3);
  ExpectRun(trace_.runs[2], 0, 600, 700, 2);
}

TEST_F(TraceRecorderTest, WhatWasBeforeDoesNotCount) {
  TraceRecorder recorder = Recorder();
  Poll(0, 1000);
  Begin(recorder);
  recorder.Sample(100);
  EXPECT_TRUE(trace_.runs.empty());
  Poll(0, 3);
  recorder.Sample(200);
  ASSERT_EQ(trace_.runs.size(), 1U);
  EXPECT_EQ(trace_.runs[0].packets, 3U);
}

TEST_F(TraceRecorderTest, EachTraceIsOfItsTimeAlone) {
  TraceRecorder recorder = Recorder();
  Begin(recorder);
  Poll(0, 1);
  recorder.Sample(100);
  recorder.OnSwitch({});
  recorder.End();
  Begin(recorder);
  EXPECT_TRUE(trace_.runs.empty());
  EXPECT_TRUE(trace_.switches.empty());
  EXPECT_EQ(trace_.lost, 0U);
  Poll(1, 1);
  recorder.Sample(900);
  ASSERT_EQ(trace_.runs.size(), 1U);
  ExpectRun(trace_.runs[0], 1, 900, 900, 1);  // not since the end of an earlier trace
}

TEST_F(TraceRecorderTest, KeepsSwitchesOnlyWhileRecording) {
  TraceRecorder recorder = Recorder();
  SwitchRecord record{};
  recorder.OnSwitch(record);
  EXPECT_FALSE(recorder.wants());
  Begin(recorder);
  EXPECT_TRUE(recorder.wants());
  record.time = 5;
  record.from = 0;
  record.to = 1;
  record.reason = SwitchReason::kEgressHigh;
  recorder.OnSwitch(record);
  recorder.End();
  recorder.OnSwitch(record);
  ASSERT_EQ(trace_.switches.size(), 1U);
  EXPECT_EQ(trace_.switches[0].time, 5);
  EXPECT_EQ(trace_.switches[0].to, 1U);
  EXPECT_EQ(trace_.switches[0].reason, SwitchReason::kEgressHigh);
}

// Whoever polls, however often somebody looks: runs of a core follow each other without a gap, no
// task follows itself, and every packet is in one of them.
TEST_F(TraceRecorderTest, RunsAreSeamlessAndHoldEveryPacket) {
  TraceRecorder recorder = Recorder();
  Begin(recorder);
  std::mt19937 random(8);
  std::map<TaskIndex, std::uint64_t> sent;
  for (Nanoseconds now = 0; now < 5000; now += 1 + random() % 3) {
    // One task at a time, as on a real core.
    if (random() % 3 != 0) {
      const auto task = static_cast<TaskIndex>(random() % 2);
      const std::uint64_t packets = random() % 65;
      Poll(task, packets);
      sent[task] += packets;
    }
    recorder.Sample(now);
  }
  std::map<TaskIndex, std::uint64_t> seen;
  const RunSeen* last = nullptr;
  for (const RunSeen& run : trace_.runs) {
    seen[run.task] += run.packets;
    EXPECT_LE(run.begin, run.end);
    if (last != nullptr) {
      EXPECT_EQ(run.begin, last->end);
      EXPECT_NE(run.task, last->task);
    }
    last = &run;
  }
  EXPECT_EQ(seen, sent);
  EXPECT_GT(trace_.runs.size(), 500U);
}

TEST_F(TraceRecorderTest, CountsWhatItHasNoRoomFor) {
  TraceRecorder recorder = Recorder();
  Begin(recorder);
  constexpr std::uint64_t kEvents = 200'000;
  for (std::uint64_t i = 0; i < kEvents; ++i) recorder.OnSwitch({});
  const std::uint64_t lost_switches = trace_.lost;
  EXPECT_GT(lost_switches, 0U);
  EXPECT_EQ(trace_.switches.size() + lost_switches, kEvents);
  for (std::uint64_t i = 0; i < kEvents; ++i) {
    Poll(static_cast<TaskIndex>(i % 2), 1);
    recorder.Sample(static_cast<Nanoseconds>(i));
  }
  EXPECT_GT(trace_.lost, lost_switches);
  EXPECT_EQ(trace_.runs.size() + trace_.lost - lost_switches, kEvents);
  Begin(recorder);
  EXPECT_EQ(trace_.lost, 0U);
  recorder.OnSwitch({});
  EXPECT_EQ(trace_.switches.size(), 1U);
}

// A page that is touched first, or moved, costs the tick more than the switch that it notes.
TEST_F(TraceRecorderTest, TouchesNoMemoryFirst) {
  malloc_trim(0);  // what other tests have touched and freed is no help
  TraceRecorder recorder = Recorder();
  recorder.Begin(trace_);
  const auto event = [&](std::uint64_t i) {
    recorder.OnSwitch({});
    Poll(static_cast<TaskIndex>(i % 2), 1);
    recorder.Sample(static_cast<Nanoseconds>(i));
  };
  event(0);
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
  };
  const long before = faults();
  const auto* const switches = trace_.switches.data();
  for (std::uint64_t i = 1; i < 100'000; ++i) event(i);
  EXPECT_LT(faults() - before, 100) << "of 2,000 pages and more";
  EXPECT_EQ(trace_.switches.data(), switches);
  EXPECT_EQ(trace_.runs.size(), 100'000U);
}

}  // namespace
}  // namespace unis
