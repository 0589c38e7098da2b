#include "engine/trace/trace_recorder.h"

#include <algorithm>
#include <utility>

namespace unis {

TraceRecorder::Room::Room() : switches_(kRoom), runs_(kRoom) {
  switches_.clear();
  runs_.clear();
}

TraceRecorder::TraceRecorder(std::vector<Watched> watched, CoreIndex cores)
    : watched_(std::move(watched)), seen_(watched_.size()), cores_(cores) {}

void TraceRecorder::Begin(Room& room) noexcept {
  switches_.swap(room.switches_);
  runs_.swap(room.runs_);
  switches_.clear();
  runs_.clear();
  std::ranges::fill(cores_, CoreRun{});
  lost_ = 0;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    seen_[i] = {.polls = watched_[i].activity->Polls(), .packets = watched_[i].activity->Packets()};
  }
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
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    const std::uint64_t polls = watched_[i].activity->Polls();
    if (polls == seen_[i].polls) continue;
    const std::uint64_t packets = watched_[i].activity->Packets();
    Extend(watched_[i], now, packets - seen_[i].packets);
    seen_[i] = {.polls = polls, .packets = packets};
  }
}

void TraceRecorder::Extend(const Watched& watched, Nanoseconds now,
                           std::uint64_t packets) noexcept {
  CoreRun& core = cores_[watched.core];
  if (core.any && core.task == watched.task) {
    if (!core.kept) return;
    runs_[core.run].end = now;
    runs_[core.run].packets += packets;
    return;
  }
  if (runs_.size() == kRoom) {
    core = {.any = true, .kept = false, .task = watched.task, .run = 0};
    ++lost_;
    return;
  }
  const Nanoseconds begin = core.any && core.kept ? runs_[core.run].end : now;
  core = {.any = true, .kept = true, .task = watched.task, .run = runs_.size()};
  runs_.push_back({.task = watched.task, .begin = begin, .end = now, .packets = packets});
}

}  // namespace unis
