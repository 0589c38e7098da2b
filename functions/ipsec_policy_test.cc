#include "functions/ipsec_policy.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>

namespace unis::functions {
namespace {

constexpr std::string_view kKey = "000102030405060708090a0b0c0d0e0fdeadbeef";

std::string PolicyError(std::string_view line) {
  const auto parsed = ParsePolicyLine(Words(line));
  return parsed ? "" : parsed.error().message;
}

TEST(IpsecPolicy, ReadsEveryWord) {
  const auto line = ParsePolicyLine(
      Words("protect 10.1.0.0/16 256 192.0.2.1 198.51.100.1 aes-128-gcm " + std::string(kKey)));
  ASSERT_TRUE(line.ok()) << line.error().message;
  EXPECT_EQ(line->prefix, (Ipv4Prefix{0x0a010000, 16}));
  AssociationConfig expected{256, 0xc0000201, 0xc6336401, {}, false};
  for (std::uint8_t i = 0; i < 16; ++i) expected.key.key[i] = i;
  expected.key.salt = {0xde, 0xad, 0xbe, 0xef};
  EXPECT_EQ(std::get<AssociationConfig>(line->action), expected);

  const auto long_key = ParsePolicyLine(
      Words("protect 10.0.0.1 4294967295 1.2.3.4 5.6.7.8 aes-256-gcm "
            "000102030405060708090a0b0c0d0e0F101112131415161718191a1b1c1d1e1Fdeadbeef esn"));
  ASSERT_TRUE(long_key.ok()) << long_key.error().message;
  const auto& association = std::get<AssociationConfig>(long_key->action);
  EXPECT_TRUE(association.extended_sequence);
  EXPECT_EQ(association.key.key_length, 32U);
  EXPECT_EQ(association.key.key[31], 0x1f);

  EXPECT_EQ(std::get<Bypassed>(ParsePolicyLine(Words("bypass 0.0.0.0/0"))->action),
            Bypassed::kBypass);
  EXPECT_EQ(std::get<Bypassed>(ParsePolicyLine(Words("discard 10.0.0.1"))->action),
            Bypassed::kDiscard);
}

TEST(IpsecPolicy, SaysWhatIsWrong) {
  EXPECT_EQ(PolicyError("allow 10.0.0.0/8"),
            "bad action 'allow': must be protect, bypass or discard");
  EXPECT_EQ(PolicyError("bypass 10.0.0.0/8 256"),
            "bypass has 2 words, bypass PREFIX, but this line has 3");
  EXPECT_EQ(
      PolicyError("protect 10.0.0.0/8"),
      "protect has 7 or 8 words, protect PREFIX SPI FROM TO ALGORITHM KEY [esn], but this line "
      "has 2");
  const std::string head = "protect 10.0.0.0/8 ";
  const std::string key(kKey);
  EXPECT_EQ(PolicyError(head + "255 1.2.3.4 5.6.7.8 aes-128-gcm " + key),
            "bad SPI '255': must be a whole number from 256 to 4294967295");
  EXPECT_EQ(PolicyError(head + "256 1.2.3.4 5.6.7.8 aes-128-cbc " + key),
            "bad algorithm: must be aes-128-gcm or aes-256-gcm");
  EXPECT_EQ(PolicyError(head + "256 1.2.3.4 5.6.7.8 aes-128-gcm " + key + " ens"),
            "bad word 'ens': behind the key may stand esn");
}

TEST(IpsecPolicy, NoErrorQuotesAKey) {
  for (const std::string& key :
       {std::string("secret"), std::string(kKey) + "00", std::string(kKey).replace(7, 1, "x")}) {
    EXPECT_EQ(PolicyError("protect 10.0.0.0/8 256 1.2.3.4 5.6.7.8 aes-128-gcm " + key),
              "bad key: aes-128-gcm takes 40 hexadecimal digits, 16 bytes of key and 4 of salt");
  }
}

TEST(IpsecPolicy, NoErrorQuotesAKeyInAnotherPlace) {
  const std::string line =
      "protect 10.0.0.0/8 256 1.2.3.4 5.6.7.8 aes-128-gcm " + std::string(kKey);
  const auto right = Words(line);
  for (std::size_t place = 0; place + 1 < right.size(); ++place) {
    std::string swapped, inserted;
    for (std::size_t i = 0; i < right.size(); ++i) {
      const std::size_t from = i == place ? right.size() - 1 : i + 1 == right.size() ? place : i;
      swapped += std::string(right[from]) + " ";
      if (i == place) inserted += std::string(kKey) + " ";
      inserted += std::string(right[i]) + " ";
    }
    for (const std::string& wrong : {swapped, inserted}) {
      EXPECT_NE(PolicyError(wrong), "") << wrong;
      EXPECT_EQ(PolicyError(wrong).find(kKey), std::string::npos) << PolicyError(wrong);
    }
  }
  for (const std::string& wrong : {line + " " + std::string(kKey), "bypass " + std::string(kKey)}) {
    EXPECT_NE(PolicyError(wrong), "") << wrong;
    EXPECT_EQ(PolicyError(wrong).find(kKey), std::string::npos) << PolicyError(wrong);
  }
  EXPECT_EQ(PolicyError("protect 10.0.0.0/8 256 1.2.3.4 5.6.7.8 secret aes-128-gcm"),
            "bad algorithm: must be aes-128-gcm or aes-256-gcm");
}

// The same key would meet the same initialisation vectors.
TEST(IpsecPolicy, NoKeyTwiceInAFile) {
  const std::string file = testing::TempDir() + "ipsec_keys.policy";
  const std::string key(kKey), digits = key.substr(0, 32);
  const auto second = [&](const std::string& algorithm, const std::string& other) {
    std::ofstream(file) << "protect 10.0.0.1 256 1.2.3.4 5.6.7.8 aes-128-gcm " + key +
                               "\n\nprotect 10.0.0.2 257 1.2.3.4 5.6.7.9 " + algorithm + other;
    const auto policy = ReadPolicy(file);
    return policy ? "" : policy.error().message;
  };
  const std::string refusal =
      file + ":3: the key is already in line 1; each association needs its own";
  EXPECT_EQ(second("aes-128-gcm ", key), refusal);
  EXPECT_EQ(second("aes-128-gcm ", digits + "00000001"), refusal) << "another salt";
  EXPECT_EQ(second("aes-128-gcm ", std::string(key).replace(0, 1, "f")), "");
  EXPECT_EQ(second("aes-256-gcm ", digits + std::string(32, '0') + "deadbeef"), "");
}

TEST(IpsecPolicy, NothingTwiceInAFile) {
  const std::string file = testing::TempDir() + "ipsec.policy";
  const std::string tail = " 256 1.2.3.4 5.6.7.8 aes-128-gcm " + std::string(kKey) + "\n";
  std::ofstream(file) << "bypass 10.0.0.0/8\ndiscard 10.0.0.0/9\nprotect 10.0.0.1" << tail;
  const auto policy = ReadPolicy(file);
  ASSERT_TRUE(policy.ok()) << policy.error().message;
  EXPECT_EQ(policy->size(), 3U);
  std::ofstream(file) << "bypass 10.0.0.0/8\n\ndiscard 10.0.0.0/8\n";
  EXPECT_EQ(ReadPolicy(file).error().message, file + ":3: 10.0.0.0/8 is already in line 1");
  std::ofstream(file) << "protect 10.0.0.1" << tail << "protect 10.0.0.2" << tail;
  EXPECT_EQ(ReadPolicy(file).error().message, file + ":2: SPI 256 to 5.6.7.8 is already in line 1");
  std::ofstream(file) << "#\n";
  EXPECT_EQ(ReadPolicy(file).error().message, file + " has no policy");
}

TEST(IpsecPolicy, NoiseNeverCrashes) {
  std::mt19937 random(7);
  constexpr std::string_view kAlphabet = "protecbypasdi aegm/.-0123456789#\t";
  for (int i = 0; i < 50'000; ++i) {
    std::string line(random() % 60, ' ');
    for (char& c : line) c = kAlphabet[random() % kAlphabet.size()];
    const auto words = Words(line);
    if (!words.empty()) (void)ParsePolicyLine(words);
  }
}

TEST(SyntheticAssociations, DifferFromOneAnotherAndNotFromRunToRun) {
  const auto all = SyntheticAssociations(1000);
  EXPECT_EQ(all, SyntheticAssociations(1000));
  std::set<std::uint32_t> spis;
  std::set<std::array<std::uint8_t, 32>> keys;
  for (const auto& one : all) {
    spis.insert(one.spi);
    keys.insert(one.key.key);
  }
  EXPECT_EQ(spis.size(), 1000U);
  EXPECT_EQ(keys.size(), 1000U);
  // SplitMix64's first output from seed 0 is 0xe220a8397b1dcdaf.
  EXPECT_EQ(all[0].key.key[0], 0xaf);
  EXPECT_EQ(all[0].key.key[7], 0xe2);
}

}  // namespace
}  // namespace unis::functions
