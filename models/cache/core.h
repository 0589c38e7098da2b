// The caches that a core has for itself, and what goes from them to the last level.
#pragma once

#include "models/cache/private_cache.h"

namespace unis::cache {

class Core {
 public:
  enum class Level { kL1, kL2, kBelow };

  Core(Geometry l1, Geometry l2) : l1_(l1), l2_(l2) {}

  // Where the line was. Neither level includes the other; a dirty line that L2 has no more room for
  // goes to `write_back(line)`.
  template <class WriteBack>
  Level Access(Line line, bool store, WriteBack&& write_back) {
    const PrivateCache::Outcome first = l1_.Access(line, store);
    if (first.hit) return Level::kL1;
    const PrivateCache::Outcome second = l2_.Access(line, false);
    PassOn(second, write_back);
    if (first.victim && first.victim->dirty) {
      PassOn(l2_.Access(first.victim->line, true), write_back);
    }
    return second.hit ? Level::kL2 : Level::kBelow;
  }

  void Invalidate(Line line) {
    l1_.Invalidate(line);
    l2_.Invalidate(line);
  }

 private:
  template <class WriteBack>
  static void PassOn(const PrivateCache::Outcome& outcome, WriteBack& write_back) {
    if (outcome.victim && outcome.victim->dirty) write_back(outcome.victim->line);
  }

  PrivateCache l1_, l2_;
};

}  // namespace unis::cache
