#include "engine/platform/links/memif_handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace unis {
namespace {

using Type = MemifMessageType;

template <std::size_t size>
void Write(char (&field)[size], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), size - 1));
}

MemifMessage Of(Type type) {
  MemifMessage message{};
  message.type = type;
  return message;
}

}  // namespace

// As many queues each way as were agreed on: a client with more uses the first.
MemifMessage MemifHandshake::Hello() const {
  MemifMessage message = Of(Type::kHello);
  Write(message.hello.name, "unisd");
  message.hello.min_version = message.hello.max_version = kMemifVersion;
  message.hello.max_to_server_ring = static_cast<std::uint16_t>(shape_.to_server - 1);
  message.hello.max_to_client_ring = static_cast<std::uint16_t>(shape_.to_client - 1);
  message.hello.max_log2_slots = static_cast<std::uint8_t>(std::countr_zero(shape_.slots));
  return message;
}

std::optional<MemifMessage> MemifHandshake::Answer(const MemifMessage& message,
                                                   const UniqueFd& file) {
  if (message.type == Type::kDisconnect) return std::nullopt;
  if (const std::string wrong = Check(message, file); !wrong.empty()) {
    expects_ = Expects::kNothing;
    memory_.reset();
    MemifMessage away = Of(Type::kDisconnect);
    Write(away.disconnect.reason, wrong);
    return away;
  }
  if (message.type != Type::kAddRing || ++rings_ == shape_.Rings())
    expects_ = static_cast<Expects>(static_cast<std::uint8_t>(expects_) + 1);
  if (message.type != Type::kConnect) return Of(Type::kAck);
  MemifMessage connected = Of(Type::kConnected);
  Write(connected.connect.interface, "unisd");
  return connected;
}

std::unique_ptr<MemifMemory> MemifHandshake::TakeMemory() {
  return expects_ == Expects::kNothing ? std::move(memory_) : nullptr;
}

std::string MemifHandshake::Check(const MemifMessage& message, const UniqueFd& file) {
  const bool right[] = {message.type == Type::kInit, message.type == Type::kAddRegion,
                        message.type == Type::kAddRing, message.type == Type::kConnect};
  const auto at = static_cast<std::size_t>(expects_);
  if (at >= std::size(right) || !right[at])
    return fmt::format("a message of type {} is not expected now",
                       static_cast<unsigned>(message.type));
  switch (expects_) {
    case Expects::kInit:
      return CheckInit(message.init);
    case Expects::kRegion:
      return CheckRegion(message.region, file);
    case Expects::kRing:
      return CheckRing(message.ring);
    case Expects::kConnect:
    case Expects::kNothing:
      break;
  }
  return "";
}

std::string MemifHandshake::CheckInit(const MemifMessage::Init& init) const {
  const std::uint16_t version = init.version;
  const std::uint32_t id = init.id;
  if (version != kMemifVersion) return fmt::format("version {:#x}, not 2.0", version);
  if (id != id_) return fmt::format("id {}, not {}", id, id_);
  return init.mode == 0 ? "" : "not in Ethernet mode";
}

std::string MemifHandshake::CheckRegion(const MemifMessage::Region& region, const UniqueFd& file) {
  const std::uint64_t bytes = region.bytes;
  if (region.index != 0 || bytes != shape_.RegionBytes())
    return fmt::format("{} bytes of memory, not {}; other rsize, bsize?", bytes,
                       shape_.RegionBytes());
  if (!file.valid()) return "no descriptor of the memory";
  auto memory = MemifMemory::Map(file, shape_);
  if (!memory.ok()) return std::string(memory.status().message());
  memory_ = std::make_unique<MemifMemory>(*std::move(memory));
  return "";
}

// Where DPDK puts them, and where the monitor looks.
std::string MemifHandshake::CheckRing(const MemifMessage::Ring& ring) const {
  const bool to_server = rings_ < shape_.to_server;
  const bool place = ring.index == (to_server ? rings_ : rings_ - shape_.to_server) &&
                     ring.region == 0 && ring.offset == rings_ * shape_.RingBytes() &&
                     ring.log2_slots == std::countr_zero(shape_.slots);
  const bool direction = ((ring.flags & kMemifToServer) != 0) == to_server;
  return place && direction ? "" : "a ring that is not where it should be, or not of its size";
}

}  // namespace unis
