// When sampled packets enter and leave the chains, told to whoever profiles them
// (ports/unis_ports/passages_shm.h).
#pragma once

#include <absl/status/statusor.h>
#include <rte_cycles.h>
#include <rte_mbuf.h>

#include <memory>
#include <span>

#include "engine/base/unique_fd.h"
#include "ports/unis_ports/sampling.h"

namespace unis {

// The file, among the open ones of the process as long as this lives.
class PassageLog {
 public:
  static absl::StatusOr<std::shared_ptr<PassageLog>> Create();
  ~PassageLog();
  PassageLog(const PassageLog&) = delete;
  PassageLog& operator=(const PassageLog&) = delete;

  unis_passages& shm() noexcept { return *shm_; }

 private:
  PassageLog(UniqueFd file, unis_passages* shm) : file_(std::move(file)), shm_(shm) {}

  UniqueFd file_;
  unis_passages* shm_;
};

// Of one component, and of the thread that runs it. No system call but when it first notes, and no
// allocation.
class PassageWriter {
 public:
  // Null: nobody looks.
  explicit PassageWriter(std::shared_ptr<PassageLog> log) : log_(std::move(log)) {}

  // Whether anybody looks; 0: no. One load, and all that is done where nobody does.
  std::uint32_t looks() const noexcept {
    return log_ ? __atomic_load_n(&log_->shm().looks, __ATOMIC_RELAXED) : 0;
  }

  // Calls `send`, which returns how many of the packets the link took, and notes those.
  template <typename Send>
  std::uint16_t Sent(unis_sampler& sampler, std::uint16_t chain, std::span<rte_mbuf* const> packets,
                     Send send) noexcept {
    unis_samples samples;
    const std::uint64_t now = rte_rdtsc();
    if (!Sample(sampler, now, packets, samples)) return send();
    unis_passage burst{};
    burst.kind = UNIS_SENT;
    burst.port = chain;
    burst.begin = rte_rdtsc();
    burst.own = unis_own(now, burst.begin);
    burst.packets = send();
    burst.end = rte_rdtsc();
    Note(sampler, samples, burst);
    return burst.packets;
  }

  // What a receive call between the two times (TSC) has brought.
  void Received(unis_sampler& sampler, std::uint16_t chain, std::span<rte_mbuf* const> packets,
                std::uint64_t begin, std::uint64_t end) noexcept {
    unis_samples samples;
    if (unis_reader_is_gone(&log_->shm(), begin) != 0) return;
    if (!Sample(sampler, end, packets, samples)) return;
    unis_passage burst{};
    burst.kind = UNIS_RECEIVED;
    burst.port = chain;
    burst.begin = begin;
    burst.end = end;
    burst.packets = static_cast<std::uint16_t>(packets.size());
    Note(sampler, samples, burst);
  }

 private:
  // False: there is nothing to note.
  bool Sample(unis_sampler& sampler, std::uint64_t now, std::span<rte_mbuf* const> packets,
              unis_samples& samples) noexcept;
  void Note(unis_sampler& sampler, const unis_samples& samples, const unis_passage& burst) noexcept;

  std::shared_ptr<PassageLog> log_;
  unis_passage_log* place_ = nullptr;
  bool asked_ = false;  // for a place; without one nothing is noted
};

}  // namespace unis
