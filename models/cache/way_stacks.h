// Caches with 1, 2, … W ways and the same sets, all at once: with LRU replacement the cache with w
// ways holds the w lines of a set that were used last, so that one stack a set tells for each of
// them what hits (Mattson, Gecsei, Slutz, Traiger: "Evaluation techniques for storage hierarchies",
// 1970). What is written back to memory follows from the least number of ways with which a line is
// dirty (Thompson, Smith: "Efficient (stack) algorithms for analysis of write-back and sector
// memories", 1989).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/cache/private_cache.h"

namespace unis::cache {

class WayStacks {
 public:
  explicit WayStacks(Geometry geometry);

  // The least number of ways with which it hits; 0: with none of them.
  std::uint32_t Access(Line line, bool store);

  // A dirty line comes from the core's own caches. It moves nothing: what has it, keeps it, and
  // from the others it goes to memory.
  void WriteBack(Line line);

  // The line was written in memory.
  void Invalidate(Line line);

  // Lines in caches with 1, 2, … ways.
  std::vector<std::uint64_t> Occupancy() const;

  // Of caches with 1, 2, … ways: dirty lines that went to memory since the last call. A line that
  // was thrown out counts when it is next used, or when it falls below all ways.
  std::vector<std::uint64_t> TakeWrittenBack();

 private:
  struct Entry {
    Line line = 0;
    std::uint8_t dirty_from = kNever;  // ways with which it is dirty, and all more
    bool valid = false;
  };
  static constexpr std::uint8_t kNever = 255;

  std::span<Entry> SetOf(Line line);
  std::size_t Find(std::span<const Entry> set, Line line) const;  // set.size(): not there
  // With `first` to `last` ways one more line went to memory.
  void CountWrittenBack(std::uint32_t first, std::uint32_t last);
  void Leave(Entry& entry, std::uint32_t ways);  // caches with fewer ways have let go of it

  Geometry geometry_;
  std::vector<Entry> entries_;  // by set, the latest first; gaps where one was invalidated
  std::vector<std::int64_t> written_back_;  // at w: by how many more than with w - 1 ways
};

}  // namespace unis::cache
