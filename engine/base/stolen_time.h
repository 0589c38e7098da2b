// What a hypervisor gave others of the time of our CPUs: "steal" in proc_stat(5), in which the run
// neither ran nor could know that it did not. 0 where there is no hypervisor or it does not tell.
#pragma once

#include <cstdint>
#include <istream>
#include <map>

namespace unis {

using StolenNs = std::map<unsigned, std::uint64_t>;  // by CPU, ns since boot, in clock ticks

StolenNs ReadStolen();
// From the text of /proc/stat; `tick_ns`: of the clock in which it counts. What is no line of a CPU
// is passed over.
StolenNs ParseStolen(std::istream& stat, std::uint64_t tick_ns);

}  // namespace unis
