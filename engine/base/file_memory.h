// Memory that another process has given us as a file and may take away again.
//
// An access behind the end of a mapped file is SIGBUS. A sealed file cannot shrink. DPDK's files of
// memory are not sealed: their owner may truncate them at any time. So the first mapping installs a
// handler of SIGBUS. The handler puts zeros of ours in the place of the mapping, and the access
// goes on.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>

#include "engine/base/unique_fd.h"

namespace unis {

class FileMemory {
 public:
  static constexpr std::size_t kMost = 2048;  // at the same time

  // Maps the first `bytes` of the file, to read and write. InvalidArgument: it is not a file of
  // tmpfs or hugetlbfs (a read of another one may wait for ever), or it is too short.
  static absl::StatusOr<FileMemory> Map(const UniqueFd& file, std::size_t bytes);
  ~FileMemory();
  FileMemory(FileMemory&& other) noexcept;
  FileMemory& operator=(FileMemory&&) = delete;

  std::byte* data() const noexcept { return memory_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  FileMemory(std::byte* memory, std::size_t bytes, std::size_t slot)
      : memory_(memory), bytes_(bytes), slot_(slot) {}

  std::byte* memory_;
  std::size_t bytes_;
  std::size_t slot_;  // where the handler finds it
};

}  // namespace unis
