#include "functions/router.h"

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_memory.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "functions/common/checksum.h"
#include "functions/common/ports.h"
#include "functions/common/report.h"

namespace unis::functions {
namespace {

constexpr std::uint32_t kNoRouteValue = 0;
constexpr std::size_t kMaxNextHops = (1u << 24) - 1;  // rte_lpm holds values of 24 bits

// A table of 256 for each /24 that has longer prefixes in it.
std::uint32_t SecondTables(const std::vector<Route>& routes) {
  std::set<std::uint32_t> networks;
  for (const Route& route : routes) {
    if (route.prefix.length > 24) networks.insert(route.prefix.address >> 8);
  }
  return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(networks.size()));
}

// Many routes share few next hops: numbers the different ones, from 1.
class NextHopNumbers {
 public:
  std::uint32_t Of(const NextHop& next_hop) {
    const auto [known, is_new] = numbers_.try_emplace(next_hop, list_.size());
    if (is_new) list_.push_back(next_hop);
    return known->second;
  }
  std::vector<NextHop> Take() { return std::move(list_); }

 private:
  std::map<NextHop, std::uint32_t> numbers_;
  std::vector<NextHop> list_{{}};
};

}  // namespace

void Router::AddOptions(OptionTable& table, Settings& settings) {
  table.AddFile(
      "--routes",
      "the routes, one a line: PREFIX NEXT_HOP_MAC SRC_MAC; 0.0.0.0/0 is the default route,\n"
      "# starts a comment. Required.",
      settings.routes_file);
}

Failure Router::Check(Settings& settings) {
  if (settings.routes_file.empty()) return Error{"--routes FILE is missing"};
  auto routes = ReadRoutes(settings.routes_file);
  if (!routes) return routes.error();
  if (routes->size() > kMaxNextHops) {
    return Error{fmt::format("{} has {} routes; rte_lpm takes at most {}",
                             settings.routes_file.string(), routes->size(), kMaxNextHops)};
  }
  settings.routes = std::move(*routes);
  return std::nullopt;
}

Result<Router> Router::Create(Settings settings) {
  const std::vector<Route>& routes = settings.routes;
  rte_lpm_config config = {};
  config.max_rules = static_cast<std::uint32_t>(routes.size());
  config.number_tbl8s = SecondTables(routes);
  const std::string name = NameOfLcore("router");
  rte_lpm_free(rte_lpm_find_existing(name.c_str()));
  Table table(rte_lpm_create(name.c_str(), SOCKET_ID_ANY, &config));
  if (table == nullptr) {
    return Error{fmt::format(
        "no memory for the routing table, which takes 64 MB: {}; give EAL more with -m MB",
        rte_strerror(rte_errno))};
  }
  NextHopNumbers numbers;
  std::uint32_t otherwise = kNoRouteValue;
  for (const auto& [prefix, next_hop] : routes) {
    const std::uint32_t value = numbers.Of(next_hop);
    if (prefix.length == 0) {
      otherwise = value;
      continue;
    }
    const int status = rte_lpm_add(table.get(), prefix.address, prefix.length, value);
    if (status != 0) {
      return Error{fmt::format("rte_lpm refuses the route for {}/{}: {}",
                               FormatIpv4(prefix.address), prefix.length, rte_strerror(-status))};
    }
  }
  return Router(std::move(table), numbers.Take(), otherwise);
}

Router::Fate Router::Check(const std::uint8_t* frame, const Headers& headers) {
  if (headers.network == Network::kMalformed) return kMalformed;
  if (headers.network != Network::kIpv4) return kNotIpv4;
  const std::size_t header = headers.l4 - headers.l3;
  if (OnesSum({frame + headers.l3, header}) != 0xffff) return kBadChecksum;
  return frame[headers.l3 + kIpv4TtlAt] <= 1 ? kTtlExpired : kForward;
}

void Router::Rewrite(std::uint8_t* frame, std::uint16_t l3, const NextHop& next_hop) {
  std::memcpy(frame, next_hop.destination.bytes.data(), sizeof next_hop.destination.bytes);
  std::memcpy(frame + 6, next_hop.source.bytes.data(), sizeof next_hop.source.bytes);
  const std::uint16_t before = LoadBe16(frame + l3 + kIpv4TtlAt);  // TTL and protocol
  const auto after = static_cast<std::uint16_t>(before - 0x0100);
  ChecksumChange change;
  change.Replace16(before, after);
  StoreBe16(frame + l3 + kIpv4TtlAt, after);
  StoreBe16(frame + l3 + kIpv4ChecksumAt, change.Apply(LoadBe16(frame + l3 + kIpv4ChecksumAt)));
}

std::uint16_t Router::Process(rte_mbuf** packets, std::uint16_t count, Drops& drops) {
  std::uint32_t destinations[kBurst];
  std::uint16_t l3[kBurst];
  std::uint32_t values[kBurst];
  PrefetchHeaders(packets, count);
  std::uint16_t checked = 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    const std::uint8_t* const frame = Frame(packets[i]);
    const Headers headers = ParseHeaders(packets[i]);
    const Fate fate = Check(frame, headers);
    if (fate != kForward) {
      Discard(packets[i], fate, drops);
      continue;
    }
    destinations[checked] = LoadBe32(frame + headers.l3 + kIpv4DestinationAt);
    l3[checked] = headers.l3;
    packets[checked++] = packets[i];
  }
  rte_lpm_lookup_bulk(table_.get(), destinations, values, checked);
  std::uint16_t kept = 0;
  for (std::uint16_t i = 0; i < checked; ++i) {
    const bool found = (values[i] & RTE_LPM_LOOKUP_SUCCESS) != 0;
    const std::uint32_t value = found ? values[i] & kMaxNextHops : otherwise_;
    if (value == kNoRouteValue) {
      Discard(packets[i], kNoRoute, drops);
      continue;
    }
    Rewrite(Frame(packets[i]), l3[i], next_hops_[value]);
    packets[kept++] = packets[i];
  }
  packets_[kForward] += kept;
  return kept;
}

void Router::Report(std::FILE* out) const {
  PrintCounter(out, "forwarded", packets_[kForward]);
  PrintCounter(out, "not_ipv4", packets_[kNotIpv4]);
  PrintCounter(out, "malformed", packets_[kMalformed]);
  PrintCounter(out, "bad_checksum", packets_[kBadChecksum]);
  PrintCounter(out, "ttl_expired", packets_[kTtlExpired]);
  PrintCounter(out, "no_route", packets_[kNoRoute]);
}

}  // namespace unis::functions
