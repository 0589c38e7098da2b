#include "models/cache/latency.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <vector>

namespace unis::cache {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kHugePage = 2 << 20;
constexpr std::uint64_t kLoads = 1 << 20;

struct alignas(kLineBytes) Node {
  Node* next;
};

struct Unmap {
  std::size_t bytes;
  void operator()(Node* nodes) const { munmap(nodes, bytes); }
};

std::unique_ptr<Node[], Unmap> Map(std::size_t bytes) {
  const std::size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* const at = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  madvise(at, whole, MADV_HUGEPAGE);  // an advice: it may be refused
  return {static_cast<Node*>(at), Unmap{whole}};
}

}  // namespace

double LoadLatencyNs(std::uint64_t bytes, int rounds) {
  const std::size_t count = std::max<std::size_t>(2, bytes / kLineBytes);
  const auto nodes = Map(count * kLineBytes);
  // One circle through all of them, by Sattolo's shuffle.
  std::vector<std::uint32_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(i);
  std::mt19937_64 dice(1);
  for (std::size_t i = count - 1; i > 0; --i) std::swap(order[i], order[dice() % i]);
  for (std::size_t i = 0; i < count; ++i) nodes[order[i]].next = &nodes[order[(i + 1) % count]];

  const Node* at = &nodes[0];
  const auto chase = [&](std::uint64_t loads) {
    for (std::uint64_t i = 0; i < loads; ++i) at = at->next;
    asm volatile("" : : "r"(at) : "memory");  // the walk is not to be left out
  };
  chase(count);  // what fits is in the caches from here on
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    chase(kLoads);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count() / kLoads);
  }
  return least;
}

}  // namespace unis::cache
