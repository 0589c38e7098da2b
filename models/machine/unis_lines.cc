// unis-lines: how far apart two CPUs are.
#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "models/machine/line_transfer.h"

namespace {

constexpr const char* kHelp = R"(usage: unis-lines CPU CPU

Prints the ns that a cache line takes from one of these CPUs to the other: the median of some
milliseconds. Both must be free.
)";

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h")) {
    fmt::print("{}", kHelp);
    return 0;
  }
  unsigned one = 0, other = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[1], &one) || !absl::SimpleAtoi(argv[2], &other)) {
    fmt::print(stderr, "unis-lines: give the numbers of two CPUs; see --help\n");
    return 2;
  }
  const auto found = unis::LineTransfer(one, other);
  if (!found.ok()) {
    fmt::print(stderr, "unis-lines: {}\n", std::string(found.status().message()));
    return absl::IsInvalidArgument(found.status()) ? 2 : 1;
  }
  fmt::print("{:.0f}\n", *found);
}
