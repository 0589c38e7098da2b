// The ports of a function: which there are, which goes with which, and their packet memory.
#pragma once

#include <rte_mempool.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "functions/common/result.h"
#include "functions/common/text.h"

namespace unis::functions {

// As EAL names them (net_pcap0, 0000:01:00.0). Empty: chosen by what there is.
struct PortNames {
  std::string in;
  std::string out;
};

Result<PortNames> ParsePortNames(std::string_view value);
std::string PortName(std::uint16_t id);

// Whom packets are sent to: one address for all ports that they leave by, or one for each in the
// order of the ports; frames of a port without one keep their addresses, and so do all of an empty
// list.
using NextHops = std::vector<std::optional<MacAddress>>;
Result<NextHops> ParseNextHops(std::string_view value);

// Packets come in at one port and go out at another or the same.
struct Direction {
  std::uint16_t in;
  std::uint16_t out;
  // Destination and source of every frame that leaves, as a frame has them; absent: as they are.
  std::optional<std::array<std::uint8_t, 12>> addresses = {};
};

// Started ports, one queue each way. Stops and closes them, and gives back packet memory of their
// own.
class Ports {
 public:
  // Named ports are one direction. Else as DPDK's own examples have it: packets go back out of an
  // only port; an even number are paired, 0 with 1 and 2 with 3, and forwarded both ways.
  // Waits up to 10 s for peers: a memif's client cannot start before its server listens, and links
  // may come up late. Those that stay down are polled nevertheless.
  // With next hops a port takes in only what is addressed to it.
  static Result<Ports> Open(const PortNames& names, const NextHops& next_hops);
  ~Ports();
  Ports(Ports&&) = default;
  Ports& operator=(Ports&&) = delete;

  const std::vector<Direction>& directions() const { return directions_; }

 private:
  // A pool with packets still in somebody's hands, as of the next program on a ring, has to stay.
  struct FreeIfWhole {
    void operator()(rte_mempool* pool) const;
  };
  explicit Ports(std::vector<Direction> directions) : directions_(std::move(directions)) {}
  Failure Address(const NextHops& next_hops);

  std::vector<Direction> directions_;
  std::unique_ptr<rte_mempool, FreeIfWhole> pool_;
  std::vector<std::uint16_t>
      configured_;  // ours to close: others may belong to the primary process
};

// Objects in the memory of a DPDK process group need a name of their own in every process, so it
// has the main lcore, which no other living process of the group may have. Where a killed process
// of this lcore left an object of the name, whoever makes the next one frees it first.
std::string NameOfLcore(std::string_view what);

// For where the other name is taken for good, by half of an object: the process's id.
std::string NameOfProcess(std::string_view what);

}  // namespace unis::functions
