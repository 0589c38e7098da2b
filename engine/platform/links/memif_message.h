// What the two programs of a memif say to one another on its control socket (memif protocol 2.0, as
// DPDK's net_memif speaks it): messages of one size, each answered before the next.
#pragma once

#include <cstdint>

namespace unis {

enum class MemifMessageType : std::uint16_t {
  kAck = 1,
  kHello,
  kInit,
  kAddRegion,
  kAddRing,
  kConnect,
  kConnected,
  kDisconnect,
};

inline constexpr std::uint16_t kMemifVersion = 0x0200;
inline constexpr std::uint16_t kMemifToServer = 1;  // flag of a ring

#pragma pack(push, 1)

struct MemifMessage {
  // The server's first word: what it takes. The highest numbers, not counts.
  struct Hello {
    char name[32];
    std::uint16_t min_version, max_version;
    std::uint16_t max_region;
    std::uint16_t max_to_client_ring, max_to_server_ring;
    std::uint8_t max_log2_slots;
  };
  struct Init {
    std::uint16_t version;
    std::uint32_t id;
    std::uint8_t mode;  // 0: Ethernet
    char secret[24];
    char name[32];
  };
  struct Region {  // with a descriptor
    std::uint16_t index;
    std::uint64_t bytes;
  };
  struct Ring {  // with a descriptor, for interrupts
    std::uint16_t flags;
    std::uint16_t index;
    std::uint16_t region;
    std::uint32_t offset;
    std::uint8_t log2_slots;
    std::uint16_t private_header_bytes;
  };
  struct Connect {
    char interface[32];
  };
  struct Disconnect {
    std::uint32_t code;
    char reason[96];
  };

  MemifMessageType type;
  union {
    Hello hello;
    Init init;
    Region region;
    Ring ring;
    Connect connect;
    Disconnect disconnect;
    char bytes[126];
  };
};

#pragma pack(pop)

static_assert(sizeof(MemifMessage) == 128);

}  // namespace unis
