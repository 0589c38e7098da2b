// Flow classifier (section 4.1): steers packets into chains by 5-tuple prefix or port.
#pragma once

#include <absl/status/statusor.h>
#include <rte_acl.h>
#include <rte_mbuf.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/platform/frames.h"

namespace unis {

class Classifier {
 public:
  static constexpr std::int32_t kNone = -1;

  // One list of matches for each chain. A packet belongs to the first chain that it matches; a
  // chain without matches takes every packet that reaches it, IPv4 or not.
  static absl::StatusOr<Classifier> Create(const std::vector<std::vector<FlowMatch>>& chains);

  // The chain of each packet, or kNone. At most kBurst packets.
  void Classify(std::span<rte_mbuf* const> packets, std::span<std::int32_t> chains) const noexcept;

 private:
  struct AclDeleter {
    void operator()(rte_acl_ctx* acl) const noexcept { rte_acl_free(acl); }
  };

  std::unique_ptr<rte_acl_ctx, AclDeleter> acl_;  // null: no rules, everything goes to catch_all_
  std::int32_t catch_all_ = kNone;
};

// The same for all packets of a flow one way: by addresses, protocol and ports of IPv4, by the
// addresses of IPv6. 32 bits.
std::uint64_t FlowHash(const rte_mbuf* packet) noexcept;

}  // namespace unis
