#include "functions/macswap.h"

#include <cstring>

#include "functions/common/headers.h"

namespace unis::functions {

void Macswap::AddOptions(OptionTable& table, Settings& settings) {
  table.Add(
      "--cost", "COST",
      "imitated work a packet in CPU core cycles: light (50), medium (150), heavy (250),\n"
      "a number, or SIZE:CYCLES,SIZE:CYCLES,... with growing SIZE: a packet costs the CYCLES\n"
      "of the first SIZE that is not below its length (bytes without FCS), a longer one\n"
      "those of the last. Default: 0.",
      [&settings](std::string_view value) {
        const auto cost = PacketCost::Parse(value);
        if (!cost) return Failure(cost.error());
        settings.cost = *cost;
        return Failure();
      });
  table.AddNumber(
      "--stages", "N",
      "do to every burst what N of these functions in a row would do, without the links\n"
      "between them: run to completion. Default: 1.",
      1, 64, settings.stages);
}

std::uint16_t Macswap::Process(rte_mbuf** packets, std::uint16_t count, Drops&) {
  PrefetchHeaders(packets, count);
  for (std::uint32_t stage = 0; stage < stages_; ++stage) Stage(packets, count);
  return count;
}

void Macswap::Stage(rte_mbuf** packets, std::uint16_t count) {
  constexpr std::size_t kMac = 6;  // bytes
  for (std::uint16_t i = 0; i < count; ++i) {
    if (packets[i]->data_len >= 2 * kMac) {
      std::uint8_t* const frame = Frame(packets[i]);
      std::uint8_t destination[kMac];
      std::memcpy(destination, frame, kMac);
      std::memcpy(frame, frame + kMac, kMac);
      std::memcpy(frame + kMac, destination, kMac);
    }
    if (!free_of_cost_) chain_ = ImitateWork(chain_, cost_.Cycles(packets[i]->pkt_len));
  }
}

}  // namespace unis::functions
