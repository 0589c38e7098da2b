// The router's route file, one route a line; the longest prefix that matches decides:
//
//   PREFIX NEXT_HOP_MAC SRC_MAC      # 0.0.0.0/0 is the default route
#pragma once

#include <compare>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "functions/common/result.h"
#include "functions/common/text.h"

namespace unis::functions {

struct NextHop {
  MacAddress destination;  // of the next router or host
  MacAddress source;       // of the port that the frame leaves by
  auto operator<=>(const NextHop&) const = default;
};

struct Route {
  Ipv4Prefix prefix;
  NextHop next_hop;
  bool operator==(const Route&) const = default;
};

Result<Route> ParseRoute(std::span<const std::string_view> words);
// Fails on a prefix that is there twice, and on a file without routes.
Result<std::vector<Route>> ReadRoutes(const std::filesystem::path& file);

}  // namespace unis::functions
