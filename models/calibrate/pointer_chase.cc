#include "models/calibrate/pointer_chase.h"

#include <fmt/format.h>
#include <linux/mman.h>
#include <string.h>
#include <sys/mman.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "models/calibrate/sampling.h"

namespace unis {
namespace {

absl::StatusOr<std::span<std::byte>> Mapped(std::size_t bytes, int flags) {
  void* at =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (at == MAP_FAILED)
    return absl::ResourceExhaustedError(
        fmt::format("cannot map {} MiB: {}", bytes >> 20, strerror(errno)));
  return std::span(static_cast<std::byte*>(at), bytes);
}

// kB of the mapping with this address that transparent huge pages hold.
std::size_t TransparentKb(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t begin = 0, end = 0;
    std::size_t kb = 0;
    if (sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      inside = begin <= wanted && wanted < end;
    else if (inside && sscanf(line.c_str(), "AnonHugePages: %zu", &kb) == 1)
      return kb;
  }
  return 0;
}

}  // namespace

absl::StatusOr<Pages> Pages::Small(std::size_t bytes) {
  const auto mapped = Mapped(bytes, 0);
  if (!mapped.ok()) return mapped.status();
  madvise(mapped->data(), bytes, MADV_NOHUGEPAGE);
  memset(mapped->data(), 0, bytes);
  return Pages(*mapped, *mapped, "small");
}

absl::StatusOr<Pages> Pages::Huge(std::size_t bytes) {
  bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  if (const auto reserved = Mapped(bytes, MAP_HUGETLB | MAP_HUGE_2MB); reserved.ok()) {
    memset(reserved->data(), 0, bytes);
    return Pages(*reserved, *reserved, "hugetlb");
  }
  const auto mapped = Mapped(bytes + kHugePage, 0);
  if (!mapped.ok()) return mapped.status();
  void* begin = mapped->data();
  std::size_t room = mapped->size();
  std::align(kHugePage, bytes, begin, room);
  Pages pages(*mapped, {static_cast<std::byte*>(begin), bytes}, "transparent");
  madvise(begin, bytes, MADV_HUGEPAGE);
  memset(begin, 0, bytes);
  if (const std::size_t kb = TransparentKb(begin); kb < bytes / 1024)
    return absl::ResourceExhaustedError(fmt::format(
        "only {} of {} MiB got pages of 2 MiB: no such page of hugetlbfs is free, and the kernel "
        "gives no transparent ones (/sys/kernel/mm/transparent_hugepage/enabled)",
        kb / 1024, bytes >> 20));
  return pages;
}

Pages::Pages(Pages&& other) noexcept
    : mapped_(std::exchange(other.mapped_, {})),
      memory_(std::exchange(other.memory_, {})),
      kind_(std::move(other.kind_)) {}

Pages::~Pages() {
  if (!mapped_.empty()) munmap(mapped_.data(), mapped_.size());
}

std::vector<std::uint32_t> RandomCircle(std::size_t elements, std::uint64_t seed) {
  std::vector<std::uint32_t> next(elements);
  std::iota(next.begin(), next.end(), 0U);
  std::mt19937_64 random(seed);
  // Sattolo's: never an element with itself, so what comes out is one circle.
  for (std::size_t i = elements - 1; i > 0; --i) std::swap(next[i], next[random() % i]);
  return next;
}

std::vector<std::uint32_t> ForwardCircle(std::size_t elements) {
  std::vector<std::uint32_t> next(elements);
  for (std::size_t i = 0; i < elements; ++i)
    next[i] = static_cast<std::uint32_t>((i + 1) % elements);
  return next;
}

Chase::Chase(std::span<std::byte> memory, std::size_t stride,
             const std::vector<std::uint32_t>& next) {
  const auto place = [&](std::size_t i) {
    return reinterpret_cast<void**>(memory.data() + i * stride / sizeof(void*) * sizeof(void*));
  };
  for (std::size_t i = 0; i < next.size(); ++i) *place(i) = place(next[i]);
  at_ = place(0);
}

double Chase::NsPerAccess(std::size_t accesses) {
  void** at = at_;
  const double begin = NowNs();
  for (std::size_t i = 0; i < accesses; ++i) {
    at = static_cast<void**>(*at);
    asm volatile("" : "+r"(at));  // one load after the other, none left out
  }
  const double end = NowNs();
  at_ = at;
  return (end - begin) / static_cast<double>(accesses);
}

}  // namespace unis
