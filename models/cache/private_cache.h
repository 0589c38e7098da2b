// A set-associative cache of one core: LRU, write-back, fills on every miss.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace unis::cache {

using Line = std::uint64_t;  // an address without the bits within its cache line

struct Geometry {
  std::uint32_t sets = 0;
  std::uint32_t ways = 0;
};

class PrivateCache {
 public:
  struct Victim {
    Line line;
    bool dirty;
  };
  struct Outcome {
    bool hit;
    std::optional<Victim> victim;  // what had to go for a line that was not there
  };

  explicit PrivateCache(Geometry geometry)
      : geometry_(geometry), entries_(std::size_t{geometry.sets} * geometry.ways) {}

  Outcome Access(Line line, bool store) {
    Entry* const set = SetOf(line);
    Entry* const end = set + geometry_.ways;
    Entry* const found = Find(line);
    const bool hit = found != end;
    Entry latest{line, true, store};
    std::optional<Victim> victim;
    if (hit) {
      latest.dirty |= found->dirty;
    } else if (const Entry& oldest = end[-1]; oldest.valid) {
      victim = Victim{oldest.line, oldest.dirty};
    }
    std::move_backward(set, hit ? found : end - 1, hit ? found + 1 : end);
    *set = latest;
    return {hit, victim};
  }

  bool Holds(Line line) { return Find(line) != SetOf(line) + geometry_.ways; }

  // Something else has written the line: what is here is old.
  void Invalidate(Line line) {
    Entry* const end = SetOf(line) + geometry_.ways;
    Entry* const found = Find(line);
    if (found == end) return;
    std::move(found + 1, end, found);
    end[-1] = {};
  }

 private:
  struct Entry {
    Line line = 0;
    bool valid = false;
    bool dirty = false;
    bool Is(Line other) const { return valid && line == other; }
  };
  Entry* Find(Line line) {  // the end of its set: not there
    Entry* const set = SetOf(line);
    return std::find_if(set, set + geometry_.ways, [&](const Entry& e) { return e.Is(line); });
  }
  Entry* SetOf(Line line) { return &entries_[line % geometry_.sets * geometry_.ways]; }

  Geometry geometry_;
  std::vector<Entry> entries_;  // by set, the latest first
};

}  // namespace unis::cache
