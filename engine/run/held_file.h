// The file `held` of a run: what its guard must know to put the functions' threads back when unisd
// cannot, because it died or its loop stands still. unisd writes it and maps it; the guard
// (unis/runtime/held.py) reads the same layout, and writes `returned` alone.
//
// A loop of the engine costs it one store a tick. In a file of memory, as those below /run are, no
// store waits for a disk.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>

#include "engine/base/counter.h"
#include "engine/controller/held_thread.h"

namespace unis {

// Native byte order. What changes its meaning gets a new version.
struct HeldLayout {
  static constexpr std::uint32_t kMagic = 0x444c4548;  // "HELD"
  static constexpr std::uint32_t kVersion = 3;
  static constexpr std::size_t kBeats = 32;
  static constexpr std::size_t kThreads = 256;
  static constexpr std::int32_t kWriting = -1;

  // A thread that was taken hold of, and what it was before.
  struct Thread {
    std::atomic<std::int32_t>
        tid;  // 0: nobody, kWriting: not yet; else all that follows is written
    std::int32_t pid;
    std::uint64_t start_time;  // of the thread, see ProcStat
    std::int32_t policy;       // as sched_setscheduler() takes it
    std::int32_t priority;
    std::int32_t nice;
    std::int32_t slice_ns;  // its own of the fair classes; 0: it has none, or was real-time
    cpu_set_t affinity;
  };
  struct alignas(64) Beat {
    Counter count;
  };

  std::atomic<std::uint32_t> magic;  // 0: not all is written yet
  std::uint32_t version;
  std::atomic<std::uint32_t> beating;   // so many of `beats` must not stand still; the first
  std::atomic<std::uint32_t> changing;  // not 0: a policy changes, and a loop may wait for that
  std::atomic<std::uint32_t> returned;  // not 0: the guard has put all threads back
  Beat beats[kBeats];
  Thread threads[kThreads];
};
static_assert(offsetof(HeldLayout, returned) == 16 && offsetof(HeldLayout, beats) == 64 &&
              offsetof(HeldLayout, threads) == 2112 && sizeof(HeldLayout::Thread) == 160 &&
              sizeof(HeldLayout) == 43072);

class HeldFile {
 public:
  // As long as it lives the guard knows the thread.
  class Note {
   public:
    Note() = default;
    Note(Note&& other) noexcept : thread_(std::exchange(other.thread_, nullptr)) {}
    Note& operator=(Note&& other) noexcept {
      std::swap(thread_, other.thread_);
      return *this;
    }
    ~Note() {
      if (thread_ != nullptr) thread_->tid.store(0, std::memory_order_release);
    }

   private:
    friend class HeldFile;
    explicit Note(HeldLayout::Thread* thread) : thread_(thread) {}
    HeldLayout::Thread* thread_ = nullptr;
  };
  // As long as it lives the guard has patience with loops that stand still.
  class Changing {
   public:
    explicit Changing(HeldFile& file) : changing_(file.layout_->changing) { ++changing_; }
    ~Changing() { --changing_; }
    Changing(const Changing&) = delete;
    Changing& operator=(const Changing&) = delete;

   private:
    std::atomic<std::uint32_t>& changing_;
  };

  HeldFile();  // memory of our own: nobody guards
  // Made anew; only its owner may look into it. The file stays when this goes: a guard reads it
  // after our death.
  static absl::StatusOr<HeldFile> Create(const std::filesystem::path& path);

  // To be called before anything of the thread is changed. An error where there is no room.
  absl::StatusOr<Note> Add(const HeldThread& thread);

  // Of the i-th loop, below HeldLayout::kBeats; one thread adds to it.
  Counter& beat(std::size_t i) { return layout_->beats[i].count; }
  // From now on the first `loops` of them advance all the time.
  void Watch(std::size_t loops) {
    layout_->beating.store(static_cast<std::uint32_t>(loops), std::memory_order_release);
  }

  // Whether the guard has put all threads back since the last call.
  bool TakeReturned() {
    return layout_->returned.load(std::memory_order_relaxed) != 0 &&
           layout_->returned.exchange(0, std::memory_order_acq_rel) != 0;
  }

 private:
  using Memory = std::unique_ptr<HeldLayout, void (*)(HeldLayout*)>;
  explicit HeldFile(Memory layout) : layout_(std::move(layout)) {}

  Memory layout_;
};

}  // namespace unis
