// What a memif's server answers to each message of its client, till the two are connected.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/base/unique_fd.h"
#include "engine/platform/links/memif_memory.h"
#include "engine/platform/links/memif_message.h"

namespace unis {

class MemifHandshake {
 public:
  MemifHandshake(std::uint32_t id, const MemifShape& shape) : id_(id), shape_(shape) {}

  MemifMessage Hello() const;
  // The answer; a kDisconnect says why the client is sent away, and none that it goes itself. The
  // client names one region, the rings to us and those to it, in this order.
  std::optional<MemifMessage> Answer(const MemifMessage& message, const UniqueFd& file);
  // Of the client, once it is connected; then no more.
  std::unique_ptr<MemifMemory> TakeMemory();

 private:
  enum class Expects : std::uint8_t { kInit, kRegion, kRing, kConnect, kNothing };

  std::string Check(const MemifMessage& message, const UniqueFd& file);  // empty: right
  std::string CheckInit(const MemifMessage::Init& init) const;
  std::string CheckRegion(const MemifMessage::Region& region, const UniqueFd& file);
  std::string CheckRing(const MemifMessage::Ring& ring) const;

  const std::uint32_t id_;
  const MemifShape shape_;
  Expects expects_ = Expects::kInit;
  std::uint32_t rings_ = 0;  // that were named
  std::unique_ptr<MemifMemory> memory_;
};

}  // namespace unis
