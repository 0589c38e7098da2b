// unis-cache: what a recording of memory references hits and misses in caches that are modelled.
#include <algorithm>
#include <charconv>
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "models/cache/by_ways.h"
#include "models/cache/latency.h"
#include "models/cache/neighbours.h"
#include "models/cache/recording.h"

namespace unis::cache {
namespace {

constexpr std::string_view kHelp =
    R"(usage: unis-cache ways [OPTIONS] RECORDING
       unis-cache neighbours [OPTIONS] RECORDING,MPPS,MASK...
       unis-cache latency BYTES...

Models the caches of a processor, with LRU replacement, on the cache lines that a network function
touched while it worked on packets (recorded by unis-refs), and writes JSON.

  ways        one function: hits and misses with 1, 2, ... ways of the last-level cache for itself
  neighbours  several on cores of their own, at their rates, each filling the ways of its MASK
              (hexadecimal; its highest ways are also the device's): misses of each, lines written
              back, lines that its device wrote and memory got, and lines that its core has in
              the cache at the end; MPPS 0.001 to 10000, the highest at most 1000 times the lowest
  latency     measured, not modelled: nanoseconds of a load that waits for the one before, in so many
              bytes

options
  --l1 SETSxWAYS, --l2 SETSxWAYS   the core's own caches; 64x8, 1024x16
  --llc SETSxWAYS                  the last-level cache; 32768x16
  --io-ways N                      ways that devices write packets into: with `ways` besides those of
                                   the function, with `neighbours` the highest; 0: none; 2
  --warm-up PACKETS                not counted at the beginning; half of the recording. With
                                   `neighbours` one number for all, or one for each, with commas
  --packets PACKETS                neighbours: counted of each at least; 100000

A line has 64 bytes. Sets are a multiple of 64; ways are at most 64. The last level is filled by what
its core misses and includes nothing by force.

exit status: 0 done, 2 bad recording or arguments (one sentence on stderr)
)";

constexpr std::uint32_t kMostWays = 64, kMostSets = 1u << 22;
// Rates between which neighbours pass their packets in a time that one can wait for.
constexpr double kLeastMpps = 1e-3, kMostMpps = 1e4, kMostTimesAsFast = 1000;

struct Options {
  Machine machine{{64, 8}, {1024, 16}, {32768, 16}, 2};
  std::vector<std::uint64_t> warm_up;  // empty: half of each recording
  std::uint64_t packets = 100'000;
  std::vector<std::string_view> operands;
};

struct Bad {
  std::string sentence;
};

std::uint64_t ParseNumber(std::string_view word, std::string_view what, int base = 10) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) {
    throw Bad{std::string(what) + " '" + std::string(word) + "' is no whole number."};
  }
  return value;
}

std::vector<std::uint64_t> ParseNumbers(std::string_view words, std::string_view what) {
  std::vector<std::uint64_t> numbers;
  for (;;) {
    const std::size_t comma = words.find(',');
    numbers.push_back(ParseNumber(words.substr(0, comma), what));
    if (comma == std::string_view::npos) return numbers;
    words.remove_prefix(comma + 1);
  }
}

Geometry ParseGeometry(std::string_view word, std::string_view option) {
  const std::size_t cross = word.find('x');
  if (cross == std::string_view::npos) {
    throw Bad{std::string(option) + " must be SETSxWAYS, as 1024x16."};
  }
  const std::uint64_t sets = ParseNumber(word.substr(0, cross), option);
  const std::uint64_t ways = ParseNumber(word.substr(cross + 1), option);
  if (sets == 0 || sets % kFilterSets != 0 || sets > kMostSets || ways == 0 || ways > kMostWays) {
    throw Bad{std::string(option) + " " + std::string(word) +
              ": sets must be a multiple of 64, up to 4194304, and ways 1 to 64."};
  }
  return {static_cast<std::uint32_t>(sets), static_cast<std::uint32_t>(ways)};
}

