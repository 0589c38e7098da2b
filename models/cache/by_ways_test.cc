#include "models/cache/by_ways.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "models/cache/brute_force_for_test.h"
#include "models/cache/core.h"
#include "models/cache/neighbours.h"

namespace unis::cache {
namespace {

constexpr Machine kMachine{{64, 2}, {64, 4}, {128, 8}, 2};
constexpr Line kBuffers = 1 << 30;

// All with the same warm-up.
std::vector<NeighbourCounts> Play(std::vector<Neighbour> neighbours, const Machine& machine,
                                  std::uint64_t warm_up, std::uint64_t packets) {
  for (Neighbour& neighbour : neighbours) neighbour.warm_up = warm_up;
  return PlayNeighbours(neighbours, machine, packets);
}

Recording Made(const RecordingWriter& writer) {
  auto parsed = Recording::Parse(writer.bytes());
  return std::get<Recording>(std::move(parsed));
}

// Packets that each touch `touched` lines of `lines`, the first so often: `draw` says which.
template <class Draw>
Recording Packets(int packets, int touched, Draw draw) {
  RecordingWriter writer;
  for (int packet = 0; packet < packets; ++packet) {
    const Line mbuf = kBuffers + static_cast<Line>(packet % 16) * 37;
    writer.Arrival(mbuf, 4, 1);
    writer.Load(mbuf + 4);
    for (int i = 0; i < touched; ++i) writer.Load(draw(packet * touched + i));
    writer.BurstEnd(1, 100, 1 + static_cast<std::uint64_t>(touched));
  }
  return Made(writer);
}

Recording Uniform(std::uint32_t seed, std::uint32_t lines, int packets = 4000) {
  std::mt19937 dice(seed);
  return Packets(packets, 4, [&](int) { return Line{dice() % lines}; });
}

TEST(ByWaysTest, AgreesWithALastLevelOfEachNumberOfWays) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 dice(seed);
    RecordingWriter writer;
    struct Reference {
      Line line;
      bool store;
    };
    std::vector<Reference> references;
    for (int i = 0; i < 20'000; ++i) {
      const Reference reference{dice() % 3000, dice() % 3 == 0};
      references.push_back(reference);
    }
    // A line that was thrown out counts as written back when it falls below all ways: so others
    // push out what the core has, and then what the last level has.
    for (Line line = 0; line < 2 * kMachine.llc.sets * kMachine.llc.ways; ++line) {
      references.push_back({(1 << 20) + line, false});
    }
    for (const Reference& reference : references) {
      reference.store ? writer.Store(reference.line) : writer.Load(reference.line);
    }
    writer.Arrival(kBuffers, 0, 0);
    writer.BurstEnd(1, 1, references.size());
    const ByWays counts = ProfileByWays(Made(writer), kMachine, 0);
    for (std::uint32_t ways = 1; ways <= kMachine.llc.ways; ++ways) {
      Core core(kMachine.l1, kMachine.l2);
      BruteForceCache llc({kMachine.llc.sets, ways});
      std::uint64_t misses = 0;
      for (const Reference& reference : references) {
        const auto level =
            core.Access(reference.line, reference.store, [&](Line line) { llc.WriteBack(line); });
        if (level == Core::Level::kBelow) misses += !llc.Access(reference.line, false);
      }
      // The packet's arrival: the driver's store.
      core.Access(kBuffers, true, [&](Line line) { llc.WriteBack(line); });
      llc.Access(kBuffers, false);
      EXPECT_EQ(counts.misses[ways - 1], misses) << "seed " << seed << ", ways " << ways;
      EXPECT_EQ(counts.written_back[ways - 1], llc.written_back())
          << "seed " << seed << ", ways " << ways;
    }
    EXPECT_EQ(counts.references, counts.l1_hits + counts.l2_hits + counts.llc_references);
  }
}

