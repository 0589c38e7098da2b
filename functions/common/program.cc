#include "functions/common/program.h"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>

#include <algorithm>
#include <string>

#include "functions/common/report.h"

namespace unis::functions {
namespace {

void AddRunOptions(OptionTable& table, RunOptions& options) {
  table.Add("--ports", "IN,OUT",
            "receive from port IN, send to port OUT (ethdev names; one name: both).\n"
            "Default: what comes in at an only port goes back out of it; an even number of\n"
            "ports are paired, the first with the second and so on, and forwarded both ways.",
            [&options](std::string_view value) {
              const auto names = ParsePortNames(value);
              if (!names) return Failure(names.error());
              options.ports = *names;
              return Failure();
            });
  table.Add("--next-hop", "MAC[,MAC...]",
            "send every packet to this MAC address, from that of the port by which it leaves, as\n"
            "a NIC's own switch needs it: one for all such ports, or one for each in their order,\n"
            "with - for one whose frames stay as they are. Ports then take in only what is sent\n"
            "to them. Default: frames keep the addresses that the function gives them.",
            [&options](std::string_view value) {
              const auto next_hops = ParseNextHops(value);
              if (!next_hops) return Failure(next_hops.error());
              options.next_hops = *next_hops;
              return Failure();
            });
  table.AddNumber(
      "--yield-every", "K",
      "co-operate: give up the CPU (sched_yield) after K bursts, and at once when there\n"
      "is nothing to receive. SIGRTMIN, queued with a number, has it do so every so many\n"
      "bursts from then on, with 0 never; it is ignored when K is 0. Default: 0, never.",
      0, 1'000'000'000, options.yield_every);
  table.AddNumber("--exit-idle", "MS",
                  "end when no packet came for MS milliseconds. Default: 0, never.", 0, 86'400'000,
                  options.exit_idle_ms);
}

std::string HelpText(std::string_view name, std::string_view about, std::string_view example,
                     const OptionTable& own, const OptionTable& run) {
  return fmt::format(
      "Usage: {0} [EAL OPTIONS] -- [OPTIONS]\n\n"
      "{1}\n\n"
      "It is an ordinary DPDK program: one queue, bursts of {2} packets, polled by the main "
      "lcore.\n"
      "The EAL options, before the `--`, give it ports, memory and a core (DPDK's Getting Started\n"
      "Guide lists them). SIGINT and SIGTERM end it; then it prints its counters.\n\n"
      "Options of {0}:\n{3}\n"
      "Options of every function:\n{4}  --help\n      this text\n\n"
      "Example: one capture in, another out\n  {5}\n",
      name, about, kBurst, own.Help(), run.Help(), example);
}

void PrintDirection(const DirectionCounters& counters, const std::string& suffix) {
  PrintCounter(stdout, "rx_packets" + suffix, counters.rx_packets);
  PrintCounter(stdout, "tx_packets" + suffix, counters.tx_packets);
  PrintCounter(stdout, "dropped_by_function" + suffix, counters.dropped_by_function);
  PrintCounter(stdout, "dropped_egress_full" + suffix, counters.dropped_egress_full);
}

bool IsHelp(std::string_view word) { return word == "--help" || word == "-h"; }

}  // namespace

bool Program::ReadOptions(int argc, char** argv, std::string_view about, std::string_view example,
                          OptionTable& own) {
  const std::vector<char*> words(argv, argv + argc);
  const auto end_of_eal =
      std::ranges::find_if(words, [](const char* word) { return std::string_view(word) == "--"; });
  eal_arguments_.assign(words.begin(), end_of_eal);
  std::vector<std::string_view> mine;
  if (end_of_eal != words.end()) mine.assign(end_of_eal + 1, words.end());

  OptionTable run;
  AddRunOptions(run, options_);
  if (std::ranges::any_of(words, [](const char* word) { return IsHelp(word); })) {
    std::fputs(HelpText(name_, about, example, own, run).c_str(), stdout);
    return false;
  }
  AddRunOptions(own, options_);
  for (const char* const word : eal_arguments_) {
    if (own.Knows(word)) return Fail(Error{fmt::format("option {} belongs behind `--`", word)});
  }
  if (const Failure failure = own.Parse(mine)) return Fail(*failure);
  return true;
}

bool Program::StartEal() {
  std::vector<char*> arguments = eal_arguments_;  // EAL permutes them
  arguments.push_back(nullptr);
  if (rte_eal_init(static_cast<int>(arguments.size()) - 1, arguments.data()) < 0) {
    return Fail(Error{fmt::format("DPDK's EAL did not start ({}); its messages above say why",
                                  rte_strerror(rte_errno))});
  }
  eal_started_ = true;
  return true;
}

bool Program::OpenPorts() {
  Result<Ports> opened = Ports::Open(options_.ports, options_.next_hops);
  if (!opened) return Fail(opened.error());
  ports_.emplace(std::move(*opened));
  return true;
}

bool Program::Fail(const Error& error) {
  std::fflush(stdout);
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(name_.size()), name_.data(),
               error.message.c_str());
  exit_code_ = kExitBadInput;
  return false;
}

void Program::Announce() const {
  std::string what;
  for (const Direction& direction : ports_->directions()) {
    what += fmt::format("{}polling {}, sending to {}", what.empty() ? "" : "; ",
                        PortName(direction.in), PortName(direction.out));
  }
  fmt::print("{}: {}\n", name_, what);
  std::fflush(stdout);
}

void Program::Report(const LoopCounters& counters) const {
  DirectionCounters sum;
  for (const DirectionCounters& direction : counters.directions) {
    sum.rx_packets += direction.rx_packets;
    sum.tx_packets += direction.tx_packets;
    sum.dropped_by_function += direction.dropped_by_function;
    sum.dropped_egress_full += direction.dropped_egress_full;
  }
  PrintDirection(sum, "");
  PrintCounter(stdout, "polls", counters.polls);
  PrintCounter(stdout, "empty_polls", counters.empty_polls);
  PrintCounter(stdout, "yields", counters.yields);
  if (counters.directions.size() < 2) return;
  for (std::size_t i = 0; i < counters.directions.size(); ++i) {
    const Direction& direction = ports_->directions()[i];
    fmt::print("\nDirection {}: from {} to {}\n", i, PortName(direction.in),
               PortName(direction.out));
    PrintDirection(counters.directions[i], fmt::format("_{}", i));
  }
  fmt::print("\n");
}

Program::~Program() {
  ports_.reset();
  if (eal_started_) rte_eal_cleanup();
}

}  // namespace unis::functions
