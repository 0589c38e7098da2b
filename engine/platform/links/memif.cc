#include "engine/platform/links/memif.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

namespace unis {
namespace {

absl::Status Check(const MemifConfig& config) {
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
  if (config.shape.queues == 0 || config.shape.queues > MemifShape::kMaxQueues) {
    return absl::InvalidArgumentError(
        fmt::format("link {}: a memif has 1 to {} queues each way here, not {}", config.name,
                    MemifShape::kMaxQueues, config.shape.queues));
  }
  return absl::OkStatus();
}

}  // namespace

std::string MemifConfig::Device(const std::string& device_name, MemifRole role) const {
  return fmt::format("{},role={},id={},socket={},socket-abstract=no,rsize={},bsize={}", device_name,
                     role == MemifRole::kServer ? "server" : "client", id, socket,
                     std::countr_zero(shape.slots), shape.buffer_bytes);
}

absl::StatusOr<Memif> Memif::Create(MemifConfig config, bool served, rte_mempool* pool) {
  if (auto status = Check(config); !status.ok()) return status;
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

}  // namespace unis
