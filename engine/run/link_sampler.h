// Counts what links carry of which nobody tells: links outside the engine's DPDK group, whose
// counters are short or move only when somebody looks, and rings of others. A part of the engine,
// for the deployments that have such links.
#pragma once

#include <rte_cycles.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "engine/monitor/link_progress.h"
#include "engine/platform/component.h"
#include "engine/platform/links/link.h"
#include "engine/scheduler/components.h"

namespace unis {

class LinkSampler final : public Component {
 public:
  // Between two looks at a link that looks disturb, while packets wait there. Without a pause the
  // median latency of four functions on packet sockets was 8 % higher at half load.
  static constexpr std::int64_t kPauseUs = 20;

  // `outsiders`: programs that are not scheduled may put packets into the links at any time.
  explicit LinkSampler(bool outsiders = false) : Component("unis_links"), outsiders_(outsiders) {}
  ~LinkSampler() override { Halt(); }

  // Only inside Do(), or before it runs. What the direction of `link` reads stays till Leave() or
  // another Watch() of the same number: counts go on from where they were.
  void Watch(LinkIndex number, Link& link, unsigned direction) {
    const Occupancy occupancy = link.occupancy(direction);
    const auto [at, fresh] = links_.try_emplace(number, &link, direction, occupancy);
    if (fresh) return;
    at->second.link = &link;
    at->second.occupancy = occupancy;
    at->second.progress.Follow(occupancy);
  }
  // The memory of a link goes; counts stay.
  void Leave(LinkIndex number) {
    const auto found = links_.find(number);
    if (found == links_.end()) return;
    found->second.link = nullptr;
    found->second.progress.Leave();
  }
  // Links have other numbers now; those that `now_at` gives none for are gone.
  template <typename NowAt>
  void Renumber(const NowAt& now_at) {
    std::map<LinkIndex, Watched> renumbered;
    while (!links_.empty()) {
      auto node = links_.extract(links_.begin());
      const std::optional<LinkIndex> at = now_at(node.key());
      if (!at) continue;
      node.key() = *at;
      renumbered.insert(std::move(node));
    }
    links_ = std::move(renumbered);
  }
  // Counts at `cycles` of the TSC what is due then. Only inside Do(), or before it runs.
  void Sample(std::uint64_t cycles) noexcept {
    for (auto& [number, watched] : links_) {
      if (!Due(watched, cycles)) continue;
      if (watched.link != nullptr) watched.link->Look(watched.direction);
      watched.looked = cycles;
      watched.progress.Sample();
    }
  }
  // As last sampled; null: others tell of that link, or it is not found yet. Read from other
  // threads: each count is one number that only grows.
  const LinkProgress* progress(LinkIndex link) const {
    const auto found = links_.find(link);
    return found == links_.end() ? nullptr : &found->second.progress;
  }

 private:
  std::uint32_t Iterate() noexcept override {
    Sample(rte_rdtsc());
    return 0;
  }
  std::int64_t IdleNs() noexcept override {
    if (outsiders_) return 0;
    for (const auto& [number, watched] : links_)
      if (watched.link != nullptr && watched.link->counts_by_looks()) return 0;
    return LcoreNap::kUntilGiven;
  }

  struct Watched {
    Watched(Link* of, unsigned towards, const Occupancy& reads)
        : link(of), direction(towards), occupancy(reads), progress(reads) {}
    Link* link;  // null: it has gone
    unsigned direction;
    Occupancy occupancy;
    LinkProgress progress;
    std::uint64_t looked = 0;  // TSC
  };

  // The first packet of an empty link is seen at once: its function may sleep.
  bool Due(const Watched& watched, std::uint64_t cycles) const noexcept {
    return watched.link == nullptr || !watched.link->looks_disturb() ||
           watched.occupancy.Packets() == 0 || cycles - watched.looked >= pause_;
  }

  const bool outsiders_;
  const std::uint64_t pause_ = rte_get_tsc_hz() / 1'000'000 * kPauseUs;
  std::map<LinkIndex, Watched> links_;
};

}  // namespace unis