TEST(ByWaysTest, NothingIsLostByWhatTheRecorderLeavesOut) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 dice(seed);
    RecordingWriter whole, recorded;
    unis_filter filter = {};
    Line recent[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    int left_out = 0;
    std::uint64_t arrived = 0;
    for (int i = 0; i < 30'000; ++i) {
      const Line mbuf = kBuffers + dice() % 16 * 37;
      Line& line = recent[dice() % 8];
      if (dice() % 3 == 0) line = dice() % 4 == 0 ? mbuf + dice() % 8 : 1 + dice() % 4000;
      if (dice() % 50 == 0) {  // as the recorder has it
        ++arrived;
        whole.Arrival(mbuf, 4, 2);
        recorded.Arrival(mbuf, 4, 2);
        unis_filter_take(&filter, mbuf, true);
        for (Line frame = mbuf + 4; frame < mbuf + 6; ++frame) unis_filter_forget(&filter, frame);
      }
      const bool store = dice() % 3 == 0;
      store ? whole.Store(line) : whole.Load(line);
      if (unis_filter_take(&filter, line, store)) {
        ++left_out;
        continue;
      }
      store ? recorded.Store(line) : recorded.Load(line);
    }
    EXPECT_GT(left_out, 1000);
    for (RecordingWriter* writer : {&whole, &recorded}) writer->BurstEnd(arrived, 1, 30'000);
    const ByWays full = ProfileByWays(Made(whole), kMachine, 0);
    const ByWays less = ProfileByWays(Made(recorded), kMachine, 0);
    EXPECT_EQ(full.l1_hits, less.l1_hits);
    EXPECT_EQ(full.l2_hits, less.l2_hits);
    EXPECT_EQ(full.io_hits, less.io_hits);
    EXPECT_EQ(full.misses, less.misses);
    EXPECT_EQ(full.driver_misses, less.driver_misses);
    EXPECT_EQ(full.written_back, less.written_back);
    EXPECT_EQ(full.device_spills, less.device_spills);
  }
}

TEST(ByWaysTest, MoreWaysNeverMissMore) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const ByWays counts = ProfileByWays(Uniform(seed, 200 + 100 * seed), kMachine, 1000);
    EXPECT_TRUE(std::ranges::is_sorted(counts.misses, std::greater<>())) << "seed " << seed;
    EXPECT_TRUE(std::ranges::is_sorted(counts.occupancy)) << "seed " << seed;
  }
}

TEST(ByWaysTest, AWorkingSetOfSomeWaysMissesWithFewerOnly) {
  const Line lines = 5 * 128;  // five ways, more than the core's own
  const auto recording = Packets(4000, 4, [&](int i) { return static_cast<Line>(i) % lines; });
  const ByWays counts = ProfileByWays(recording, kMachine, 1000);
  EXPECT_EQ(counts.packets, 3000u);
  EXPECT_EQ(counts.misses[3], counts.packets * 4);
  EXPECT_EQ(counts.misses[4], 0u);
  EXPECT_EQ(counts.first_touches, 0u);
  EXPECT_EQ(counts.io_hits, counts.packets);
}

TEST(ByWaysTest, WithoutWaysForDevicesAFrameComesFromMemory) {
  Machine machine = kMachine;
  machine.io_ways = 0;
  const auto recording = Packets(1000, 1, [](int) { return Line{1}; });
  EXPECT_EQ(ProfileByWays(recording, kMachine, 100).misses[7], 0u);
  EXPECT_EQ(ProfileByWays(recording, machine, 100).misses[7], 900u);
}

// Packets that nobody reads.
Recording Frames(int packets, int buffers) {
  RecordingWriter writer;
  for (int packet = 0; packet < packets; ++packet) {
    writer.Arrival(kBuffers + static_cast<Line>(packet % buffers) * 37, 4, 1);
    writer.BurstEnd(1, 1, 0);
  }
  return Made(writer);
}

// ResQ, section 4.3: with more buffers than its ways hold, what the device wrote is gone when it is
// read.
TEST(ByWaysTest, TooManyBuffersLeak) {
  EXPECT_EQ(ProfileByWays(Frames(6000, 64), kMachine, 2000).device_spills, 0u);
  EXPECT_EQ(ProfileByWays(Frames(6000, 1024), kMachine, 2000).device_spills, 4000u);
}

// Without ways each line that the device writes goes to memory, also where with some none would.
TEST(ByWaysTest, WithoutWaysForDevicesNoLessIsWritten) {
  Machine without = kMachine;
  without.io_ways = 0;
  for (const int buffers : {64, 1024}) {
    const auto recording = Frames(6000, buffers);
    const ByWays some = ProfileByWays(recording, kMachine, 2000);
    const ByWays none = ProfileByWays(recording, without, 2000);
    EXPECT_EQ(none.device_spills, 4000u);
    for (std::size_t way = 0; way < kMachine.llc.ways; ++way) {
      EXPECT_GE(none.written_back[way] + none.device_spills,
                some.written_back[way] + some.device_spills);
    }
  }
}

