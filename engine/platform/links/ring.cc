#include "engine/platform/links/ring.h"

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_mbuf.h>

#include "engine/platform/links/kinds.h"

namespace unis {

absl::StatusOr<Ring> Ring::Create(const std::string& name, std::uint32_t slots) {
  rte_ring* ring =
      rte_ring_create(name.c_str(), slots, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
  if (ring != nullptr) return Ring(ring, {.ours = true});
  return absl::ResourceExhaustedError(
      fmt::format("cannot make ring {} of {} slots: {}", name, slots, rte_strerror(rte_errno)));
}

absl::StatusOr<Ring> Ring::Lookup(const std::string& name) {
  rte_ring* ring = rte_ring_lookup(name.c_str());
  if (ring != nullptr) return Ring(ring, {.ours = false});
  return absl::InvalidArgumentError(
      fmt::format("there is no ring {} in this DPDK group; its programs name their rings, and "
                  "make them before they are attached",
                  name));
}

std::uint32_t Ring::Empty() noexcept {
  std::uint32_t freed = 0;
  for (void* packet = nullptr; rte_ring_sc_dequeue(ring_.get(), &packet) == 0; ++freed) {
    Acquired(&kOtherProcesses);
    rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
  }
  return freed;
}

namespace {

class RingLinks final : public LinkKind {
 public:
  std::string name() const override { return "ring"; }
  bool in_group() const override { return true; }
  v1::LinkConfig::SettingsCase settings() const override {
    return v1::LinkConfig::SETTINGS_NOT_SET;
  }
  bool engine_has_end(const v1::LinkConfig&) const override { return true; }
  std::uint32_t packets(const v1::LinkConfig& config) const override { return config.slots(); }
  absl::Status Check(const v1::LinkConfig& config, bool foreign) const override {
    if (config.has_slots() || foreign) return absl::OkStatus();
    return WrongLink(config, "has no slots");
  }
  absl::StatusOr<std::unique_ptr<Link>> Make(const v1::LinkConfig& config, bool foreign,
                                             rte_mempool*) const override {
    auto ring = foreign ? Ring::Lookup(config.name()) : Ring::Create(config.name(), config.slots());
    if (!ring.ok()) return ring.status();
    return std::make_unique<RingLink>(*std::move(ring), foreign);
  }
};

}  // namespace

const LinkKind& RingKind() {
  static const RingLinks kind;
  return kind;
}

}  // namespace unis
