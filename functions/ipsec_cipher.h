// AES-GCM in the calling thread, by Intel's Multi-Buffer library: what DPDK's driver
// crypto_aesni_gcm is made of, without the driver.
//
// Not the driver, for a secondary process can make no crypto device: what the processes of a group
// share of device N is in a memzone that only the primary makes, so the driver's probe ends in
// rte_cryptodev_pmd_create ("Failed to allocate crypto device"), crypto_openssl's too; and the
// primary of a chain on rings is the engine. Were the device the engine's, keys would lie in the
// sessions' pool, in memory that every function of the run can read; here they are on the process's
// own heap.
#pragma once

#include <intel-ipsec-mb.h>

#include <cstdint>
#include <memory>

#include "functions/common/result.h"
#include "functions/ipsec_policy.h"

namespace unis::functions {

// A key of AES, expanded, with its powers for GHASH: some 2 kB.
struct GcmKey {
  alignas(64) gcm_key_data data;  // as its code expects
  std::uint32_t length;           // bytes of AES: 16 or 32
};

inline constexpr std::uint32_t kTagBytes = 16;

// One message, encrypted where it lies.
struct GcmMessage {
  std::uint8_t* data;
  std::uint64_t length;
  const std::uint8_t* nonce;  // 12 bytes
  const std::uint8_t* aad;    // authenticated and not encrypted
  std::uint64_t aad_length;
  std::uint8_t* tag;  // kTagBytes are written there
};

class GcmCipher {
 public:
  // Chooses the code for this processor.
  static Result<GcmCipher> Create();

  void Expand(const AssociationKey& from, GcmKey& to) const;
  void Encrypt(const GcmKey& key, const GcmMessage& message);

 private:
  struct FreeManager {
    void operator()(IMB_MGR* manager) const { free_mb_mgr(manager); }
  };
  using Manager = std::unique_ptr<IMB_MGR, FreeManager>;

  explicit GcmCipher(Manager manager) : manager_(std::move(manager)) {}

  Manager manager_;
  gcm_context_data context_{};
};

}  // namespace unis::functions
