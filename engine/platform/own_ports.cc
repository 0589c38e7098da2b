#include "engine/platform/own_ports.h"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_string_fns.h>

namespace unis {
namespace {

// What a secondary's bus of virtual devices asks its primary (drivers/bus/vdev/vdev.c of DPDK).
constexpr const char* kAction = "bus_vdev_mp";

// An answer of zeros, as long as the question: there are no devices.
int AnswerNone(const rte_mp_msg* question, const void* peer) {
  rte_mp_msg answer{};
  rte_strlcpy(answer.name, question->name, sizeof(answer.name));
  answer.len_param = question->len_param;
  return rte_mp_reply(&answer, static_cast<const char*>(peer));
}

}  // namespace

absl::Status KeepPortsFromSecondaries() {
  rte_mp_action_unregister(kAction);
  if (rte_mp_action_register(kAction, &AnswerNone) == 0 || rte_errno == ENOTSUP)
    return absl::OkStatus();  // not supported: a process without secondaries
  return absl::InternalError(
      fmt::format("cannot keep the engine's ports to itself: {}", rte_strerror(rte_errno)));
}

}  // namespace unis
