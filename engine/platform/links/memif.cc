#include "engine/platform/links/memif.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "engine/platform/links/kinds.h"
#include "engine/platform/packet_memory.h"

namespace unis {
namespace {

absl::Status CheckShape(const MemifConfig& config) {
  if (!std::has_single_bit(config.shape.slots) || config.shape.slots < 2 ||
      config.shape.slots > MemifShape::kMaxSlots) {
    return absl::InvalidArgumentError(
        fmt::format("link {}: a memif has a power of two of slots, at most {}, not {}", config.name,
                    MemifShape::kMaxSlots, config.shape.slots));
  }
  if (config.shape.buffer_bytes == 0 || config.shape.buffer_bytes > MemifShape::kMaxBufferBytes) {
    return absl::InvalidArgumentError(
        fmt::format("link {}: a memif has buffers of at most {} bytes, not {}", config.name,
                    MemifShape::kMaxBufferBytes, config.shape.buffer_bytes));
  }
  for (const std::uint32_t queues : {config.shape.to_server, config.shape.to_client}) {
    if (queues > 0 && queues <= MemifShape::kMaxQueues) continue;
    return absl::InvalidArgumentError(
        fmt::format("link {}: a memif has 1 to {} queues each way here, not {}", config.name,
                    MemifShape::kMaxQueues, queues));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Memif> Memif::Create(MemifConfig config, bool served, rte_mempool* pool) {
  if (auto status = CheckShape(config); !status.ok()) return status;
  Memif memif(std::move(config));
  if (!served) return memif;
  const MemifConfig& made = memif.config_;
  auto port = MemifServer::Listen(made.socket, made.id, made.shape, pool);
  if (!port.ok())
    return absl::Status(port.status().code(), fmt::format("link {}: {}", made.name,
                                                          std::string(port.status().message())));
  memif.port_ = *std::move(port);
  return memif;
}

absl::StatusOr<MemifRegion> Memif::Find(pid_t pid) const {
  auto region = MemifRegion::Find(pid, config_.shape, config_.inode);
  if (region.ok()) return region;
  return absl::Status(region.status().code(), fmt::format("link {}: {}", config_.name,
                                                          std::string(region.status().message())));
}

Occupancy Memif::occupancy(MemifDirection direction) const {
  return region_ ? region_->occupancy(direction) : Occupancy::Unreadable(config_.shape.slots);
}

namespace {

struct FoundRegion final : Link::Found {
  explicit FoundRegion(MemifRegion found) : region(std::move(found)) {}
  MemifRegion region;
};

class MemifLinks final : public LinkKind {
 public:
  std::string name() const override { return "memif"; }
  bool in_group() const override { return false; }
  v1::LinkConfig::SettingsCase settings() const override { return v1::LinkConfig::kMemif; }
  bool engine_has_end(const v1::LinkConfig& config) const override {
    return config.memif().engine_end() == v1::MEMIF_END_SERVER;
  }
  std::uint32_t packets(const v1::LinkConfig&) const override { return 2 * kBurst; }
  absl::Status Check(const v1::LinkConfig& config, bool foreign) const override {
    if (!config.has_slots()) return WrongLink(config, "has no slots");
    if (foreign && config.memif().inode() == 0)
      return WrongLink(config, "is foreign and has no inode");
    if (foreign && engine_has_end(config))
      return WrongLink(config, "is foreign, so the engine has no end of it");
    if (!foreign && config.memif().inode() != 0)
      return WrongLink(config, "has an inode, which only foreign memifs have");
    if (!foreign && config.memif().socket().empty()) return WrongLink(config, "has no socket");
    return CheckShape(ConfigOf(config));
  }
  absl::Status CheckBeside(const v1::LinkConfig& config,
                           const v1::LinkConfig& other) const override {
    const bool distinct = config.memif().buffer_bytes() != other.memif().buffer_bytes() ||
                          config.memif().inode() != other.memif().inode();
    if (distinct) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("links {} and {} have buffers of {} bytes both; give each memif its own size, "
                    "by which its memory is found",
                    other.name(), config.name(), config.memif().buffer_bytes()));
  }
  absl::StatusOr<std::unique_ptr<Link>> Make(const v1::LinkConfig& config, bool,
                                             rte_mempool* pool) const override {
    auto memif = Memif::Create(ConfigOf(config), engine_has_end(config), pool);
    if (!memif.ok()) return memif.status();
    return std::make_unique<MemifLink>(*std::move(memif));
  }

 private:
  static MemifConfig ConfigOf(const v1::LinkConfig& link) {
    return {.name = link.name(),
            .socket = link.memif().socket(),
            .id = link.memif().id(),
            .shape = {.slots = link.slots(),
                      .buffer_bytes = link.memif().buffer_bytes(),
                      .to_server = link.memif().queues_to_server(),
                      .to_client = link.memif().queues_to_client()},
            .inode = link.memif().inode()};
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Link::Found>> MemifLink::Find(pid_t pid, unsigned) const {
  if (memif_.located() && memif_.region().HeldBy(pid)) return nullptr;
  auto region = memif_.Find(pid);
  if (!region.ok()) return region.status();
  return std::make_unique<FoundRegion>(*std::move(region));
}

void MemifLink::Take(std::unique_ptr<Found> found) {
  memif_.Take(std::move(static_cast<FoundRegion&>(*found).region));
}

const LinkKind& MemifKind() {
  static const MemifLinks kind;
  return kind;
}

}  // namespace unis
