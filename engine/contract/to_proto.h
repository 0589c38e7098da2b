// What the engine and the simulator tell alike in the contract's messages.
#pragma once

#include <string_view>

#include "engine/base/histogram.h"
#include "engine/scheduler/components.h"
#include "engine/scheduler/policy.h"
#include "unis/v1/common.pb.h"

namespace unis {

static_assert(static_cast<int>(Policy::kUnis) == v1::POLICY_UNIS);
static_assert(static_cast<int>(Policy::kCooperative) == v1::POLICY_COOPERATIVE);
static_assert(static_cast<int>(Policy::kRr) == v1::POLICY_RR);
static_assert(static_cast<int>(Policy::kFifo) == v1::POLICY_FIFO);
static_assert(static_cast<int>(Policy::kOther) == v1::POLICY_OTHER);
static_assert(static_cast<int>(Policy::kBatch) == v1::POLICY_BATCH);
static_assert(static_cast<int>(Policy::kIdle) == v1::POLICY_IDLE);

inline v1::SwitchReason ToProto(SwitchReason reason) {
  switch (reason) {
    case SwitchReason::kStart:
      return v1::SWITCH_REASON_START;
    case SwitchReason::kSliceExpired:
      return v1::SWITCH_REASON_SLICE_EXPIRED;
    case SwitchReason::kIngressLow:
      return v1::SWITCH_REASON_INGRESS_LOW;
    case SwitchReason::kEgressHigh:
      return v1::SWITCH_REASON_EGRESS_HIGH;
    case SwitchReason::kSelf:
      return v1::SWITCH_REASON_SELF;
    case SwitchReason::kStill:
      return v1::SWITCH_REASON_STILL;
    case SwitchReason::kBetween:
      return v1::SWITCH_REASON_BETWEEN;
  }
  return v1::SWITCH_REASON_UNSPECIFIED;
}

// `from` and `to`: names of the functions of the record's tasks.
inline v1::SwitchEvent ToProto(const SwitchRecord& record, std::uint32_t cpu, std::string_view from,
                               std::string_view to) {
  v1::SwitchEvent event;
  event.set_time_ns(static_cast<std::uint64_t>(record.time));
  event.set_cpu(cpu);
  if (record.reason != SwitchReason::kStart) event.set_from(std::string(from));
  event.set_to(std::string(to));
  event.set_reason(ToProto(record.reason));
  event.set_from_ingress(record.from_ingress);
  event.set_from_egress(record.from_egress);
  event.set_to_ingress(record.to_ingress);
  event.set_to_egress(record.to_egress);
  event.set_slice_ns(static_cast<std::uint64_t>(record.slice));
  return event;
}

inline v1::LatencyHistogram ToProto(const LatencyHistogram& histogram) {
  v1::LatencyHistogram result;
  histogram.ForEach([&result](std::uint64_t value, std::uint64_t count) {
    result.add_value_ns(value);
    result.add_count(count);
  });
  return result;
}

}  // namespace unis
