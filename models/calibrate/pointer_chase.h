// Memory in which each access needs what the one before it has read.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace unis {

constexpr std::size_t kSmallPage = 4096, kHugePage = 2 << 20;  // bytes

// Memory with pages of one size, given back when this ends.
class Pages {
 public:
  static absl::StatusOr<Pages> Small(std::size_t bytes);
  // Of hugetlbfs where enough are free, else transparent ones. An error: neither can be had.
  static absl::StatusOr<Pages> Huge(std::size_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&&) = delete;

  std::span<std::byte> memory() const { return memory_; }
  const std::string& kind() const { return kind_; }  // "hugetlb", "transparent", "small"

 private:
  Pages(std::span<std::byte> mapped, std::span<std::byte> memory, std::string kind)
      : mapped_(mapped), memory_(memory), kind_(std::move(kind)) {}

  std::span<std::byte> mapped_, memory_;
  std::string kind_;
};

// For each of `elements`, at least one, which is next: one circle through all, in random order.
std::vector<std::uint32_t> RandomCircle(std::size_t elements, std::uint64_t seed);
// In the order of their addresses.
std::vector<std::uint32_t> ForwardCircle(std::size_t elements);

// A circle of pointers, `stride` bytes apart, at least 8.
class Chase {
 public:
  Chase(std::span<std::byte> memory, std::size_t stride, const std::vector<std::uint32_t>& next);

  // ns an access, the mean over so many. Goes on where it ended.
  double NsPerAccess(std::size_t accesses);
  // Which pointer it is at.
  const void* at() const { return at_; }

 private:
  void** at_;
};

}  // namespace unis
