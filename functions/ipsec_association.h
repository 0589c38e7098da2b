// One outbound security association: ESP in tunnel mode by DPDK's librte_ipsec, AES-GCM as in RFC
// 4106.
//
// librte_ipsec writes headers, padding and sequence numbers and fills in a crypto operation, which
// a crypto device would take ("lookaside none"); here GcmCipher does it at once.
#pragma once

#include <rte_ipsec.h>
#include <rte_mbuf.h>

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "functions/common/headers.h"
#include "functions/common/result.h"
#include "functions/ipsec_cipher.h"
#include "functions/ipsec_policy.h"

namespace unis::functions {

inline constexpr std::uint32_t kEspHeader = 8, kVector = 8;  // bytes; RFC 4303 and 4106

class OutboundAssociation {
 public:
  enum class Outcome : std::uint8_t {
    kSealed,
    kNoRoom,     // in the packet's buffer, or else librte_ipsec does not take it
    kExhausted,  // its sequence numbers: a new key is due
  };
  // In front of the packet: the outer IPv4 header, ESP's and the initialisation vector.
  static constexpr std::uint32_t kHeadBytes = kIpv4MinHeader + kEspHeader + kVector;
  // Bytes that a packet of `inner` bytes gets behind it: padding, its length, next header, tag.
  static constexpr std::uint32_t TailBytes(std::uint32_t inner) {
    return (4 - (inner + 2) % 4) % 4 + 2 + kTagBytes;
  }

  // `first_nonce`: initialisation vectors count from there, apart from the sequence numbers. They
  // must never come twice under one key (RFC 4106, section 2), and a key in a file outlives the
  // process: so whoever creates it passes the time in nanoseconds, which no process counts faster
  // than. `sequence`: the first sequence number to be used; 0 and 1: 1.
  static Result<OutboundAssociation> Create(const AssociationConfig& config,
                                            const GcmCipher& cipher, std::uint64_t first_nonce,
                                            std::uint64_t sequence = 0);

  // Puts the IPv4 packet that begins at `l3` and fills the rest of the only buffer into the tunnel.
  // What is before it, the frame's header, stays before it. After a failure the packet is good for
  // nothing.
  Outcome Seal(rte_mbuf* packet, std::uint16_t l3, GcmCipher& cipher);

  // Fetches what Seal() reads first.
  void Prefetch() const;

 private:
  // The session of librte_ipsec's operations, which notes something of its own at the beginning.
  struct CryptoSession {
    std::uint64_t opaque = 0;
    GcmKey key;
  };
  struct State {
    rte_ipsec_session session{};
    CryptoSession crypto;
    std::uint64_t nonce = 0;
    std::uint32_t aad_length = 0;
  };
  struct FreeMemory {
    void operator()(void* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<void, FreeMemory>;

  OutboundAssociation(std::unique_ptr<State> state, Memory association)
      : state_(std::move(state)), association_(std::move(association)) {}
  Outcome Protect(rte_mbuf* packet, GcmCipher& cipher);

  std::unique_ptr<State> state_;
  Memory association_;  // librte_ipsec's
};

}  // namespace unis::functions
