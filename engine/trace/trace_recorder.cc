#include "engine/trace/trace_recorder.h"

#include <algorithm>
#include <utility>

namespace unis {

TraceRecorder::Room::Room() : switches_(kRoom), runs_(kRoom) {
  switches_.clear();
  runs_.clear();
}

TraceRecorder::TraceRecorder(std::vector<std::unique_ptr<Activity>> tasks)
    : tasks_(std::move(tasks)), seen_(tasks_.size()) {}

void TraceRecorder::Begin(Room& room) noexcept {
  switches_.swap(room.switches_);
  runs_.swap(room.runs_);
  switches_.clear();
  runs_.clear();
  last_ = {};
  lost_ = 0;
  for (std::size_t task = 0; task < tasks_.size(); ++task)
    seen_[task] = {.polls = tasks_[task]->Polls(), .packets = tasks_[task]->Packets()};
  recording_ = true;
}

void TraceRecorder::OnSwitch(const SwitchRecord& record) noexcept {
  if (!recording_) return;
  if (switches_.size() == kRoom) {
    ++lost_;
    return;
  }
  switches_.push_back(record);
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
  if (last_.any && last_.task == task) {
    if (!last_.kept) return;
    runs_[last_.run].end = now;
    runs_[last_.run].packets += packets;
    return;
  }
  if (runs_.size() == kRoom) {
    last_ = {.any = true, .kept = false, .task = task, .run = 0};
    ++lost_;
    return;
  }
  const Nanoseconds begin = last_.any && last_.kept ? runs_[last_.run].end : now;
  last_ = {.any = true, .kept = true, .task = task, .run = runs_.size()};
  runs_.push_back({.task = task, .begin = begin, .end = now, .packets = packets});
}

}  // namespace unis