Options ParseOptions(std::span<char*> words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (!word.starts_with("--")) {
      options.operands.push_back(word);
      continue;
    }
    if (i + 1 == words.size()) throw Bad{std::string(word) + " needs a value."};
    const std::string_view value = words[++i];
    if (word == "--l1") {
      options.machine.l1 = ParseGeometry(value, word);
    } else if (word == "--l2") {
      options.machine.l2 = ParseGeometry(value, word);
    } else if (word == "--llc") {
      options.machine.llc = ParseGeometry(value, word);
    } else if (word == "--io-ways") {
      options.machine.io_ways =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(ParseNumber(value, word), 1000));
    } else if (word == "--warm-up") {
      options.warm_up = ParseNumbers(value, word);
    } else if (word == "--packets") {
      options.packets = ParseNumber(value, word);
    } else {
      throw Bad{std::string(word) + " is no option; see unis-cache --help."};
    }
  }
  if (options.machine.io_ways > options.machine.llc.ways) {
    throw Bad{"--io-ways is more than --llc has."};
  }
  return options;
}

Recording ReadRecording(const std::string& file) {
  auto read = Recording::Read(file);
  if (const auto* sentence = std::get_if<std::string>(&read)) throw Bad{*sentence};
  return std::get<Recording>(std::move(read));
}

void PrintList(std::string_view name, const std::vector<std::uint64_t>& values) {
  std::cout << ",\n  \"" << name << "\": [";
  for (std::size_t i = 0; i < values.size(); ++i) std::cout << (i == 0 ? "" : ", ") << values[i];
  std::cout << "]";
}

void Print(std::string_view name, std::uint64_t value) {
  std::cout << ",\n  \"" << name << "\": " << value;
}

// Packets of each that fill the caches.
std::vector<std::uint64_t> WarmUps(const Options& options, std::span<const Recording> recordings) {
  const std::vector<std::uint64_t>& told = options.warm_up;
  if (told.size() > 1 && told.size() != recordings.size()) {
    throw Bad{"--warm-up has " + std::to_string(told.size()) + " numbers for " +
              std::to_string(recordings.size()) + " recordings: one for each, or one for all."};
  }
  std::vector<std::uint64_t> warm_ups;
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    const std::uint64_t packets = recordings[i].packets();
    const std::uint64_t warm_up = told.empty() ? packets / 2 : told[std::min(i, told.size() - 1)];
    if (warm_up >= packets) {
      throw Bad{"nothing is left to count: the recording has " + std::to_string(packets) +
                " packets, and --warm-up is " + std::to_string(warm_up) + "."};
    }
    warm_ups.push_back(warm_up);
  }
  return warm_ups;
}

void Ways(const Options& options) {
  if (options.operands.size() != 1) throw Bad{"ways takes one recording."};
  const Recording recording = ReadRecording(std::string(options.operands[0]));
  const std::uint64_t warm_up = WarmUps(options, {&recording, 1}).front();
  const ByWays counts = ProfileByWays(recording, options.machine, warm_up);
  std::cout << "{\n  \"modelled\": true";
  Print("packets", counts.packets);
  Print("instructions", counts.instructions);
  Print("references", counts.references);
  Print("l1_hits", counts.l1_hits);
  Print("l2_hits", counts.l2_hits);
  Print("llc_references", counts.llc_references);
  Print("io_hits", counts.io_hits);
  Print("first_touches", counts.first_touches);
  PrintList("misses", counts.misses);
  PrintList("driver_misses", counts.driver_misses);
  PrintList("written_back", counts.written_back);
  PrintList("occupancy", counts.occupancy);
  Print("device_lines", counts.device_lines);
  Print("device_spills", counts.device_spills);
  std::cout << "\n}\n";
}

