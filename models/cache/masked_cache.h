// A last-level cache whose ways are handed out by masks, as Intel's CAT does: everybody hits in all
// ways, and a line that comes in takes the place of the one that was used longest ago within its
// owner's mask.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/cache/private_cache.h"

namespace unis::cache {

class MaskedCache {
 public:
  using Owner = std::size_t;  // of a line: 0, 1, ...

  MaskedCache(Geometry geometry, std::size_t owners)
      : geometry_(geometry),
        entries_(std::size_t{geometry.sets} * geometry.ways),
        written_back_(owners),
        device_spills_(owners) {}

  // Whether it was there. The core's own caches know whether it gets dirty. Masks have a way of the
  // cache, here and below.
  bool Access(Line line, std::uint64_t mask, Owner owner) {
    return Use(line, mask, owner, false).hit;
  }

  // A device puts the line here and not in memory: where it is, or else into the mask's ways.
  void DeviceWrites(Line line, std::uint64_t mask, Owner owner) {
    Use(line, mask, owner, true).entry->dirty = true;
  }

  // A dirty line comes from the core's own caches. It moves nothing, and goes to memory if it is
  // not here.
  void WriteBack(Line line, Owner owner) {
    if (Entry* const found = Find(SetOf(line), line)) {
      found->dirty = true;
    } else {
      ++written_back_[owner];
    }
  }

  // The line was written in memory.
  void Invalidate(Line line) {
    if (Entry* const found = Find(SetOf(line), line)) *found = {};
  }

  // By owner: lines that its core brought in, whoever uses them.
  std::vector<std::uint64_t> Occupancy() const {
    std::vector<std::uint64_t> lines(written_back_.size());
    for (const Entry& entry : entries_) lines[entry.owner] += entry.used != 0 && !entry.by_device;
    return lines;
  }

  // By owner: dirty lines that went to memory, of those that its core and its device brought in.
  const std::vector<std::uint64_t>& written_back() const { return written_back_; }
  const std::vector<std::uint64_t>& device_spills() const { return device_spills_; }

 private:
  struct Entry {
    Line line = 0;
    std::uint64_t used = 0;  // when; 0: empty
    std::uint32_t owner = 0;
    bool by_device = false;  // brought in
    bool dirty = false;
  };
  struct Used {
    Entry* entry;
    bool hit;
  };

  Used Use(Line line, std::uint64_t mask, Owner owner, bool by_device) {
    const std::span<Entry> set = SetOf(line);
    ++now_;
    if (Entry* const found = Find(set, line)) {
      found->used = now_;
      return {found, true};
    }
    Entry* oldest = nullptr;
    for (std::uint32_t way = 0; way < geometry_.ways; ++way) {
      if ((mask >> way & 1) == 0) continue;
      if (oldest == nullptr || set[way].used < oldest->used) oldest = &set[way];
    }
    assert(oldest != nullptr);
    (oldest->by_device ? device_spills_ : written_back_)[oldest->owner] += oldest->dirty;
    *oldest = {line, now_, static_cast<std::uint32_t>(owner), by_device, false};
    return {oldest, false};
  }

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
  std::vector<std::uint64_t> written_back_, device_spills_;
  std::uint64_t now_ = 0;
};

}  // namespace unis::cache
