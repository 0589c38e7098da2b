#include "models/cache/by_ways.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "models/cache/core.h"
#include "models/cache/way_stacks.h"

namespace unis::cache {
namespace {

enum Owner : std::size_t { kFunction, kDriver, kOwners };

class Profiler {
 public:
  explicit Profiler(const Machine& machine)
      : machine_(machine), core_(machine.l1, machine.l2), stacks_(machine.llc) {
    if (machine.io_ways > 0) io_.emplace(Geometry{machine.llc.sets, machine.io_ways});
    Forget();
  }

  // The caches stay as they are; counting begins anew.
  void Forget() {
    counts_ = {};
    stacks_.TakeWrittenBack();
    for (auto& hits : hits_) hits.assign(machine_.llc.ways + 1, 0);
    missed_l1_ = 0;
  }

  void Take(const Event& event) {
    switch (event.kind) {
      case Event::Kind::kLoad:
      case Event::Kind::kStore:
        Access(event.line, event.kind == Event::Kind::kStore, kFunction);
        break;
      case Event::Kind::kArrival:
        for (std::uint64_t i = 0; i < event.frame_lines; ++i) {
          DeviceWrites(event.line + event.frame_at + i);
        }
        Access(event.line, true, kDriver);
        break;
      case Event::Kind::kBurstEnd:
        counts_.packets += event.packets;
        counts_.instructions += event.instructions;
        counts_.references += event.references;
        break;
    }
  }

  ByWays Counts() {
    ByWays counts = counts_;
    counts.l1_hits = counts.references - std::min(counts.references, missed_l1_);
    counts.misses = Misses(kFunction);
    counts.driver_misses = Misses(kDriver);
    counts.written_back = stacks_.TakeWrittenBack();
    counts.occupancy = stacks_.Occupancy();
    return counts;
  }

 private:
  void Access(Line line, bool store, Owner owner) {
    const auto level = core_.Access(line, store, [this](Line victim) { WriteBack(victim); });
    if (level == Core::Level::kL1) return;
    if (owner == kFunction) ++missed_l1_;
    if (level == Core::Level::kL2) {
      if (owner == kFunction) ++counts_.l2_hits;
      return;
    }
    if (owner == kFunction) ++counts_.llc_references;
    if (InIoWays(line)) {
      if (owner == kFunction) ++counts_.io_hits;
      return;
    }
    const std::uint32_t ways = stacks_.Access(line, false);
    ++hits_[owner][ways];  // at 0: with no number of ways
    const bool is_new = known_.insert(line).second;
    if (is_new && owner == kFunction) ++counts_.first_touches;
  }

  bool InIoWays(Line line) { return io_ && io_->Holds(line); }

  void WriteBack(Line line) {
    if (!InIoWays(line)) stacks_.WriteBack(line);
  }

  void DeviceWrites(Line line) {
    core_.Invalidate(line);
    stacks_.Invalidate(line);
    ++counts_.device_lines;
    counts_.device_spills += !io_ || io_->Access(line, true).victim.has_value();
  }

  std::vector<std::uint64_t> Misses(Owner owner) const {
    std::uint64_t missed = 0;
    for (const std::uint64_t hits : hits_[owner]) missed += hits;
    std::vector<std::uint64_t> by_ways;
    for (std::uint32_t ways = 1; ways <= machine_.llc.ways; ++ways) {
      missed -= hits_[owner][ways];
      by_ways.push_back(missed);
    }
    return by_ways;
  }

  Machine machine_;
  Core core_;
  WayStacks stacks_;
  std::optional<PrivateCache> io_;
  std::unordered_set<Line> known_;
  ByWays counts_;
  std::vector<std::uint64_t> hits_[kOwners];  // by the least ways that suffice; at 0: none do
  std::uint64_t missed_l1_ = 0;
};

}  // namespace

ByWays ProfileByWays(const Recording& recording, const Machine& machine, std::uint64_t warm_up) {
  Profiler profiler(machine);
  std::uint64_t packets = 0;
  bool warm = warm_up == 0;
  for (auto place = recording.begin(); !recording.AtEnd(place);) {
    const Event event = recording.Next(place);
    profiler.Take(event);
    packets += event.packets;
    if (!warm && event.kind == Event::Kind::kBurstEnd && packets >= warm_up) {
      warm = true;
      profiler.Forget();
    }
  }
  return profiler.Counts();
}

}  // namespace unis::cache
