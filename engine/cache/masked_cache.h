// A last-level cache whose ways are handed out by masks, as Intel's CAT does: everybody hits in all
// ways, and a line that comes in takes the place of the one that was used longest ago within its
// owner's mask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cache/private_cache.h"

namespace unis::cache {

class MaskedCache {
 public:
  explicit MaskedCache(Geometry geometry)
      : geometry_(geometry), entries_(std::size_t{geometry.sets} * geometry.ways) {}

  // Whether it was there.
  bool Access(Line line, std::uint64_t mask) {
    const std::span<Entry> set = SetOf(line);
    ++now_;
    if (Entry* const found = Find(set, line)) {
      found->used = now_;
      return true;
    }
    Entry* oldest = nullptr;
    for (std::uint32_t way = 0; way < geometry_.ways; ++way) {
      if ((mask >> way & 1) == 0) continue;
      if (oldest == nullptr || set[way].used < oldest->used) oldest = &set[way];
    }
    if (oldest != nullptr) *oldest = {line, now_};
    return false;
  }

  void Invalidate(Line line) {
    if (Entry* const found = Find(SetOf(line), line)) *found = {};
  }

 private:
  struct Entry {
    Line line = 0;
    std::uint64_t used = 0;  // when; 0: empty
  };
  std::span<Entry> SetOf(Line line) {
    return {&entries_[line % geometry_.sets * geometry_.ways], geometry_.ways};
  }
  static Entry* Find(std::span<Entry> set, Line line) {
    for (Entry& entry : set) {
      if (entry.used != 0 && entry.line == line) return &entry;
    }
    return nullptr;
  }

  Geometry geometry_;
  std::vector<Entry> entries_;
  std::uint64_t now_ = 0;
};

}  // namespace unis::cache
