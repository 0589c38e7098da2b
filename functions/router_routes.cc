#include "functions/router_routes.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace unis::functions {

Result<Route> ParseRoute(std::span<const std::string_view> words) {
  const auto prefix = ParseIpv4Prefix(words.front(), "prefix");
  if (!prefix) return prefix.error();
  if (words.size() != 3) {
    return Error{fmt::format(
        "a route has 3 words, PREFIX NEXT_HOP_MAC SRC_MAC, but this line has {}, the last '{}'",
        words.size(), words.back())};
  }
  const auto destination = ParseMac(words[1], "next hop MAC");
  if (!destination) return destination.error();
  const auto source = ParseMac(words[2], "source MAC");
  if (!source) return source.error();
  return Route{*prefix, {*destination, *source}};
}

Result<std::vector<Route>> ReadRoutes(const std::filesystem::path& file) {
  std::vector<Route> routes;
  std::map<std::pair<std::uint32_t, std::uint8_t>, unsigned> line_of;
  const Failure failure = ReadLines(file, [&](auto words, unsigned line) {
    const auto route = ParseRoute(words);
    if (!route) return Failure(route.error());
    const auto [seen, is_new] =
        line_of.try_emplace({route->prefix.address, route->prefix.length}, line);
    if (!is_new) {
      return Failure(Error{fmt::format("there is already a route for '{}' in line {}",
                                       words.front(), seen->second)});
    }
    routes.push_back(*route);
    return Failure();
  });
  if (failure) return *failure;
  if (routes.empty()) return Error{fmt::format("{} has no routes", file.string())};
  return routes;
}

}  // namespace unis::functions
