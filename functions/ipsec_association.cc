#include "functions/ipsec_association.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <rte_errno.h>
#include <rte_prefetch.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <new>

#include "functions/common/checksum.h"
#include "functions/common/headers.h"

namespace unis::functions {
namespace {

constexpr std::uint8_t kOuterTtl = 64, kIpInIp = 4;
constexpr std::uint16_t kDontFragment = 0x4000;
constexpr std::uint32_t kAad = 8, kAadExtended = 12;  // bytes: SPI and sequence number
constexpr std::size_t kLongestL2 = kEtherHeader + kMaxVlanTags * kVlanTag;

// librte_ipsec's nonce in an operation, RFC 4106 section 4, with AES's counter behind it.
struct Nonce {
  std::uint8_t salt[kGcmSalt];
  std::uint8_t vector[kVector];
  std::uint8_t counter[4];
};

// An operation as a pool of them would have it: DPDK's two parts and the nonce, one after the
// other.
struct alignas(RTE_CACHE_LINE_SIZE) Operation {
  std::byte operation[sizeof(rte_crypto_op)];
  rte_crypto_sym_op symmetric;
  Nonce nonce;

  rte_crypto_op* get() { return reinterpret_cast<rte_crypto_op*>(operation); }
};
static_assert(offsetof(Operation, symmetric) == sizeof(rte_crypto_op), "as DPDK finds it");

std::array<std::uint8_t, kIpv4MinHeader> OuterHeader(const AssociationConfig& config) {
  std::array<std::uint8_t, kIpv4MinHeader> header{};
  header[0] = 0x45;
  header[kIpv4TtlAt] = kOuterTtl;
  header[kIpv4ProtocolAt] = kEsp;
  StoreBe32(&header[kIpv4SourceAt], config.from);
  StoreBe32(&header[kIpv4DestinationAt], config.to);
  return header;
}

rte_crypto_sym_xform Transform(const AssociationConfig& config, std::uint32_t aad_length) {
  rte_crypto_sym_xform transform = {};
  transform.type = RTE_CRYPTO_SYM_XFORM_AEAD;
  transform.aead.op = RTE_CRYPTO_AEAD_OP_ENCRYPT;
  transform.aead.algo = RTE_CRYPTO_AEAD_AES_GCM;
  transform.aead.key.data = config.key.key.data();
  transform.aead.key.length = static_cast<std::uint16_t>(config.key.key_length);
  transform.aead.iv.offset = offsetof(Operation, nonce);
  transform.aead.iv.length = kGcmSalt + kVector;
  transform.aead.digest_length = kTagBytes;
  transform.aead.aad_length = static_cast<std::uint16_t>(aad_length);
  return transform;
}

rte_ipsec_sa_prm Parameters(const AssociationConfig& config, std::uint64_t sequence) {
  rte_ipsec_sa_prm parameters = {};
  rte_security_ipsec_xform& ipsec = parameters.ipsec_xform;
  ipsec.spi = config.spi;
  std::memcpy(&ipsec.salt, config.key.salt.data(), kGcmSalt);
  ipsec.options.esn = config.extended_sequence;
  // DSCP and ECN of the inner header (RFC 4301, section 5.1.2.1).
  ipsec.options.copy_dscp = 1;
  ipsec.options.ecn = 1;
  ipsec.direction = RTE_SECURITY_IPSEC_SA_DIR_EGRESS;
  ipsec.proto = RTE_SECURITY_IPSEC_SA_PROTO_ESP;
  ipsec.mode = RTE_SECURITY_IPSEC_SA_MODE_TUNNEL;
  ipsec.tunnel.type = RTE_SECURITY_IPSEC_TUNNEL_IPV4;
  ipsec.esn.value = sequence;
  return parameters;
}

}  // namespace

Result<OutboundAssociation> OutboundAssociation::Create(const AssociationConfig& config,
                                                        const GcmCipher& cipher,
                                                        std::uint64_t first_nonce,
                                                        std::uint64_t sequence) {
  auto state = std::make_unique<State>();
  state->nonce = first_nonce;
  state->aad_length = config.extended_sequence ? kAadExtended : kAad;
  cipher.Expand(config.key, state->crypto.key);

  const auto header = OuterHeader(config);
  rte_crypto_sym_xform transform = Transform(config, state->aad_length);
  rte_ipsec_sa_prm parameters = Parameters(config, sequence);
  parameters.crypto_xform = &transform;
  parameters.tun.hdr = header.data();
  parameters.tun.hdr_len = kIpv4MinHeader;
  parameters.tun.next_proto = kIpInIp;

  const auto error = [&config](int status) {
    return Error{
        fmt::format("librte_ipsec does not take SPI {}: {}", config.spi, rte_strerror(-status))};
  };
  const int size = rte_ipsec_sa_size(&parameters);
  if (size < 0) return error(size);
  const auto bytes = RTE_ALIGN_CEIL(static_cast<std::uint32_t>(size), RTE_CACHE_LINE_SIZE);
  Memory memory(std::aligned_alloc(RTE_CACHE_LINE_SIZE, bytes));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory.get(), 0, bytes);
  state->session.sa = static_cast<rte_ipsec_sa*>(memory.get());
  int status = rte_ipsec_sa_init(state->session.sa, &parameters, bytes);
  if (status < 0) return error(status);
  state->session.type = RTE_SECURITY_ACTION_TYPE_NONE;
  state->session.crypto.ses = reinterpret_cast<rte_cryptodev_sym_session*>(&state->crypto);
  status = rte_ipsec_session_prepare(&state->session);
  if (status < 0) return error(status);
  return OutboundAssociation(std::move(state), std::move(memory));
}