TEST(NeighboursTest, OneAloneMissesAsWithSoManyWays) {
  Machine machine = kMachine;
  machine.io_ways = 0;
  const auto recording = Uniform(1, 900, 8000);
  const ByWays counts = ProfileByWays(recording, machine, 4000);
  for (std::uint32_t ways = 1; ways <= machine.llc.ways; ++ways) {
    const Neighbour alone{&recording, 1.0, (1u << ways) - 1};
    const auto played = Play({alone}, machine, 4000, 4000);
    EXPECT_EQ(played[0].packets, 4000u);
    EXPECT_EQ(played[0].instructions, counts.instructions);
    EXPECT_EQ(played[0].llc_references, counts.llc_references);
    EXPECT_EQ(played[0].misses, counts.misses[ways - 1]) << ways << " ways";
    EXPECT_EQ(played[0].driver_misses, counts.driver_misses[ways - 1]) << ways << " ways";
    EXPECT_EQ(played[0].occupancy, counts.occupancy[ways - 1]) << ways << " ways";
  }
}

// The device has ways besides those of the function, which occupies its own only. With 1024 buffers
// these leak, and what the device wrote goes to memory.
TEST(NeighboursTest, OneAloneWritesBackAsWithSoManyWays) {
  for (const Line buffers : {16u, 1024u}) {
    std::mt19937 dice(static_cast<std::uint32_t>(buffers));
    RecordingWriter writer;
    const std::uint64_t packets = 6000;
    for (Line packet = 0; packet < packets; ++packet) {
      writer.Arrival(kBuffers + packet % buffers * 37, 4, 1);
      for (int i = 0; i < 4; ++i) {
        const Line line = dice() % 1500;
        dice() % 3 == 0 ? writer.Store(line) : writer.Load(line);
      }
      writer.BurstEnd(1, 100, 4);
    }
    // As in AgreesWithALastLevelOfEachNumberOfWays: a line thrown out counts when it is below all.
    for (Line line = 0; line < 2 * kMachine.llc.sets * kMachine.llc.ways; ++line) {
      writer.Load((1 << 20) + line);
    }
    writer.Arrival(kBuffers, 4, 1);
    writer.BurstEnd(1, 1, 1);
    const auto recording = Made(writer);
    const ByWays counts = ProfileByWays(recording, kMachine, 0);
    EXPECT_EQ(counts.device_spills > 0, buffers == 1024u);
    for (std::uint32_t ways = 1; ways <= kMachine.llc.ways; ++ways) {
      Machine machine = kMachine;
      machine.llc.ways = ways + machine.io_ways;
      const Neighbour alone{&recording, 1.0, (1u << ways) - 1};
      const auto played = Play({alone}, machine, 0, packets + 1)[0];
      EXPECT_EQ(played.misses, counts.misses[ways - 1]) << ways << " ways";
      EXPECT_EQ(played.driver_misses, counts.driver_misses[ways - 1]) << ways << " ways";
      EXPECT_EQ(played.written_back, counts.written_back[ways - 1])
          << ways << " ways, " << buffers << " buffers";
      EXPECT_EQ(played.device_spills, counts.device_spills) << buffers << " buffers";
      EXPECT_EQ(played.occupancy, counts.occupancy[ways - 1]) << ways << " ways";
    }
  }
}

// The one stores, slowly enough that its lines are dirty in the last level before they are pushed
// out; the other only loads.
TEST(NeighboursTest, SharedWaysAreOccupiedByWhoFillsThemAndTheOwnersLinesAreWrittenBack) {
  RecordingWriter writer;
  for (int packet = 0; packet < 8000; ++packet) {
    writer.Arrival(kBuffers, 0, 0);
    for (int i = 0; i < 4; ++i) writer.Store(static_cast<Line>(packet * 4 + i) % (5 * 128));
    writer.BurstEnd(1, 100, 4);
  }
  const auto quiet = Made(writer);
  std::mt19937 dice(1);
  const auto loud = Packets(8000, 2, [&](int) { return Line{1 << 20} + dice() % (1 << 16); });
  const std::vector<Neighbour> apart = {{&quiet, 1.0, 0x1f}, {&loud, 1.0, 0x20}};
  const std::vector<Neighbour> shared = {{&quiet, 1.0, 0x3f}, {&loud, 1.0, 0x3f}};
  const auto isolated = Play(apart, kMachine, 2000, 4000);
  const auto mixed = Play(shared, kMachine, 2000, 4000);
  EXPECT_EQ(isolated[0].written_back, 0u);
  EXPECT_EQ(isolated[0].occupancy, 5u * 128);
  EXPECT_EQ(isolated[1].occupancy, 1u * 128);
  EXPECT_GT(mixed[0].written_back, 2 * mixed[0].packets);
  EXPECT_LE(mixed[1].written_back, mixed[1].packets + 16);  // it stores into mbufs only
  EXPECT_GT(mixed[1].occupancy, 128u);
  EXPECT_EQ(mixed[0].occupancy + mixed[1].occupancy, 6u * 128);
}

