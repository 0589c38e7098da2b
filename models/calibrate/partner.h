// Two threads of one CPU that hand it to each other.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <functional>
#include <new>
#include <thread>

#include "engine/base/unique_fd.h"

namespace unis {

// Runs beside the calling thread, as a thread of its process or as a process, until it returns; the
// end waits for that, and ends the process.
class Beside {
 public:
  static Beside Thread(std::function<void()> work);
  static Beside Process(const std::function<void()>& work);
  ~Beside();
  Beside(Beside&& other) noexcept;
  Beside& operator=(Beside&&) = delete;

 private:
  explicit Beside(std::thread thread) : thread_(std::move(thread)) {}
  explicit Beside(pid_t child) : child_(child) {}

  std::thread thread_;
  pid_t child_ = 0;
};

// Memory that child processes share, zeroed.
template <typename T>
class Shared {
 public:
  Shared()
      : at_(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (at_ == MAP_FAILED) throw std::bad_alloc();
    new (at_) T();
  }
  ~Shared() { munmap(at_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T& operator*() const { return *static_cast<T*>(at_); }
  T* operator->() const { return static_cast<T*>(at_); }

 private:
  void* at_;
};

// A byte goes to a partner, which blocks until it comes, and back.
class PipePair {
 public:
  PipePair();
  bool valid() const { return there_[0].valid() && back_[0].valid(); }
  // One round: the partner gets the CPU, and gives it back. False: the partner has ended.
  bool Round() const;
  // The partner's work: answers each byte until EndRounds().
  void Answer() const;
  void EndRounds() const;

 private:
  UniqueFd there_[2], back_[2];
};

}  // namespace unis
