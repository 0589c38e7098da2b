#include "models/cache/recording.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "models/cache/by_ways.h"

namespace unis::cache {
namespace {

std::string Refusal(std::vector<std::uint8_t> bytes) {
  auto parsed = Recording::Parse(std::move(bytes));
  const auto* sentence = std::get_if<std::string>(&parsed);
  return sentence == nullptr ? "" : *sentence;
}

TEST(RecordingTest, ReadsWhatIsWritten) {
  std::mt19937_64 dice(1);
  RecordingWriter writer;
  std::vector<Line> lines;
  for (int i = 0; i < 1000; ++i) {
    lines.push_back(dice() >>
                    (8 + dice() % 56));  // an address has 58 bits without those of its line
    (i % 2 == 0) ? writer.Load(lines.back()) : writer.Store(lines.back());
  }
  writer.Arrival(77, 4, 2);
  writer.BurstEnd(1, 500, 300);
  const auto parsed = Recording::Parse(writer.bytes());
  const auto* recording = std::get_if<Recording>(&parsed);
  ASSERT_NE(recording, nullptr);
  EXPECT_EQ(recording->packets(), 1u);
  auto place = recording->begin();
  for (int i = 0; i < 1000; ++i) {
    const Event event = recording->Next(place);
    EXPECT_EQ(event.kind, i % 2 == 0 ? Event::Kind::kLoad : Event::Kind::kStore);
    EXPECT_EQ(event.line, lines[static_cast<std::size_t>(i)]);
  }
  const Event arrival = recording->Next(place);
  EXPECT_EQ(arrival.kind, Event::Kind::kArrival);
  EXPECT_EQ(arrival.line, 77u);
  EXPECT_EQ(arrival.frame_at, 4u);
  EXPECT_EQ(arrival.frame_lines, 2u);
  EXPECT_FALSE(recording->AtEnd(place));
  const Event end = recording->Next(place);
  EXPECT_EQ(end.kind, Event::Kind::kBurstEnd);
  EXPECT_EQ(end.instructions, 500u);
  EXPECT_EQ(end.references, 300u);
  EXPECT_TRUE(recording->AtEnd(place));
}

TEST(RecordingTest, RefusesWhatIsNone) {
  EXPECT_NE(Refusal({}).find("no recording"), std::string::npos);
  EXPECT_NE(Refusal({'U', 'N', 'I', 'S', 'R', 'E', 'F', '2', 0}).find("UNISREF1"),
            std::string::npos);
  EXPECT_NE(Refusal(RecordingWriter().bytes()).find("no packets"), std::string::npos);
}

TEST(RecordingTest, RefusesEveryPartOfOne) {
  RecordingWriter writer;
  writer.Arrival(1000, 4, 1);
  writer.Load(1 << 20);
  writer.BurstEnd(1, 1000, 300);
  const auto whole = writer.bytes();
  EXPECT_EQ(Refusal(whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(Refusal({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}), "")
        << size << " bytes";
  }
}

TEST(RecordingTest, NoBytesLeadAstray) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 dice(seed);
    std::vector<std::uint8_t> bytes = RecordingWriter().bytes();
    for (std::uint32_t i = dice() % 60; i > 0; --i) {
      bytes.push_back(static_cast<std::uint8_t>(dice() % 4 == 0 ? dice() : dice() % 8));
    }
    const auto parsed = Recording::Parse(bytes);
    const auto* recording = std::get_if<Recording>(&parsed);
    if (recording == nullptr) continue;
    std::uint64_t packets = 0;
    for (auto place = recording->begin(); !recording->AtEnd(place);) {
      packets += recording->Next(place).packets;
    }
    EXPECT_EQ(packets, recording->packets());
    const Machine machine{{64, 2}, {64, 4}, {128, 8}, 2};
    EXPECT_EQ(ProfileByWays(*recording, machine, 0).packets, packets);
  }
}

TEST(RecordingTest, NoChangedByteLeadsAstray) {
  int read = 0;
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 dice(seed);
    RecordingWriter writer;
    for (int burst = 0; burst < 3; ++burst) {
      writer.Arrival(dice() % 5000, dice() % 40, dice() % 30);
      writer.Load(dice() >> (6 + dice() % 58));
      writer.Store(dice() % 5000);
      writer.BurstEnd(1, dice() % 1000, dice() % 1000);
    }
    std::vector<std::uint8_t> bytes = writer.bytes();
    for (int changes = 0; changes < 2; ++changes) {
      bytes[8 + dice() % (bytes.size() - 8)] = static_cast<std::uint8_t>(dice());
    }
    const auto place = static_cast<std::ptrdiff_t>(8 + dice() % (bytes.size() - 8));
    bytes.insert(bytes.begin() + place, dice() % 10, 0xff);  // a varint becomes large
    const auto parsed = Recording::Parse(bytes);
    const auto* recording = std::get_if<Recording>(&parsed);
    if (recording == nullptr) continue;
    ++read;
    const ByWays counts = ProfileByWays(*recording, {{64, 2}, {64, 4}, {128, 8}, 2}, 0);
    EXPECT_EQ(counts.packets, recording->packets());
    EXPECT_LE(counts.device_lines, counts.packets * 1025);
  }
  EXPECT_GT(read, 100);
}

TEST(RecordingTest, RefusesWhatWouldNotEnd) {
  const auto refusal = [](std::uint64_t frame_lines) {
    RecordingWriter writer;
    writer.Arrival(1000, 4, frame_lines);
    writer.BurstEnd(1, 1000, 300);
    return Refusal(writer.bytes());
  };
  EXPECT_EQ(refusal(1025), "");
  EXPECT_EQ(refusal(1026), "has a frame of more lines than a packet has.");
  EXPECT_EQ(refusal(std::numeric_limits<std::uint64_t>::max()), refusal(1026));

  RecordingWriter writer;
  writer.Arrival(1000, 4, 1);
  writer.BurstEnd(1, 1000, 300);
  writer.BurstEnd(0, 0, 0);
  EXPECT_EQ(Refusal(writer.bytes()), "has a burst without packets.");
}

TEST(RecordingTest, RefusesCountsThatNoBurstHas) {
  const auto refusal = [](std::uint64_t instructions, std::uint64_t references) {
    RecordingWriter writer;
    writer.Arrival(1000, 4, 1);
    writer.BurstEnd(1, instructions, references);
    return Refusal(writer.bytes());
  };
  const std::uint64_t most = std::uint64_t{1} << 40;
  EXPECT_EQ(refusal(most, most), "");
  EXPECT_EQ(refusal(most + 1, 1), "has a burst of more instructions or references than 2^40.");
  EXPECT_EQ(refusal(1, most + 1), refusal(most + 1, 1));
}

TEST(RecordingTest, NamesAFileThatIsNotThere) {
  auto read = Recording::Read("/nowhere/nat.refs");
  ASSERT_TRUE(std::holds_alternative<std::string>(read));
  EXPECT_NE(std::get<std::string>(read).find("/nowhere/nat.refs"), std::string::npos);
  EXPECT_TRUE(std::holds_alternative<std::string>(Recording::Read("/")));
}

}  // namespace
}  // namespace unis::cache