// Each packet pushes one of before out of the device's ways, or there are none. What the warm-up
// wrote is not counted.
TEST(NeighboursTest, BuffersThatLeakAreWrittenToMemoryAfterTheWarmUp) {
  const auto recording = Frames(8000, 1024);
  const std::vector<Neighbour> both = {{&recording, 1.0, 0x07}, {&recording, 1.0, 0x38}};
  Machine machine = kMachine;
  for (const std::uint32_t io_ways : {2u, 0u}) {
    machine.io_ways = io_ways;
    const auto played = Play(both, machine, 2000, 4096);
    std::uint64_t packets = 0, spills = 0, written_back = 0;
    for (const NeighbourCounts& counts : played) {
      packets += counts.packets;
      spills += counts.device_spills;
      written_back += counts.written_back;
      EXPECT_NEAR(static_cast<double>(counts.device_spills), static_cast<double>(counts.packets),
                  static_cast<double>(counts.packets) / 10);
    }
    EXPECT_EQ(spills, packets) << io_ways << " ways";
    EXPECT_LE(written_back, packets) << "mbufs";
  }
}

TEST(NeighboursTest, TheDeviceMayWriteIntoAll64Ways) {
  RecordingWriter writer;
  for (int packet = 0; packet < 100; ++packet) {
    writer.Arrival(kBuffers, 4, 1);
    writer.Load(kBuffers + 4);
    writer.BurstEnd(1, 1, 1);
  }
  const auto recording = Made(writer);
  const Neighbour alone{&recording, 1.0, 1};
  Machine machine{{64, 2}, {64, 4}, {64, 64}, 64};
  EXPECT_EQ(Play({alone}, machine, 10, 50)[0].misses, 0u);
  machine.io_ways = 0;
  EXPECT_EQ(Play({alone}, machine, 10, 50)[0].misses, 50u);
}

TEST(NeighboursTest, MasksOfTheirOwnIsolateAndSharedOnesDoNot) {
  const auto quiet = Packets(8000, 4, [](int i) { return static_cast<Line>(i) % (3 * 128); });
  const auto loud = Packets(8000, 16, [](int i) { return Line{1 << 20} + static_cast<Line>(i); });
  const auto misses = [&](std::uint64_t mine, std::uint64_t others) {
    const std::vector<Neighbour> both = {{&quiet, 1.0, mine}, {&loud, 1.0, others}};
    const auto played = Play(both, kMachine, 2000, 4000);
    return static_cast<double>(played[0].misses) / static_cast<double>(played[0].packets);
  };
  const Neighbour alone{&quiet, 1.0, 0x07};
  EXPECT_EQ(Play({alone}, kMachine, 2000, 4000)[0].misses, 0u);
  EXPECT_EQ(misses(0x07, 0x38), 0.0);
  EXPECT_GT(misses(0x3f, 0x3f), 1.0);
}

TEST(NeighboursTest, TwoOfTheSameProgramShareNoLines) {
  const auto recording = Packets(8000, 4, [](int i) { return static_cast<Line>(i) % (3 * 128); });
  const std::vector<Neighbour> both = {{&recording, 1.0, 0x0f}, {&recording, 1.0, 0x0f}};
  EXPECT_GT(Play(both, kMachine, 2000, 4000)[0].misses, 1000u);
}

// What fills a function's tables misses; a neighbour that takes longer to fill its own does not
// have it done again.
TEST(NeighboursTest, EachHasAWarmUpOfItsOwn) {
  // 1000 packets of lines that never come again, then 1000 of the same few.
  const auto fills =
      Packets(2000, 4, [](int i) { return static_cast<Line>(i < 4000 ? i : i % 128); });
  const auto longer = Packets(8000, 4, [](int i) { return static_cast<Line>(i) % 64; });
  const std::vector<Neighbour> both = {{&fills, 1.0, 0x0f, 1500}, {&longer, 1.0, 0xf0, 6000}};
  EXPECT_EQ(PlayNeighbours(both, kMachine, 4000)[0].misses, 0u);
}

TEST(NeighboursTest, RatesAreKept) {
  const auto recording = Uniform(1, 100);
  const std::vector<Neighbour> both = {{&recording, 1.0, 0x0f}, {&recording, 3.0, 0xf0}};
  const auto played = Play(both, kMachine, 0, 3000);
  EXPECT_NEAR(static_cast<double>(played[1].packets) / static_cast<double>(played[0].packets), 3.0,
              0.01);
}

}  // namespace
}  // namespace unis::cache
