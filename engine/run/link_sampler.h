// Counts what links carry of which nobody tells: memifs between two functions, whose positions have
// 16 bits, so that somebody has to look often enough, and rings of others. A part of the engine,
// for the deployments that have such links.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "engine/monitor/link_progress.h"
#include "engine/platform/component.h"
#include "engine/scheduler/components.h"

namespace unis {

class LinkSampler final : public Component {
 public:
  LinkSampler() : Component("unis_links") {}
  ~LinkSampler() override { Halt(); }

  // Only inside Do(), or before it runs. What `link` reads stays till Leave() or another Watch() of
  // the same number: counts go on from where they were.
  void Watch(LinkIndex number, const Occupancy& link) {
    const auto [at, fresh] = links_.try_emplace(number, link);
    if (!fresh) at->second.Follow(link);
  }
  // The memory of a link goes; counts stay.
  void Leave(LinkIndex number) {
    if (const auto found = links_.find(number); found != links_.end()) found->second.Leave();
  }
  // Links have other numbers now; those that `now_at` gives none for are gone.
  template <typename NowAt>
  void Renumber(const NowAt& now_at) {
    std::map<LinkIndex, LinkProgress> renumbered;
    while (!links_.empty()) {
      auto node = links_.extract(links_.begin());
      const std::optional<LinkIndex> at = now_at(node.key());
      if (!at) continue;
      node.key() = *at;
      renumbered.insert(std::move(node));
    }
    links_ = std::move(renumbered);
  }
  // Counts now, for whoever needs it to the microsecond. Only inside Do().
  void Sample() noexcept {
    for (auto& [link, progress] : links_) progress.Sample();
  }
  // As last sampled; null: others tell of that link, or it is not found yet. Read from other
  // threads: each count is one number that only grows.
  const LinkProgress* progress(LinkIndex link) const {
    const auto found = links_.find(link);
    return found == links_.end() ? nullptr : &found->second;
  }

 private:
  std::uint32_t Iterate() noexcept override {
    Sample();
    return 0;
  }

  std::map<LinkIndex, LinkProgress> links_;
};

}  // namespace unis
