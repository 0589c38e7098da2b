#include "engine/server/trace_recorder.h"

#include <utility>

namespace unis {

TraceRecorder::TraceRecorder(std::vector<Watched> nfs, CoreIndex cores)
    : nfs_(std::move(nfs)), seen_(nfs_.size()), cores_(cores) {
  switches_.reserve(kRoom);
  runs_.reserve(kRoom);
}

void TraceRecorder::Begin() {
  switches_.clear();
  runs_.clear();
  cores_.assign(cores_.size(), {});
  lost_ = 0;
  for (NfIndex nf = 0; nf < nfs_.size(); ++nf) {
    const PortCounters counters = nfs_[nf].port->Read();
    seen_[nf] = {.polls = counters.polls, .packets = counters.rx_packets};
  }
  recording_ = true;
}

void TraceRecorder::End() { recording_ = false; }

void TraceRecorder::OnSwitch(const SwitchRecord& record) noexcept {
  if (!recording_) return;
  if (switches_.size() == kRoom) {
    ++lost_;
    return;
  }
  switches_.push_back(record);
}

void TraceRecorder::Sample(Nanoseconds now) noexcept {
  for (NfIndex nf = 0; nf < nfs_.size(); ++nf) {
    if (nfs_[nf].port->Polls() == seen_[nf].polls) continue;
    const PortCounters counters = nfs_[nf].port->Read();
    Extend(nf, now, counters.rx_packets - seen_[nf].packets);
    seen_[nf] = {.polls = counters.polls, .packets = counters.rx_packets};
  }
}

void TraceRecorder::Extend(NfIndex nf, Nanoseconds now, std::uint64_t packets) noexcept {
  CoreRun& core = cores_[nfs_[nf].core];
  if (core.any && core.nf == nf) {
    if (!core.kept) return;
    runs_[core.run].end = now;
    runs_[core.run].packets += packets;
    return;
  }
  if (runs_.size() == kRoom) {
    core = {.any = true, .kept = false, .nf = nf, .run = 0};
    ++lost_;
    return;
  }
  const Nanoseconds begin = core.any ? runs_[core.run].end : now;
  core = {.any = true, .kept = true, .nf = nf, .run = runs_.size()};
  runs_.push_back({.nf = nf, .begin = begin, .end = now, .packets = packets});
}

}  // namespace unis
