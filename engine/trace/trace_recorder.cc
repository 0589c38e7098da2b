#include "engine/trace/trace_recorder.h"

#include <algorithm>
#include <utility>

namespace unis {

Trace::Trace() : switches(kRoom), runs(kRoom) {
  switches.clear();
  runs.clear();
}

TraceRecorder::TraceRecorder(std::vector<std::unique_ptr<Activity>> tasks)
    : tasks_(std::move(tasks)), seen_(tasks_.size()) {}

void TraceRecorder::Begin(Trace& trace) noexcept {
  last_ = {};
  for (std::size_t task = 0; task < tasks_.size(); ++task)
    seen_[task] = {.polls = tasks_[task]->Polls(), .packets = tasks_[task]->Packets()};
  trace_ = &trace;
}

void TraceRecorder::OnSwitch(const SwitchRecord& record) noexcept {
  if (trace_ == nullptr) return;
  if (trace_->switches.size() < Trace::kRoom)
    trace_->switches.push_back(record);
  else
    ++trace_->lost;
}

void TraceRecorder::Sample(Nanoseconds now) noexcept {
  for (TaskIndex task = 0; task < tasks_.size(); ++task) {
    Seen& seen = seen_[task];
    const std::uint64_t polls = tasks_[task]->Polls();
    if (polls == seen.polls) continue;
    const std::uint64_t packets = tasks_[task]->Packets();
    Extend(task, now, packets - seen.packets);
    seen = {.polls = polls, .packets = packets};
  }
}

void TraceRecorder::Extend(TaskIndex task, Nanoseconds now, std::uint64_t packets) noexcept {
  auto& runs = trace_->runs;
  if (last_.any && last_.task == task) {
    if (!last_.kept) return;
    runs[last_.run].end = now;
    runs[last_.run].packets += packets;
    return;
  }
  if (runs.size() == Trace::kRoom) {
    last_ = {.any = true, .kept = false, .task = task, .run = 0};
    ++trace_->lost;
    return;
  }
  const Nanoseconds begin = last_.any && last_.kept ? runs[last_.run].end : now;
  last_ = {.any = true, .kept = true, .task = task, .run = runs.size()};
  runs.push_back({.task = task, .begin = begin, .end = now, .packets = packets});
}

}  // namespace unis
