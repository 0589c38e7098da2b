// What the two sides of a vhost-user link say to one another on its socket: the frontend, a virtio
// driver, makes the queues and tells the backend where they are.
#pragma once

#include <cstdint>

namespace unis {

enum class VhostRequest : std::uint32_t {
  kGetFeatures = 1,
  kSetFeatures = 2,
  kSetOwner = 3,
  kResetOwner = 4,
  kSetMemTable = 5,  // with a descriptor for each region
  kSetVringNum = 8,
  kSetVringAddr = 9,
  kSetVringBase = 10,
  kGetVringBase = 11,  // and the backend stops there
  kSetVringKick = 12,  // these three with a descriptor
  kSetVringCall = 13,
  kSetVringErr = 14,
  kGetProtocolFeatures = 15,
  kSetProtocolFeatures = 16,
  kGetQueueNum = 17,
  kSetVringEnable = 18,
};

// Features. The driver obeys its program by itself where that asks for promiscuous mode, as many
// programs insist on; it takes this from the device's offer.
inline constexpr std::uint64_t kVirtioPromiscuous = 1ULL << 18;  // VIRTIO_NET_F_CTRL_RX
inline constexpr std::uint64_t kVhostProtocolFeatures = 1ULL << 30;
inline constexpr std::uint64_t kVirtioVersion1 = 1ULL << 32;
inline constexpr std::uint64_t kVirtioInOrder = 1ULL << 35;
// The only one of the protocol's that is asked for here: messages may ask for a reply.
inline constexpr std::uint64_t kVhostReplyAck = 1ULL << 3;
// Flags of a message.
inline constexpr std::uint32_t kVhostVersion = 1, kVhostVersionMask = 3;
inline constexpr std::uint32_t kVhostReply = 1U << 2, kVhostNeedReply = 1U << 3;
inline constexpr std::uint64_t kVhostNoFile = 1ULL << 8;  // beside the number of a queue

inline constexpr std::uint32_t kVhostMostRegions = 8;

#pragma pack(push, 1)

struct VhostMessage {
  struct Vring {
    std::uint32_t index, number;
  };
  struct Address {  // of the frontend's memory, as it has it
    std::uint32_t index, flags;
    std::uint64_t descriptors, used, available, log;
  };
  struct Region {
    std::uint64_t guest;  // where descriptors say that it is
    std::uint64_t bytes;
    std::uint64_t user;  // where the other messages say so
    std::uint64_t offset;
  };
  struct Table {
    std::uint32_t count, padding;
    Region regions[kVhostMostRegions];
  };

  VhostRequest request;
  std::uint32_t flags;
  std::uint32_t bytes;  // of what follows
  union {
    std::uint64_t number;
    Vring vring;
    Address address;
    Table table;
  };
};

#pragma pack(pop)

inline constexpr std::uint32_t kVhostHeaderBytes = 12;
static_assert(sizeof(VhostMessage) == kVhostHeaderBytes + 8 + kVhostMostRegions * 32);

}  // namespace unis
