// What unisd may do beyond its user: the one table, and how the rest is given up.
//
// Root without a capability is still the owner of root's files. That covers much of what unisd
// does: /proc/sys, the hugetlbfs, debugfs, the folders of runs and of DPDK.
#pragma once

#include <absl/status/statusor.h>
#include <linux/capability.h>

#include <array>
#include <span>
#include <vector>

namespace unis {

struct Capability {
  unsigned number;
  const char* name;  // as capabilities(7) has it, without CAP_
  const char* why;
};

inline constexpr std::array kUnisdCapabilities = {
    Capability{CAP_SYS_NICE, "sys_nice", "scheduling classes and CPUs of functions"},
    Capability{CAP_KILL, "kill", "signals to functions of other users"},
    Capability{CAP_SYS_PTRACE, "sys_ptrace", "links among the open files of functions"},
    Capability{CAP_DAC_OVERRIDE, "dac_override", "captures in other people's folders"},
    // Always, for a link of that kind may be added while unisd runs.
    Capability{CAP_NET_RAW, "net_raw",
               "packet sockets: ends of veths, and ports on kernel devices"},
};

// In addition, where packets come from or go to a DPDK port.
inline constexpr std::array kPortCapabilities = {
    Capability{CAP_NET_ADMIN, "net_admin", "kernel devices as ports: net_tap, promiscuous mode"},
    Capability{CAP_IPC_LOCK, "ipc_lock", "memory that a NIC reads and writes stays where it is"},
    Capability{CAP_SYS_RAWIO, "sys_rawio", "NICs with I/O ports, as legacy virtio"},
};

// Gives up, for this thread and all that it makes, and for good, every capability but `keep`; no
// program that they start gains any. Call it before there are other threads. Returns which of
// `keep` this process does not have.
absl::StatusOr<std::vector<Capability>> KeepOnly(std::span<const Capability> keep);

}  // namespace unis
