// Counts what memifs between two functions carry: their positions have 16 bits, so somebody has to
// look often enough. A part of the engine, for the deployments that have memifs.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "engine/monitor/memif_region.h"
#include "engine/platform/component.h"
#include "engine/scheduler/components.h"

namespace unis {

class MemifSampler final : public Component {
 public:
  MemifSampler() : Component("unis_memif") {}
  ~MemifSampler() override { Halt(); }

  // Only inside Do(), or before it runs. `region` outlives the sampler, or is watched anew: counts
  // go on from where they were.
  void Watch(LinkIndex to_server, const MemifRegion& region) {
    for (const auto& [link, direction] : {std::pair{to_server, MemifDirection::kToServer},
                                          {to_server + 1, MemifDirection::kToClient}}) {
      const auto [at, fresh] = progress_.try_emplace(link, region, direction);
      if (!fresh) at->second.Follow(region, direction);
    }
  }
  // The region of a memif goes; counts stay.
  void Leave(LinkIndex to_server) {
    for (const LinkIndex link : {to_server, to_server + 1})
      if (const auto found = progress_.find(link); found != progress_.end()) found->second.Leave();
  }
  // Links have other numbers now; those that `now_at` gives none for are gone.
  template <typename NowAt>
  void Renumber(const NowAt& now_at) {
    std::map<LinkIndex, MemifProgress> renumbered;
    while (!progress_.empty()) {
      auto node = progress_.extract(progress_.begin());
      const std::optional<LinkIndex> at = now_at(node.key());
      if (!at) continue;
      node.key() = *at;
      renumbered.insert(std::move(node));
    }
    progress_ = std::move(renumbered);
  }
  // As last sampled; null: the link is no memif, or not found yet. Read from other threads: each
  // count is one number that only grows.
  const MemifProgress* progress(LinkIndex link) const {
    const auto found = progress_.find(link);
    return found == progress_.end() ? nullptr : &found->second;
  }

 private:
  std::uint32_t Iterate() noexcept override {
    for (auto& [link, progress] : progress_) progress.Sample();
    return 0;
  }

  std::map<LinkIndex, MemifProgress> progress_;
};

}  // namespace unis