void OutboundAssociation::Prefetch() const {
  rte_prefetch0(&state_->session);
  rte_prefetch0(&state_->crypto.key);
  rte_prefetch0(association_.get());
}

OutboundAssociation::Outcome OutboundAssociation::Protect(rte_mbuf* packet, GcmCipher& cipher) {
  Operation operation;
  rte_crypto_op* one = operation.get();
  if (rte_ipsec_pkt_crypto_prepare(&state_->session, &packet, &one, 1) != 1) {
    return rte_errno == EOVERFLOW ? Outcome::kExhausted : Outcome::kNoRoom;
  }
  std::uint8_t* const outer = Frame(packet);
  const std::uint64_t vector = __builtin_bswap64(state_->nonce++);
  std::memcpy(operation.nonce.vector, &vector, kVector);
  std::memcpy(outer + kIpv4MinHeader + kEspHeader, &vector, kVector);
  const auto& aead = operation.symmetric.aead;
  cipher.Encrypt(state_->crypto.key,
                 {outer + aead.data.offset, aead.data.length, operation.nonce.salt, aead.aad.data,
                  state_->aad_length, aead.digest.data});
  if (rte_ipsec_pkt_process(&state_->session, &packet, 1) != 1) return Outcome::kNoRoom;
  return Outcome::kSealed;
}

OutboundAssociation::Outcome OutboundAssociation::Seal(rte_mbuf* packet, std::uint16_t l3,
                                                       GcmCipher& cipher) {
  if (rte_pktmbuf_headroom(packet) < kHeadBytes) return Outcome::kNoRoom;
  std::uint8_t l2[kLongestL2];
  std::memcpy(l2, Frame(packet), l3);
  rte_pktmbuf_adj(packet, l3);
  const std::uint16_t dont_fragment = LoadBe16(Frame(packet) + kIpv4FragmentAt) & kDontFragment;

  const std::uint64_t offload = packet->tx_offload;  // librte_ipsec has its own idea of it
  packet->tx_offload = 0;
  // What a NIC said of it; librte_ipsec takes it for a failure of the encryption.
  packet->ol_flags &= ~RTE_MBUF_F_RX_SEC_OFFLOAD_FAILED;
  const Outcome outcome = Protect(packet, cipher);
  packet->tx_offload = offload;
  if (outcome != Outcome::kSealed) return outcome;

  std::uint8_t* const ip = Frame(packet);
  StoreBe16(ip + kIpv4FragmentAt, dont_fragment);
  StoreBe16(ip + kIpv4ChecksumAt, 0);
  StoreBe16(ip + kIpv4ChecksumAt, static_cast<std::uint16_t>(~OnesSum({ip, kIpv4MinHeader})));
  packet->packet_type = 0;  // what a NIC said of it no longer holds
  std::memcpy(rte_pktmbuf_prepend(packet, l3), l2, l3);
  return Outcome::kSealed;
}

}  // namespace unis::functions
