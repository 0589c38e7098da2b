#include "engine/platform/frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "engine/platform/captures_for_test.h"
#include "engine/platform/packets_for_test.h"

namespace unis {
namespace {

Bytes CopyOf(const Frames& frames, std::size_t i) {
  const auto bytes = frames.Bytes(frames[i]);
  Bytes copy(bytes.size());
  std::transform(bytes.begin(), bytes.end(), copy.begin(),
                 [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  return copy;
}

std::vector<Bytes> CopyOf(const Frames& frames) {
  std::vector<Bytes> all;
  for (std::size_t i = 0; i < frames.size(); ++i) all.push_back(CopyOf(frames, i));
  return all;
}

// ------------------------------------------------------------------ synthetic frames

// An independent reading of the headers.
struct Packet {
  explicit Packet(const Bytes& frame)
      : ether_type(Word(frame, 12, 2)),
        version_and_length(frame[14]),
        total_length(Word(frame, 16, 2)),
        protocol(frame[23]),
        src(Word(frame, 26, 4)),
        dst(Word(frame, 30, 4)),
        src_port(Word(frame, 34, 2)),
        dst_port(Word(frame, 36, 2)),
        udp_length(Word(frame, 38, 2)) {
    for (std::size_t at = 14; at < 34; at += 2) checksum += Word(frame, at, 2);
    while (checksum >> 16 != 0) checksum = (checksum & 0xffff) + (checksum >> 16);
  }
  auto Flow() const { return std::tuple(protocol, src, dst, src_port, dst_port); }

  std::uint32_t ether_type, version_and_length, total_length, protocol, src, dst, src_port,
      dst_port, udp_length;
  std::uint32_t checksum = 0;  // over the header with its checksum: all ones when valid
};

FlowMatch RandomMatch(std::mt19937& random) {
  const auto prefix = [&random]() -> std::optional<Prefix> {
    if (random() % 2 == 0) return std::nullopt;
    return Prefix{static_cast<std::uint32_t>(random()), static_cast<std::uint32_t>(random() % 33)};
  };
  FlowMatch match{.src = prefix(), .dst = prefix(), .src_port = {}, .dst_port = {}, .protocol = {}};
  if (random() % 2 == 0) match.src_port = static_cast<std::uint16_t>(random());
  if (random() % 2 == 0) match.dst_port = static_cast<std::uint16_t>(random());
  if (random() % 2 == 0) match.protocol = random() % 2 == 0 ? 17 : 6;
  return match;
}

void ExpectSatisfies(const Packet& packet, const FlowMatch& match) {
  if (match.src) {
    EXPECT_TRUE(Within(packet.src, *match.src)) << packet.src;
  }
  if (match.dst) {
    EXPECT_TRUE(Within(packet.dst, *match.dst)) << packet.dst;
  }
  if (match.src_port) {
    EXPECT_EQ(packet.src_port, *match.src_port);
  }
  if (match.dst_port) {
    EXPECT_EQ(packet.dst_port, *match.dst_port);
  }
  EXPECT_EQ(packet.protocol, match.protocol.value_or(17));
}

TEST(MakeFramesTest, SatisfyAnyMatchAndAreValid) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    SyntheticTraffic traffic{.mix = static_cast<SizeMix>(random() % 3),
                             .size = kMinFrame + static_cast<std::uint32_t>(random() % 1455),
                             .flows = 1 + static_cast<std::uint32_t>(random() % 300)};
    std::vector<FlowMatch> matches;
    while (matches.empty() || random() % 3 == 0) matches.push_back(RandomMatch(random));
    const Frames frames = MakeFrames(traffic, matches);
    ASSERT_GT(frames.size(), 0U);
    for (std::size_t i = 0; i < frames.size(); i += 1 + frames.size() / 50) {
      const Packet packet(CopyOf(frames, i));
      ExpectSatisfies(packet, matches[i % traffic.flows % matches.size()]);
      EXPECT_EQ(packet.ether_type, 0x0800U);
      EXPECT_EQ(packet.version_and_length, 0x45U);
      EXPECT_EQ(packet.checksum, 0xffffU);
      EXPECT_EQ(packet.total_length + 14, frames[i].length);
      EXPECT_EQ(packet.udp_length + 34, frames[i].length);
      EXPECT_LE(frames[i].stored, frames[i].length);
      EXPECT_GE(frames[i].length + kFcs, kMinFrame);
      EXPECT_LE(frames[i].length + kFcs, kMaxFrame);
      EXPECT_EQ(frames[i].stamped, packet.protocol == IPPROTO_UDP) << "others have headers there";
      if (traffic.mix == SizeMix::kFixed) {
        EXPECT_EQ(frames[i].length + kFcs, traffic.size);
      }
    }
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

TEST(MakeFramesTest, AreTheSameAtEveryCall) {
  for (const SizeMix mix : {SizeMix::kFixed, SizeMix::kImix, SizeMix::kDatacenter}) {
    const SyntheticTraffic traffic{.mix = mix, .size = 128, .flows = 100};
    const Frames once = MakeFrames(traffic, {});
    const Frames again = MakeFrames(traffic, {});
    EXPECT_EQ(CopyOf(once), CopyOf(again));
    for (std::size_t i = 0; i < once.size(); ++i) ASSERT_EQ(once[i].length, again[i].length);
  }
}

TEST(MakeFramesTest, HaveAsManyFlowsAsAskedFor) {
  for (const std::uint32_t flows : {1U, 7U, 256U, 1000U, 5000U}) {
    for (const SizeMix mix : {SizeMix::kFixed, SizeMix::kImix}) {
      const Frames frames = MakeFrames({.mix = mix, .size = 64, .flows = flows}, {});
      std::set<decltype(std::declval<Packet>().Flow())> seen;
      for (std::size_t i = 0; i < frames.size(); ++i) seen.insert(Packet(CopyOf(frames, i)).Flow());
      EXPECT_EQ(seen.size(), flows);
    }
  }
}

std::map<std::uint32_t, double> SizesOf(const Frames& frames) {
  std::map<std::uint32_t, double> shares;
  for (std::size_t i = 0; i < frames.size(); ++i)
    shares[frames[i].length + kFcs] += 1.0 / static_cast<double>(frames.size());
  return shares;
}

TEST(MakeFramesTest, ImixIsSevenToFourToOne) {
  const auto shares = SizesOf(MakeFrames({.mix = SizeMix::kImix, .size = 0, .flows = 256}, {}));
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_NEAR(shares.at(64), 7.0 / 12, 0.05);
  EXPECT_NEAR(shares.at(594), 4.0 / 12, 0.05);
  EXPECT_NEAR(shares.at(1518), 1.0 / 12, 0.03);
}

TEST(MakeFramesTest, DatacenterHasTwoSizes) {
  const SyntheticTraffic traffic{.mix = SizeMix::kDatacenter, .size = 0, .flows = 256};
  const auto shares = SizesOf(MakeFrames(traffic, {}));
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_NEAR(shares.at(200), 0.5, 0.06);
  EXPECT_NEAR(shares.at(1400), 0.5, 0.06);
}

// Else a function whose cost depends on the size would treat flows differently.
TEST(MakeFramesTest, EveryFlowHasEverySizeOfImix) {
  const std::uint32_t flows = 16;
  const Frames frames = MakeFrames({.mix = SizeMix::kImix, .size = 0, .flows = flows}, {});
  std::map<std::uint32_t, std::set<std::uint32_t>> sizes;
  for (std::size_t i = 0; i < frames.size(); ++i)
    sizes[Packet(CopyOf(frames, i)).src].insert(frames[i].length);
  ASSERT_EQ(sizes.size(), flows);
  for (const auto& [src, seen] : sizes) EXPECT_EQ(seen.size(), 3U) << src;
}

// ------------------------------------------------------------------ captures

std::vector<Bytes> RandomFrames(std::mt19937& random, std::size_t count) {
  std::vector<Bytes> frames;
  for (std::size_t i = 0; i < count; ++i)
    frames.push_back(RandomBytes(random, 14 + random() % 1500));
  return frames;
}

TEST(ReadCaptureTest, BothFormatsInBothByteOrdersGiveTheBytes) {
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    const auto frames = RandomFrames(random, 1 + random() % 30);
    for (const bool big_endian : {false, true}) {
      for (const auto& make : {PcapFile, PcapngFile}) {
        const CaptureFile file(make(frames, kEthernetLink, big_endian));
        std::size_t too_long = 99;
        const auto read = ReadCapture(file.path(), &too_long);
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_EQ(CopyOf(*read), frames);
        EXPECT_EQ(too_long, 0U);
        for (std::size_t i = 0; i < frames.size(); ++i)
          EXPECT_EQ((*read)[i].length, frames[i].size());
      }
    }
  }
}

TEST(ReadCaptureTest, LeavesOutAndCountsWhatNoPacketHolds) {
  std::mt19937 random(3);
  const Bytes fits = RandomBytes(random, 2048), jumbo = RandomBytes(random, 2049),
              stub = RandomBytes(random, 13), least = RandomBytes(random, 14);
  const CaptureFile file(PcapFile({jumbo, fits, stub, least, jumbo}));
  std::size_t left_out = 0;
  const auto read = ReadCapture(file.path(), &left_out);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(CopyOf(*read), (std::vector{fits, least}));
  EXPECT_EQ(left_out, 3U);
}

// A sentence that names the file.
void ExpectSentence(const absl::Status& status, const std::filesystem::path& file) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_NE(status.message().find(file.string()), std::string::npos) << status;
}

TEST(ReadCaptureTest, AFileCutShortGivesASentenceOrItsFirstFrames) {
  std::mt19937 random(4);
  std::vector<Bytes> frames;
  for (int i = 0; i < 4; ++i) frames.push_back(RandomBytes(random, 14 + random() % 20));
  for (const auto& make : {PcapFile, PcapngFile}) {
    const Bytes whole = make(frames, kEthernetLink, false);
    std::set<std::size_t> ends;  // where a shorter list of frames would have ended
    for (std::size_t count = 1; count <= frames.size(); ++count) {
      const std::vector<Bytes> first(frames.begin(),
                                     frames.begin() + static_cast<std::ptrdiff_t>(count));
      ends.insert(make(first, kEthernetLink, false).size());
    }
    for (std::size_t size = 0; size <= whole.size(); ++size) {
      const CaptureFile file(
          Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
      const auto read = ReadCapture(file.path());
      EXPECT_EQ(read.ok(), ends.contains(size)) << size << " of " << whole.size() << " bytes";
      if (!read.ok()) {
        ExpectSentence(read.status(), file.path());
        continue;
      }
      const auto copy = CopyOf(*read);
      EXPECT_TRUE(std::equal(copy.begin(), copy.end(), frames.begin()));
    }
  }
}

TEST(ReadCaptureTest, ADamagedFileGivesASentenceOrFramesThatFit) {
  std::mt19937 random(5);
  const auto frames = RandomFrames(random, 5);
  const CaptureFile file({});
  int errors = 0;
  for (const auto& make : {PcapFile, PcapngFile}) {
    const Bytes whole = make(frames, kEthernetLink, false);
    for (int round = 0; round < 500; ++round) {
      Bytes damaged = whole;
      // Half of the hits where the lengths are.
      const std::size_t reach = random() % 2 == 0 ? damaged.size() : 80;
      for (std::size_t hits = 1 + random() % 4; hits > 0; --hits)
        damaged[random() % reach] = static_cast<std::uint8_t>(random());
      file.Write(damaged);
      const auto read = ReadCapture(file.path());
      if (!read.ok()) {
        ++errors;
        ExpectSentence(read.status(), file.path());
        continue;
      }
      for (std::size_t i = 0; i < read->size(); ++i) ASSERT_LE((*read)[i].stored, 2048);
    }
  }
  EXPECT_GT(errors, 100) << "the damage did not reach what it aims at";
}

TEST(ReadCaptureTest, RefusesWhatIsNotEthernet) {
  for (const auto& make : {PcapFile, PcapngFile}) {
    const CaptureFile file(make({Bytes(40, 0x45)}, kRawIpLink, false));
    const auto status = ReadCapture(file.path()).status();
    ExpectSentence(status, file.path());
    EXPECT_NE(status.message().find("Ethernet"), std::string::npos);
  }
}

TEST(ReadCaptureTest, RefusesAnUnknownLinkType) {
  const CaptureFile file(PcapFile({Bytes(40, 0x45)}, 60'000, false));
  ExpectSentence(ReadCapture(file.path()).status(), file.path());
}

TEST(ReadCaptureTest, RefusesWhatIsNoCapture) {
  ExpectSentence(ReadCapture("/nonexistent/a.pcap").status(), "/nonexistent/a.pcap");
  ExpectSentence(ReadCapture("/proc/self").status(), "/proc/self");
  const CaptureFile empty(PcapFile({}));
  ExpectSentence(ReadCapture(empty.path()).status(), empty.path());
  empty.Write({});
  ExpectSentence(ReadCapture(empty.path()).status(), empty.path());
  empty.Write(Bytes(300, 'x'));
  ExpectSentence(ReadCapture(empty.path()).status(), empty.path());
}

}  // namespace
}  // namespace unis
