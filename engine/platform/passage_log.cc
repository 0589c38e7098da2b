#include "engine/platform/passage_log.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "engine/platform/payload_stamp.h"
#include "ports/unis_ports/shared_file.h"

namespace unis {

static_assert(PayloadStamp::kAt == UNIS_PASSAGES_MARK_AT);

absl::StatusOr<std::shared_ptr<PassageLog>> PassageLog::Create() {
  void* memory = nullptr;
  const int file = unis_shared_file(UNIS_PASSAGES_FILE, sizeof(unis_passages), &memory);
  if (file < 0) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot make the file of the passages: {}", std::strerror(-file)));
  }
  auto* const shm = static_cast<unis_passages*>(memory);
  __atomic_store_n(&shm->version, UNIS_PASSAGES_VERSION, __ATOMIC_RELEASE);
  return std::shared_ptr<PassageLog>(new PassageLog(UniqueFd(file), shm));
}

PassageLog::~PassageLog() { munmap(shm_, sizeof(unis_passages)); }

bool PassageWriter::Sample(unis_sampler& sampler, std::uint64_t now,
                           std::span<rte_mbuf* const> packets, unis_samples& samples) noexcept {
  unis_passages& shm = log_->shm();
  if (!std::exchange(asked_, true)) {
    place_ = static_cast<unis_passage_log*>(
        unis_find_place(shm.logs, UNIS_PASSAGES_THREADS, sizeof(shm.logs[0])));
  }
  if (place_ == nullptr) return false;
  const auto count = static_cast<std::uint32_t>(packets.size());
  if (looks() == 2) [[unlikely]]
    unis_sample_in_vain(&shm, &sampler, now, packets.data(), count);
  unis_sample(&shm, &sampler, now, packets.data(), count, &samples);
  return samples.count > 0;
}

void PassageWriter::Note(unis_sampler& sampler, const unis_samples& samples,
                         const unis_passage& burst) noexcept {
  unis_note(place_, &sampler, &samples, &burst);
  if (looks() == 2) [[unlikely]]
    unis_note_in_vain(place_, &samples, &burst);
}

}  // namespace unis
