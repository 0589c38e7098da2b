#include "engine/platform/classifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "engine/platform/captures_for_test.h"
#include "engine/platform/memory_for_test.h"
#include "engine/platform/packets_for_test.h"

namespace unis {
namespace {

// ------------------------------------------------------------------ a naive classifier

// What a packet's bytes say, read one by one.
struct Flow {
  bool ipv4 = false;
  std::uint8_t protocol = 0;
  std::uint32_t src = 0, dst = 0;
  std::uint16_t src_port = 0, dst_port = 0;  // 0 where the packet has none
};

Flow ReadFlow(const Bytes& packet) {
  Flow flow;
  std::size_t ip = 14;
  if (packet.size() < ip) return flow;
  std::uint32_t type = Word(packet, 12, 2);
  const std::size_t tags = type == 0x8100 ? 4 : type == 0x88a8 ? 8 : 0;
  if (packet.size() < ip + tags) return flow;
  ip += tags;
  if (tags != 0) type = Word(packet, ip - 2, 2);
  if (type != 0x0800 || packet.size() < ip + 20) return flow;
  const unsigned version = packet[ip] >> 4, words = packet[ip] & 15;
  if (version != 4 || words < 5) return flow;
  flow.ipv4 = true;
  flow.protocol = packet[ip + 9];
  flow.src = Word(packet, ip + 12, 4);
  flow.dst = Word(packet, ip + 16, 4);
  const bool fragment = (Word(packet, ip + 6, 2) & 0x3fff) != 0;
  const std::size_t l4 = ip + 4 * words;
  // A TCP header must be there whole to count; of the others the ports suffice.
  const std::size_t least = flow.protocol == 6 ? 20 : 4;
  const bool has_ports = flow.protocol == 6 || flow.protocol == 17 || flow.protocol == 132;
  if (fragment || !has_ports || packet.size() < l4 + least) return flow;
  flow.src_port = static_cast<std::uint16_t>(Word(packet, l4, 2));
  flow.dst_port = static_cast<std::uint16_t>(Word(packet, l4 + 2, 2));
  return flow;
}

bool Matches(const Flow& flow, const FlowMatch& match) {
  return (!match.src || Within(flow.src, *match.src)) &&
         (!match.dst || Within(flow.dst, *match.dst)) &&
         (!match.src_port || flow.src_port == *match.src_port) &&
         (!match.dst_port || flow.dst_port == *match.dst_port) &&
         (!match.protocol || flow.protocol == *match.protocol);
}

using Rules = std::vector<std::vector<FlowMatch>>;

std::int32_t NaiveChain(const Bytes& packet, const Rules& rules) {
  const Flow flow = ReadFlow(packet);
  for (std::size_t chain = 0; chain < rules.size(); ++chain) {
    if (rules[chain].empty()) return static_cast<std::int32_t>(chain);
    if (!flow.ipv4) continue;
    for (const FlowMatch& match : rules[chain])
      if (Matches(flow, match)) return static_cast<std::int32_t>(chain);
  }
  return Classifier::kNone;
}

// ------------------------------------------------------------------ random rules and packets

// Of few values, so that rules and packets meet.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  std::uint32_t Below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  bool Sometimes() { return Below(2) == 0; }
  std::uint32_t Address() { return 0x0a000000u | Below(4) << 22 | Below(4) << 8 | Below(4); }
  std::uint16_t Port() { return std::array<std::uint16_t, 5>{0, 53, 80, 4433, 65535}[Below(5)]; }
  std::uint8_t Protocol() { return std::array<std::uint8_t, 6>{1, 6, 17, 132, 0, 255}[Below(6)]; }
  FlowMatch Match();
  Rules Chains();
  Bytes Packet();

 private:
  void PutTags(Bytes& packet);
  void PutIp(Bytes& packet);
  static void Put16(Bytes& bytes, std::uint32_t value) {
    bytes.push_back(static_cast<std::uint8_t>(value >> 8));
    bytes.push_back(static_cast<std::uint8_t>(value));
  }
  static void Put32(Bytes& bytes, std::uint32_t value) {
    Put16(bytes, value >> 16);
    Put16(bytes, value);
  }

