#include "engine/scheduler/shares.h"

#include <algorithm>
#include <bit>

namespace unis {
namespace {

constexpr std::uint32_t kSample = 1'024;  // packets
constexpr double kNothing = 1 / 1024.0;   // a lower share counts as 0

}  // namespace

Shares::Shares(CoreTasks& tasks) : tasks_(tasks) {
  std::vector<bool> branches;
  for (const TaskState& task : tasks)
    branches.push_back(std::ranges::any_of(
        tasks.In(task), [](const IngressState& in) { return std::popcount(in.reaches) > 1; }));
  if (std::ranges::find(branches, true) == branches.end()) return;
  branches_ = std::move(branches);
  for (const IngressState& in : tasks.ingresses())
    received_.push_back(tasks.monitor().Received(in.link));
  for (const EgressState& out : tasks.egresses())
    samples_.push_back({.last = tasks.monitor().Sent(out.link)});
}

// What was sent while the egress was nearly full says how much fits, not how much goes there. Of an
// egress that cannot be read nobody counts what was sent.
void Shares::LookAt(TaskState& task) noexcept {
  const auto out = task.egress.Of(tasks_.egresses());
  const auto samples = task.egress.Of(samples_);
  std::uint32_t sent = 0;
  for (std::size_t j = 0; j < out.size(); ++j) {
    const std::uint16_t now = tasks_.monitor().Sent(out[j].link);
    const auto since = static_cast<std::uint16_t>(now - samples[j].last);
    samples[j].last = now;
    samples[j].sent += since;
    sent += samples[j].sent;
  }
  for (std::uint32_t i = 0; i < task.ingress.size; ++i) {
    const IngressState& in = tasks_.ingresses()[task.ingress.begin + i];
    std::uint16_t& last = received_[task.ingress.begin + i];
    const std::uint16_t now = tasks_.monitor().Received(in.link);
    const auto taken = static_cast<std::uint16_t>(now - last);
    last = now;
    ForEachBit(in.reaches, [&](std::uint32_t j) { samples[j].taken += taken; });
  }
  for (std::size_t j = 0; j < out.size(); ++j) {
    const std::uint32_t room = tasks_.monitor().PktCap(out[j].link) - tasks_.Packets(out[j]);
    const bool learns = out[j].known && samples[j].taken >= kSample && room >= kBatch && sent > 0;
    if (learns) {
      const double ratio = static_cast<double>(samples[j].sent) / samples[j].taken;
      out[j].share = (out[j].share + std::min(1.0, ratio)) / 2;
      if (out[j].share < kNothing) out[j].share = 0;
    }
    if (learns || room < kBatch) samples[j] = {.last = samples[j].last};
  }
}

}  // namespace unis
