#include "functions/macswap.h"

#include <sys/prctl.h>

#include <chrono>
#include <cstring>
#include <thread>

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
  table.AddNumber("--sleep", "US",
                  "sleep so many microseconds for every burst, as one that waits for a lock or\n"
                  "a disk does. Default: 0.",
                  0, 1'000'000, settings.sleep_us);
}

Result<Macswap> Macswap::Create(Settings settings) {
  // Or the kernel would let it sleep 50 us longer.
  if (settings.sleep_us > 0) prctl(PR_SET_TIMERSLACK, 1UL);
  return Macswap(std::move(settings));
}

std::uint16_t Macswap::Process(rte_mbuf** packets, std::uint16_t count, Drops&) {
  PrefetchHeaders(packets, count);
  for (std::uint32_t stage = 0; stage < stages_; ++stage) Stage(packets, count);
  if (sleep_us_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(sleep_us_));
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
