#include "functions/ipsec_cipher.h"

#include <fmt/format.h>

namespace unis::functions {
namespace {

constexpr std::uint32_t kAes128 = 16;

}  // namespace

Result<GcmCipher> GcmCipher::Create() {
  Manager manager(alloc_mb_mgr(0));
  if (manager == nullptr) return Error{"no memory for the Multi-Buffer library"};
  IMB_ARCH arch = IMB_ARCH_NONE;
  init_mb_mgr_auto(manager.get(), &arch);
  if (const int error = imb_get_errno(manager.get()); error != 0) {
    return Error{fmt::format("the Multi-Buffer library does not run on this processor: {}",
                             imb_get_strerror(error))};
  }
  return GcmCipher(std::move(manager));
}

void GcmCipher::Expand(const AssociationKey& from, GcmKey& to) const {
  to.length = from.key_length;
  if (from.key_length == kAes128) {
    IMB_AES128_GCM_PRE(manager_.get(), from.key.data(), &to.data);
  } else {
    IMB_AES256_GCM_PRE(manager_.get(), from.key.data(), &to.data);
  }
}

void GcmCipher::Encrypt(const GcmKey& key, const GcmMessage& message) {
  const auto encrypt = key.length == kAes128 ? manager_->gcm128_enc : manager_->gcm256_enc;
  encrypt(&key.data, &context_, message.data, message.data, message.length, message.nonce,
          message.aad, message.aad_length, message.tag, kTagBytes);
}

}  // namespace unis::functions
