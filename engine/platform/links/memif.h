// A link that is a shared memory interface between two DPDK groups: both ways, by copying. The
// engine has one of its ends, or none.
#pragma once

#include <absl/status/statusor.h>
#include <rte_mempool.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/monitor/occupancy.h"
#include "engine/platform/links/link.h"
#include "engine/platform/links/memif_region.h"
#include "engine/platform/links/memif_server.h"

namespace unis {

struct MemifConfig {
  std::string name;
  std::string socket;  // path; the server's program makes it, the client's needs it to start
  std::uint32_t id = 0;
  MemifShape shape;
  ino_t inode = 0;  // of its memory, where others made it; 0: its shape tells it from others
};

class Memif {
 public:
  // `served`: the engine has an end, the server; it listens from now on.
  static absl::StatusOr<Memif> Create(MemifConfig config, bool served, rte_mempool* pool);

  const MemifConfig& config() const { return config_; }
  MemifServer* port() const { return port_.get(); }  // the engine's end; null: it has none

  // The shared memory among the open files of a program that has an end.
  absl::StatusOr<MemifRegion> Find(pid_t pid) const;
  // The links are read there from now on; until then they cannot be read. Again after a
  // reconnection: what link() gave before is void then, and nobody may read it any more.
  void Take(MemifRegion region) {
    Forget();
    region_.emplace(std::move(region));
  }
  // One of its programs is gone: until it is found again nobody can tell what it carries. What
  // link() gave before is void.
  void Forget() {
    if (region_) replaced_.push_back(*std::exchange(region_, std::nullopt));
  }
  // Nobody reads any more what link() gave before Take() or Forget().
  void DropReplaced() { replaced_.clear(); }
  bool located() const { return region_.has_value(); }
  const MemifRegion& region() const { return *region_; }  // only where located
  Occupancy occupancy(MemifDirection direction) const;

 private:
  explicit Memif(MemifConfig config) : config_(std::move(config)) {}

  MemifConfig config_;
  std::unique_ptr<MemifServer> port_;
  std::optional<MemifRegion> region_;
  std::vector<MemifRegion> replaced_;
};

class MemifLink final : public Link {
 public:
  explicit MemifLink(Memif memif) : memif_(std::move(memif)) {}
  const Memif& memif() const { return memif_; }

  LinkEnd* end() noexcept override { return memif_.port(); }
  Occupancy occupancy(unsigned direction) const override {
    return memif_.occupancy(direction == 0 ? MemifDirection::kToServer : MemifDirection::kToClient);
  }
  absl::StatusOr<std::unique_ptr<Found>> Find(pid_t pid, unsigned end) const override;
  void Take(std::unique_ptr<Found> found) override;
  void Forget(unsigned) override { memif_.Forget(); }
  void DropReplaced() override { memif_.DropReplaced(); }

 private:
  Memif memif_;
};

}  // namespace unis
