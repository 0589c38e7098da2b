// Counts what links carry of which nobody tells: memifs between two functions, whose positions have
// 16 bits, so that somebody has to look often enough, and rings of others. A part of the engine,
// for the deployments that have such links.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "engine/monitor/link_progress.h"
#include "engine/monitor/memif_region.h"
#include "engine/platform/component.h"
#include "engine/scheduler/components.h"

namespace unis {

class LinkSampler final : public Component {
 public:
  LinkSampler() : Component("unis_links") {}
  ~LinkSampler() override { Halt(); }

  // Only inside Do(), or before it runs. `region` outlives the sampler, or is watched anew: counts
  // go on from where they were.
  void Watch(LinkIndex to_server, const MemifRegion& region) {
    for (const auto& [link, direction] : {std::pair{to_server, MemifDirection::kToServer},
                                          {to_server + 1, MemifDirection::kToClient}}) {
      const auto [at, fresh] = memifs_.try_emplace(link, region, direction);
      if (!fresh) at->second.Follow(region, direction);
    }
  }
  // Likewise; a ring that is watched already is watched on.
  void Watch(LinkIndex link, const rte_ring& ring) { rings_.try_emplace(link, ring); }
  // The region of a memif goes; counts stay.
  void Leave(LinkIndex to_server) {
    for (const LinkIndex link : {to_server, to_server + 1})
      if (const auto found = memifs_.find(link); found != memifs_.end()) found->second.Leave();
  }
  // Links have other numbers now; those that `now_at` gives none for are gone.
  template <typename NowAt>
  void Renumber(const NowAt& now_at) {
    Renumber(memifs_, now_at);
    Renumber(rings_, now_at);
  }
  // Counts now, for whoever needs it to the microsecond. Only inside Do().
  void Sample() noexcept {
    for (auto& [link, progress] : memifs_) progress.Sample();
    for (auto& [link, progress] : rings_) progress.Sample();
  }
  // As last sampled; null: others tell of that link, or it is not found yet. Read from other
  // threads: each count is one number that only grows.
  const LinkProgress* progress(LinkIndex link) const {
    if (const auto found = memifs_.find(link); found != memifs_.end()) return &found->second;
    const auto found = rings_.find(link);
    return found == rings_.end() ? nullptr : &found->second;
  }

 private:
  template <typename Progress, typename NowAt>
  static void Renumber(std::map<LinkIndex, Progress>& links, const NowAt& now_at) {
    std::map<LinkIndex, Progress> renumbered;
    while (!links.empty()) {
      auto node = links.extract(links.begin());
      const std::optional<LinkIndex> at = now_at(node.key());
      if (!at) continue;
      node.key() = *at;
      renumbered.insert(std::move(node));
    }
    links = std::move(renumbered);
  }

  std::uint32_t Iterate() noexcept override {
    Sample();
    return 0;
  }

  std::map<LinkIndex, MemifProgress> memifs_;
  std::map<LinkIndex, RingProgress> rings_;
};

}  // namespace unis
