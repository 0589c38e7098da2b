// A cache with write-back as a first look at one would have it, to hold the others against.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <vector>

#include "models/cache/private_cache.h"

namespace unis::cache {

class BruteForceCache {
 public:
  explicit BruteForceCache(Geometry geometry) : ways_(geometry.ways), sets_(geometry.sets) {}

  bool Access(Line line, bool store) {
    Set& set = sets_[line % sets_.size()];
    const auto found = Find(set, line);
    const bool hit = found != set.end();
    bool dirty = store;
    if (hit) {
      dirty |= found->dirty;
      set.erase(found);
    } else if (set.size() == ways_) {
      written_back_ += set.back().dirty;
      set.pop_back();
    }
    set.push_front({line, dirty});
    return hit;
  }

  // A dirty line from above, which goes past the cache if it is not there.
  void WriteBack(Line line) {
    Set& set = sets_[line % sets_.size()];
    const auto found = Find(set, line);
    if (found == set.end()) {
      ++written_back_;
    } else {
      found->dirty = true;
    }
  }

  void Invalidate(Line line) {
    Set& set = sets_[line % sets_.size()];
    if (const auto found = Find(set, line); found != set.end()) set.erase(found);
  }

  std::uint64_t lines() const {
    std::uint64_t sum = 0;
    for (const Set& set : sets_) sum += set.size();
    return sum;
  }
  std::uint64_t written_back() const { return written_back_; }

 private:
  struct Entry {
    Line line;
    bool dirty;
  };
  using Set = std::list<Entry>;
  static Set::iterator Find(Set& set, Line line) {
    return std::ranges::find(set, line, &Entry::line);
  }

  std::size_t ways_;
  std::vector<Set> sets_;
  std::uint64_t written_back_ = 0;
};

}  // namespace unis::cache
