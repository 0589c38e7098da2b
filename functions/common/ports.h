// The two ends of a function: an ethdev port to receive from and one to send to, maybe the same.
#pragma once

#include <rte_mempool.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "functions/common/result.h"

namespace unis::functions {

// As EAL names them (net_pcap0, 0000:01:00.0). Empty: chosen by what there is.
struct PortNames {
  std::string in;
  std::string out;
};

Result<PortNames> ParsePortNames(std::string_view value);
std::string PortName(std::uint16_t id);

// Started ports, one queue each way. Stops and closes them, and gives back the packet memory.
class PortPair {
 public:
  static Result<PortPair> Open(const PortNames& names);
  ~PortPair();
  PortPair(PortPair&&) = default;
  PortPair& operator=(PortPair&&) = delete;

  std::uint16_t in() const { return in_; }
  std::uint16_t out() const { return out_; }

 private:
  // A pool with packets still in somebody's hands, as of the next program on a ring, has to stay.
  struct FreeIfWhole {
    void operator()(rte_mempool* pool) const;
  };
  PortPair(std::uint16_t in, std::uint16_t out) : in_(in), out_(out) {}

  std::uint16_t in_;
  std::uint16_t out_;
  std::unique_ptr<rte_mempool, FreeIfWhole> pool_;
  std::vector<std::uint16_t>
      configured_;  // ours to close: others may belong to the primary process
};

// Objects in memory shared by a DPDK process group need a name of their own in every process.
std::string UniqueName(std::string_view what);

}  // namespace unis::functions
