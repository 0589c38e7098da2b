#include "functions/firewall_rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace unis::functions {
namespace {

Result<FirewallRule> Parse(std::string_view line) { return ParseRule(Words(line)); }

TEST(ParseRule, ReadsEveryField) {
  const auto rule = Parse("deny 10.0.0.0/8 192.168.1.7 1024-65535 443 tcp");
  ASSERT_TRUE(rule.ok());
  EXPECT_EQ(*rule, (FirewallRule{Action::kDeny,
                                 {0x0a000000, 8},
                                 {0xc0a80107, 32},
                                 {1024, 65535},
                                 {443, 443},
                                 std::uint8_t{6}}));
}

TEST(ParseRule, StarAndAnyMatchAll) {
  EXPECT_EQ(*Parse("allow * * * * *"), (FirewallRule{}));
  EXPECT_EQ(*Parse("allow any any any any any"), (FirewallRule{}));
}

TEST(ParseRule, QuotesTheWrongWord) {
  const std::pair<const char*, const char*> cases[] = {
      {"pass * * * * *", "bad action 'pass': must be allow or deny"},
      {"allow 1.2.3 * * * *", "bad source '1.2.3': must be A.B.C.D or A.B.C.D/LENGTH"},
      {"allow * 1.2.3.4/40 * * *", "bad destination '1.2.3.4/40': the length must be 0 to 32"},
      {"allow * * 70000 * *", "bad source port '70000': must be 0 to 65535, FROM-TO or *"},
      {"allow * * * 80- *", "bad destination port '80-': must be 0 to 65535, FROM-TO or *"},
      {"allow * * * 90-80 *", "bad destination port '90-80': the first port is above the last"},
      {"allow * * * * tpc",
       "bad protocol 'tpc': must be *, 0 to 255, or a name like tcp, udp, icmp"},
      {"allow * * * * 256",
       "bad protocol '256': must be *, 0 to 255, or a name like tcp, udp, icmp"},
      {"allow * * * *",
       "a rule has 6 words, ACTION SRC DST SPORT DPORT PROTO, but this line has 5, the last '*'"},
  };
  for (const auto& [line, message] : cases) {
    const auto rule = Parse(line);
    ASSERT_FALSE(rule.ok()) << line;
    EXPECT_EQ(rule.error().message, message);
  }
}

TEST(ParseRule, ReadsBackRandomRules) {
  std::mt19937 random(5);
  const auto prefix = [&random] {
    Ipv4Prefix made{0, static_cast<std::uint8_t>(random() % 33)};
    made.address = static_cast<std::uint32_t>(random()) & made.Mask();
    return made;
  };
  const auto ports = [&random] {
    const auto a = static_cast<std::uint16_t>(random()), b = static_cast<std::uint16_t>(random());
    return PortRange{std::min(a, b), std::max(a, b)};
  };
  for (int i = 0; i < 5'000; ++i) {
    const FirewallRule rule{random() % 2 != 0 ? Action::kAllow : Action::kDeny,
                            prefix(),
                            prefix(),
                            ports(),
                            ports(),
                            static_cast<std::uint8_t>(random())};
    const std::string line = fmt::format(
        "{} {}/{} {}/{} {}-{} {}-{} {}", rule.action == Action::kAllow ? "allow" : "deny",
        FormatIpv4(rule.source.address), rule.source.length, FormatIpv4(rule.destination.address),
        rule.destination.length, rule.source_port.first, rule.source_port.last,
        rule.destination_port.first, rule.destination_port.last, *rule.protocol);
    const auto parsed = Parse(line);
    ASSERT_TRUE(parsed.ok()) << line;
    ASSERT_EQ(*parsed, rule) << line;
  }
}

TEST(ParseRule, NoiseNeverCrashes) {
  std::mt19937 random(6);
  constexpr std::string_view kAlphabet = "allowdeny* /.-0123456789tcp#\t";
  for (int i = 0; i < 50'000; ++i) {
    std::string line(random() % 40, ' ');
    for (char& c : line) c = kAlphabet[random() % kAlphabet.size()];
    const auto words = Words(line);
    if (!words.empty()) (void)ParseRule(words);
  }
}

}  // namespace
}  // namespace unis::functions