  std::mt19937 random_;
};

FlowMatch Draw::Match() {
  FlowMatch match;
  if (Sometimes()) match.src = Prefix{Address(), Below(33)};
  if (Sometimes()) match.dst = Prefix{Address(), Below(33)};
  if (Below(3) == 0) match.src_port = Port();
  if (Below(3) == 0) match.dst_port = Port();
  if (Below(3) == 0) match.protocol = Protocol();
  return match;
}

Rules Draw::Chains() {
  Rules rules(1 + Below(5));
  for (auto& chain : rules) {
    if (Below(12) == 0) continue;  // takes all
    for (std::uint32_t i = 0, count = 1 + Below(6); i < count; ++i) chain.push_back(Match());
  }
  return rules;
}

void Draw::PutTags(Bytes& packet) {
  const std::uint32_t kind = Below(4);
  if (kind == 1) {  // VLAN
    Put16(packet, 0x8100);
    Put16(packet, Below(4096));
  }
  if (kind == 2) {  // QinQ
    Put16(packet, 0x88a8);
    Put16(packet, Below(4096));
    Put16(packet, 0x8100);
    Put16(packet, Below(4096));
  }
}

void Draw::PutIp(Bytes& packet) {
  const std::uint32_t options = Below(3) == 0 ? Below(11) : 0;  // words
  const std::uint32_t fragment = Below(5) == 0 ? (Sometimes() ? 0x2000 : Below(0x2000)) : 0;
  packet.push_back(static_cast<std::uint8_t>(0x45 + options));
  packet.push_back(0);
  Put16(packet, 100);
  Put16(packet, 0);
  Put16(packet, fragment | (Sometimes() ? 0x4000 : 0));
  packet.push_back(64);
  packet.push_back(Protocol());
  Put16(packet, 0);
  Put32(packet, Address());
  Put32(packet, Address());
  for (std::uint32_t i = 0; i < options; ++i) Put32(packet, 0x01010101);
}

Bytes Draw::Packet() {
  Bytes packet(12, 0x02);
  if (Below(10) == 0) {  // something else altogether
    const Bytes noise = RandomBytes(random_, Below(60));
    packet.insert(packet.end(), noise.begin(), noise.end());
    return packet;
  }
  PutTags(packet);
  Put16(packet, std::array{0x0800U, 0x0800U, 0x0800U, 0x0800U, 0x0806U, 0x86ddU}[Below(6)]);
  PutIp(packet);
  Put16(packet, Port());
  Put16(packet, Port());
  packet.resize(packet.size() + 40);
  if (Below(6) == 0) packet.resize(Below(static_cast<std::uint32_t>(packet.size())));
  return packet;
}

// ------------------------------------------------------------------ tests

class ClassifierTest : public MemoryTest {
 protected:
  std::vector<std::int32_t> Chains(const Classifier& classifier, const std::vector<Bytes>& bytes) {
    std::vector<rte_mbuf*> packets;
    for (const Bytes& packet : bytes) packets.push_back(Packet(packet));
    std::vector<std::int32_t> chains(bytes.size(), 99);
    classifier.Classify(packets, chains);
    rte_pktmbuf_free_bulk(packets.data(), static_cast<unsigned>(packets.size()));
    return chains;
  }
};

TEST_F(ClassifierTest, AgreesWithANaiveOne) {
  Draw draw(1);
  std::vector<int> hits(6);
  for (int round = 0; round < 300; ++round) {
    const Rules rules = draw.Chains();
    const auto classifier = Classifier::Create(rules);
    ASSERT_TRUE(classifier.ok()) << classifier.status();
    for (int burst = 0; burst < 4; ++burst) {
      std::vector<Bytes> packets(1 + draw.Below(kBurst));
      std::generate(packets.begin(), packets.end(), [&draw] { return draw.Packet(); });
      const auto chains = Chains(*classifier, packets);
      for (std::size_t i = 0; i < packets.size(); ++i) {
        ASSERT_EQ(chains[i], NaiveChain(packets[i], rules))
            << "round " << round << ": " << testing::PrintToString(packets[i]);
        ++hits[static_cast<std::size_t>(chains[i] + 1)];
      }
    }
  }
  for (std::size_t i = 0; i + 1 < hits.size(); ++i) EXPECT_GT(hits[i], 100) << "too few draws";
}

Bytes Udp(std::uint32_t src, std::uint16_t dst_port) {
  Bytes packet(60);
  packet[12] = 0x08;
  packet[14] = 0x45;
  packet[23] = 17;
  for (std::size_t i = 0; i < 4; ++i)
    packet[26 + i] = static_cast<std::uint8_t>(src >> (24 - 8 * i));
  packet[36] = static_cast<std::uint8_t>(dst_port >> 8);
  packet[37] = static_cast<std::uint8_t>(dst_port);
  return packet;
}

FlowMatch Source(std::uint32_t address, std::uint32_t length) {
  return {
      .src = Prefix{address, length}, .dst = {}, .src_port = {}, .dst_port = {}, .protocol = {}};
}

// Not the longest prefix, nor the most exact rule.
TEST_F(ClassifierTest, TheFirstChainThatMatchesWins) {
  const Rules rules = {{Source(0x0a000000, 8)}, {Source(0x0a010000, 16)}, {Source(0, 0)}};
  const auto classifier = Classifier::Create(rules);
  ASSERT_TRUE(classifier.ok());
  EXPECT_EQ(Chains(*classifier, {Udp(0x0a010203, 80), Udp(0x0b000000, 80)}),
            (std::vector<std::int32_t>{0, 2}));
  const auto reversed = Classifier::Create({rules[2], rules[1], rules[0]});
  EXPECT_EQ(Chains(*reversed, {Udp(0x0a010203, 80)}), std::vector<std::int32_t>{0});
}

TEST_F(ClassifierTest, AChainWithoutMatchesTakesWhatReachesIt) {
  const auto classifier =
      Classifier::Create({{Source(0x0a000000, 8)}, {}, {Source(0x0b000000, 8)}});
  ASSERT_TRUE(classifier.ok());
  const Bytes arp = [] {
    Bytes packet(42);
    packet[12] = 0x08;
    packet[13] = 0x06;
    return packet;
  }();
  EXPECT_EQ(Chains(*classifier, {Udp(0x0a000001, 1), Udp(0x0b000001, 1), arp, {}}),
            (std::vector<std::int32_t>{0, 1, 1, 1}));
}

TEST_F(ClassifierTest, WithoutACatchAllSomePacketsBelongNowhere) {
  const auto classifier = Classifier::Create({{Source(0x0a000000, 8)}});
  ASSERT_TRUE(classifier.ok());
  EXPECT_EQ(Chains(*classifier, {Udp(0x0b000001, 1), {}}),
            (std::vector<std::int32_t>{Classifier::kNone, Classifier::kNone}));
  const auto none = Classifier::Create({});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(Chains(*none, {Udp(0x0a000001, 1)}), std::vector<std::int32_t>{Classifier::kNone});
}

TEST_F(ClassifierTest, TwoCanBeThereAtATime) {
  auto one = std::make_unique<Classifier>(Classifier::Create({{Source(0x0a000000, 8)}}).value());
  const auto two = Classifier::Create({{Source(0x0c000000, 8)}, {Source(0x0b000000, 8)}});
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(Chains(*one, {Udp(0x0a000001, 1), Udp(0x0b000001, 1)}),
            (std::vector<std::int32_t>{0, Classifier::kNone}));
  one.reset();
  EXPECT_EQ(Chains(*two, {Udp(0x0a000001, 1), Udp(0x0b000001, 1)}),
            (std::vector<std::int32_t>{Classifier::kNone, 1}));
}

TEST_F(ClassifierTest, ManyRules) {
  Rules rules(1);
  for (std::uint32_t i = 0; i < 2000; ++i) rules[0].push_back(Source(0x0a000000 + 2 * i, 32));
  const auto classifier = Classifier::Create(rules);
  ASSERT_TRUE(classifier.ok()) << classifier.status();
  for (std::uint32_t i = 0; i < 4000; i += 97) {
    EXPECT_EQ(Chains(*classifier, {Udp(0x0a000000 + i, 1)}).front(),
              i % 2 == 0 ? 0 : Classifier::kNone);
  }
}

}  // namespace
}  // namespace unis
