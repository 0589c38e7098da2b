// The skeleton of every function: options, EAL, ports, the poll loop, and its end with counters.
//
// A function is a class (no base: the loop calls it without a virtual call) with
//   struct Settings;                                     // defaults are those of the options
//   static constexpr std::string_view kName, kAbout, kExample;
//   static void AddOptions(OptionTable&, Settings&);
//   static Failure Check(Settings&);                     // before EAL: options, files
//   static Result<Function> Create(Settings);            // after EAL: tables in packet memory
//   std::uint16_t Process(rte_mbuf** packets, std::uint16_t count, Drops&);
//     // in place; returns how many packets, at the front, go on to the egress
//   void Report(std::FILE*);                             // lines "name value"
#pragma once

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <sched.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "functions/common/burst.h"
#include "functions/common/options.h"
#include "functions/common/ports.h"
#include "functions/common/result.h"
#include "functions/common/signals.h"

namespace unis::functions {

inline constexpr int kExitBadInput = 2;

struct RunOptions {
  PortNames ports;
  NextHops next_hops;
  std::uint32_t yield_every = 0;   // bursts; 0: never
  std::uint64_t exit_idle_ms = 0;  // 0: never
};

struct DirectionCounters {
  std::uint64_t rx_packets = 0;
  std::uint64_t tx_packets = 0;
  std::uint64_t dropped_by_function = 0;
  std::uint64_t dropped_egress_full = 0;
};

struct LoopCounters {
  std::vector<DirectionCounters> directions;
  std::uint64_t polls = 0;
  std::uint64_t empty_polls = 0;
  std::uint64_t yields = 0;
};

// The process around the loop: what does not depend on the function.
class Program {
 public:
  explicit Program(std::string_view name) : name_(name) {}
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Splits the command line at `--` and reads the second part. True: go on; false: leave main with
  // exit_code(), as after --help.
  bool ReadOptions(int argc, char** argv, std::string_view about, std::string_view example,
                   OptionTable& own);
  bool StartEal();
  bool OpenPorts();
  bool Fail(const Error& error);
  void Announce() const;  // that it polls from now on
  void Report(const LoopCounters& counters) const;

  const RunOptions& options() const { return options_; }
  const Ports& ports() const { return *ports_; }
  int exit_code() const { return exit_code_; }

 private:
  std::string_view name_;
  RunOptions options_;
  std::vector<char*> eal_arguments_;
  bool eal_started_ = false;
  std::optional<Ports> ports_;
  int exit_code_ = 0;
};

// Ends the loop when no packet came for a while. The clock is read on empty polls only.
class IdleExit {
 public:
  explicit IdleExit(std::uint64_t limit_ms) : limit_(limit_ms * rte_get_tsc_hz() / 1000) {}
  void Packet() { since_ = 0; }
  bool Expired() {
    if (limit_ == 0) return false;
    const std::uint64_t now = rte_rdtsc();
    if (since_ == 0) since_ = now;
    return now - since_ > limit_;
  }

 private:
  std::uint64_t limit_;      // TSC cycles; 0: never
  std::uint64_t since_ = 0;  // TSC at the first of the empty polls; 0: the last one was not empty
};

// Nobody else has the bytes of the packets.
inline void Address(rte_mbuf* const* packets, std::uint16_t count,
                    const std::array<std::uint8_t, 12>& addresses) {
  for (std::uint16_t i = 0; i < count; ++i) {
    if (packets[i]->data_len < addresses.size()) continue;
    std::memcpy(rte_pktmbuf_mtod(packets[i], void*), addresses.data(), addresses.size());
  }
}

// One burst in one direction. How many packets it received.
template <class Function>
std::uint16_t Forward(Function& function, const Direction& direction, DirectionCounters& counters) {
  rte_mbuf* packets[kBurst];
  const std::uint16_t received = rte_eth_rx_burst(direction.in, 0, packets, kBurst);
  if (received == 0) return 0;
  counters.rx_packets += received;

  Drops drops;
  const std::uint16_t kept = function.Process(packets, received, drops);
  if (drops.count > 0) rte_pktmbuf_free_bulk(drops.packets, drops.count);
  counters.dropped_by_function += drops.count;
  if (direction.addresses) Address(packets, kept, *direction.addresses);

  const std::uint16_t sent = kept == 0 ? 0 : rte_eth_tx_burst(direction.out, 0, packets, kept);
  counters.tx_packets += sent;
  if (sent < kept) {
    rte_pktmbuf_free_bulk(packets + sent, kept - sent);
    counters.dropped_egress_full += kept - sent;
  }
  return received;
}

// Polls all directions in turn. It yields after K bursts, or when a whole turn found nothing.
template <class Function>
LoopCounters Poll(Function& function, const std::vector<Direction>& directions,
                  const RunOptions& options) {
  LoopCounters counters{.directions = std::vector<DirectionCounters>(directions.size())};
  IdleExit idle(options.exit_idle_ms);
  std::uint32_t bursts = 0;
  const auto yield = [&] {
    bursts = 0;
    ++counters.yields;
    sched_yield();
  };
  while (!StopRequested()) {
    bool found = false;
    for (std::size_t i = 0; i < directions.size(); ++i) {
      ++counters.polls;
      if (Forward(function, directions[i], counters.directions[i]) == 0) {
        ++counters.empty_polls;
        continue;
      }
      found = true;
      if (const std::uint32_t every = YieldEvery(); every > 0 && ++bursts >= every) yield();
    }
    if (found) {
      idle.Packet();
      continue;
    }
    if (YieldEvery() > 0) yield();
    if (idle.Expired()) break;
  }
  return counters;
}

template <class Function>
int RunProgram(int argc, char** argv) {
  typename Function::Settings settings;
  OptionTable table;
  Function::AddOptions(table, settings);
  Program program(Function::kName);
  if (!program.ReadOptions(argc, argv, Function::kAbout, Function::kExample, table)) {
    return program.exit_code();
  }
  if (const Failure failure = Function::Check(settings)) {
    program.Fail(*failure);
    return program.exit_code();
  }
  CatchSignals(program.options().yield_every);
  if (!program.StartEal() || !program.OpenPorts()) return program.exit_code();
  TakeOrders();
  Result<Function> function = Function::Create(std::move(settings));
  if (!function) {
    program.Fail(function.error());
    return program.exit_code();
  }
  program.Announce();
  const LoopCounters counters = Poll(*function, program.ports().directions(), program.options());
  program.Report(counters);
  function->Report(stdout);
  std::fflush(stdout);
  return 0;
}

}  // namespace unis::functions