void Neighbours(const Options& options) {
  std::vector<Recording> recordings;
  std::vector<Neighbour> neighbours;
  for (const std::string_view operand : options.operands) {
    const std::size_t mask_at = operand.rfind(',');
    const std::size_t rate_at = mask_at == std::string_view::npos || mask_at == 0
                                    ? mask_at
                                    : operand.rfind(',', mask_at - 1);
    if (mask_at == std::string_view::npos || rate_at == std::string_view::npos) {
      throw Bad{"neighbours takes RECORDING,MPPS,MASK, as nat.refs,2.5,0ff."};
    }
    const std::string_view rate = operand.substr(rate_at + 1, mask_at - rate_at - 1);
    Neighbour neighbour{nullptr, 0, ParseNumber(operand.substr(mask_at + 1), "mask", 16)};
    const auto [end, error] =
        std::from_chars(rate.data(), rate.data() + rate.size(), neighbour.mpps);
    if (error != std::errc() || end != rate.data() + rate.size() ||
        !(neighbour.mpps >= kLeastMpps && neighbour.mpps <= kMostMpps)) {
      throw Bad{"the rate '" + std::string(rate) + "' is no number of 0.001 to 10000."};
    }
    const std::uint32_t ways = options.machine.llc.ways;
    if (neighbour.mask == 0 || (ways < 64 && neighbour.mask >> ways != 0)) {
      throw Bad{"mask '" + std::string(operand.substr(mask_at + 1)) +
                "' has no way, or one that the cache has not."};
    }
    recordings.push_back(ReadRecording(std::string(operand.substr(0, rate_at))));
    neighbours.push_back(neighbour);
  }
  if (neighbours.empty()) throw Bad{"neighbours takes recordings."};
  const auto [slowest, fastest] = std::ranges::minmax_element(neighbours, {}, &Neighbour::mpps);
  if (fastest->mpps > kMostTimesAsFast * slowest->mpps) {
    throw Bad{"the highest rate is more than 1000 times the lowest."};
  }
  for (std::size_t i = 0; i < neighbours.size(); ++i) neighbours[i].recording = &recordings[i];
  const std::vector<std::uint64_t> warm_ups = WarmUps(options, recordings);
  for (std::size_t i = 0; i < neighbours.size(); ++i) neighbours[i].warm_up = warm_ups[i];
  const auto counts = PlayNeighbours(neighbours, options.machine, options.packets);
  std::cout << "{\n  \"modelled\": true,\n  \"neighbours\": [";
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::cout << (i == 0 ? "\n" : ",\n") << "    {\"packets\": " << counts[i].packets
              << ", \"instructions\": " << counts[i].instructions
              << ", \"llc_references\": " << counts[i].llc_references
              << ", \"misses\": " << counts[i].misses
              << ", \"driver_misses\": " << counts[i].driver_misses
              << ", \"written_back\": " << counts[i].written_back
              << ", \"device_spills\": " << counts[i].device_spills
              << ", \"occupancy\": " << counts[i].occupancy << "}";
  }
  std::cout << "\n  ]\n}\n";
}

void Latency(const Options& options) {
  if (options.operands.empty()) throw Bad{"latency takes sizes in bytes."};
  std::vector<std::uint64_t> sizes;
  for (const std::string_view operand : options.operands) {
    sizes.push_back(ParseNumber(operand, "size"));
    if (sizes.back() < 128 || sizes.back() > (std::uint64_t{1} << 36)) {
      throw Bad{"a size is 128 bytes to 64 GB."};
    }
  }
  std::cout << "{\n  \"latency_ns\": [";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::cout << (i == 0 ? "\n" : ",\n") << "    {\"bytes\": " << sizes[i]
              << ", \"ns\": " << LoadLatencyNs(sizes[i]) << "}" << std::flush;
  }
  std::cout << "\n  ]\n}\n";
}

int Main(std::span<char*> words) {
  const std::string_view command = words.empty() ? "" : words[0];
  if (command == "--help" || command == "-h") {
    std::cout << kHelp;
    return 0;
  }
  try {
    const Options options = ParseOptions(words.empty() ? words : words.subspan(1));
    if (command == "ways") {
      Ways(options);
    } else if (command == "neighbours") {
      Neighbours(options);
    } else if (command == "latency") {
      Latency(options);
    } else {
      throw Bad{"expected ways, neighbours or latency; see unis-cache --help."};
    }
    return std::cout.flush() ? 0 : 1;
  } catch (const Bad& bad) {
    std::cerr << "unis-cache: " << bad.sentence << "\n";
    return 2;
  } catch (const std::exception& failure) {
    std::cerr << "unis-cache: " << failure.what() << "\n";
    return 1;
  }
}

}  // namespace
}  // namespace unis::cache

int main(int argc, char** argv) {
  return unis::cache::Main(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
}
