#include "models/cache/neighbours.h"

#include <algorithm>

#include "models/cache/core.h"
#include "models/cache/masked_cache.h"

namespace unis::cache {
namespace {

// Processes have the same addresses; their pages lie elsewhere. A multiple of a page's 64 lines, so
// that what the recorder left out stays left out rightly; odd pages, so that sets are mixed.
constexpr Line kApart = 0x9E3779B1u * Line{64};

// The `ways` highest of a cache's; up to 64.
std::uint64_t HighestWays(std::uint32_t ways, std::uint32_t of) {
  return ways == 0 ? 0 : ~std::uint64_t{0} >> (64 - ways) << (of - ways);
}

class Player {
 public:
  Player(const Neighbour& neighbour, const Machine& machine, std::size_t number)
      : neighbour_(neighbour),
        machine_(machine),
        number_(number),
        core_(machine.l1, machine.l2),
        place_(neighbour.recording->begin()),
        again_(place_) {}

  double due() const { return due_; }  // microseconds
  std::uint64_t passed() const { return passed_; }
  bool warm() const { return passed_ >= neighbour_.warm_up; }
  const NeighbourCounts& counts() const { return counts_; }
  void Forget() { counts_ = {}; }

  void PlayBurst(MaskedCache& llc) {
    for (;;) {
      if (neighbour_.recording->AtEnd(place_)) place_ = again_;
      const Event event = neighbour_.recording->Next(place_);
      if (event.kind != Event::Kind::kBurstEnd) {
        Take(event, llc);
        continue;
      }
      const bool was_warm = warm();
      passed_ += event.packets;
      counts_.packets += event.packets;
      counts_.instructions += event.instructions;
      due_ += static_cast<double>(event.packets) / neighbour_.mpps;
      if (!was_warm && warm() && !neighbour_.recording->AtEnd(place_)) again_ = place_;
      return;
    }
  }

 private:
  enum class Found { kOwnCaches, kLastLevel, kNowhere };

  void Take(const Event& event, MaskedCache& llc) {
    const Line line = event.line + number_ * kApart;
    if (event.kind != Event::Kind::kArrival) {
      const Found found = Access(line, event.kind == Event::Kind::kStore, llc);
      counts_.llc_references += found != Found::kOwnCaches;
      counts_.misses += found == Found::kNowhere;
      return;
    }
    const std::uint64_t io = HighestWays(machine_.io_ways, machine_.llc.ways);
    for (std::uint64_t i = 0; i < event.frame_lines; ++i) {
      const Line written = line + event.frame_at + i;
      core_.Invalidate(written);
      if (io == 0) {
        ++counts_.device_spills;
        llc.Invalidate(written);
      } else {
        llc.DeviceWrites(written, io, number_);
      }
    }
    counts_.driver_misses += Access(line, true, llc) == Found::kNowhere;
  }

  Found Access(Line line, bool store, MaskedCache& llc) {
    const auto level =
        core_.Access(line, store, [&](Line victim) { llc.WriteBack(victim, number_); });
    if (level != Core::Level::kBelow) return Found::kOwnCaches;
    return llc.Access(line, neighbour_.mask, number_) ? Found::kLastLevel : Found::kNowhere;
  }

  const Neighbour& neighbour_;
  const Machine& machine_;
  std::size_t number_;
  Core core_;
  Recording::Place place_, again_;
  double due_ = 0;
  std::uint64_t passed_ = 0;
  NeighbourCounts counts_;
};

}  // namespace

std::vector<NeighbourCounts> PlayNeighbours(std::span<const Neighbour> neighbours,
                                            const Machine& machine, std::uint64_t packets) {
  MaskedCache llc(machine.llc, neighbours.size());
  std::vector<Player> players;
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    players.emplace_back(neighbours[i], machine, i);
  }
  const auto play_until = [&](auto&& done) {
    while (!std::ranges::all_of(players, done)) {
      std::ranges::min_element(players, {}, &Player::due)->PlayBurst(llc);
    }
  };
  play_until(&Player::warm);
  for (Player& player : players) player.Forget();
  const auto written_before = llc.written_back(), spilled_before = llc.device_spills();
  play_until([&](const Player& player) { return player.counts().packets >= packets; });
  const auto occupancy = llc.Occupancy();
  std::vector<NeighbourCounts> counts;
  for (std::size_t i = 0; i < players.size(); ++i) {
    counts.push_back(players[i].counts());
    counts[i].written_back = llc.written_back()[i] - written_before[i];
    counts[i].device_spills += llc.device_spills()[i] - spilled_before[i];
    counts[i].occupancy = occupancy[i];
  }
  return counts;
}

}  // namespace unis::cache
