#include "models/cache/way_stacks.h"

#include <algorithm>
#include <utility>

namespace unis::cache {

WayStacks::WayStacks(Geometry geometry)
    : geometry_(geometry),
      entries_(std::size_t{geometry.sets} * geometry.ways),
      written_back_(std::size_t{geometry.ways} + 2) {}

std::span<WayStacks::Entry> WayStacks::SetOf(Line line) {
  return {&entries_[line % geometry_.sets * geometry_.ways], geometry_.ways};
}

std::size_t WayStacks::Find(std::span<const Entry> set, Line line) const {
  return static_cast<std::size_t>(
      std::ranges::find_if(set, [&](const Entry& e) { return e.valid && e.line == line; }) -
      set.begin());
}

void WayStacks::CountWrittenBack(std::uint32_t first, std::uint32_t last) {
  if (first > last) return;
  ++written_back_[first];
  --written_back_[last + 1];
}

void WayStacks::Leave(Entry& entry, std::uint32_t ways) {
  if (entry.dirty_from >= ways) return;
  CountWrittenBack(entry.dirty_from, ways - 1);
  entry.dirty_from = static_cast<std::uint8_t>(ways);
}

std::uint32_t WayStacks::Access(Line line, bool store) {
  const std::span<Entry> set = SetOf(line);
  const std::size_t at = Find(set, line);
  const bool hit = at < set.size();
  const auto ways = static_cast<std::uint32_t>(at + 1);

  Entry latest{line, kNever, true};
  if (hit) {
    Leave(set[at], ways);  // with fewer ways it comes from memory, and is clean
    latest.dirty_from = set[at].dirty_from;
  }
  if (store) latest.dirty_from = 1;

  // A line that comes in takes the first gap: with that many ways or more nothing has to go.
  const auto gap = static_cast<std::size_t>(
      std::ranges::find_if(set, [](const Entry& e) { return !e.valid; }) - set.begin());
  std::size_t room = std::min(gap, at);
  if (room == set.size()) {
    --room;
    Leave(set[room], geometry_.ways + 1);
  } else if (hit && gap < at) {
    set[at] = {};
  }
  std::move_backward(set.begin(), set.begin() + static_cast<std::ptrdiff_t>(room),
                     set.begin() + static_cast<std::ptrdiff_t>(room) + 1);
  set[0] = latest;
  return hit ? ways : 0;
}

void WayStacks::WriteBack(Line line) {
  const std::span<Entry> set = SetOf(line);
  const std::size_t at = Find(set, line);
  if (at == set.size()) {
    CountWrittenBack(1, geometry_.ways);
    return;
  }
  const auto ways = static_cast<std::uint32_t>(at + 1);
  Leave(set[at], ways);
  CountWrittenBack(1, ways - 1);
  set[at].dirty_from = static_cast<std::uint8_t>(ways);
}

void WayStacks::Invalidate(Line line) {
  const std::span<Entry> set = SetOf(line);
  const std::size_t at = Find(set, line);
  if (at == set.size()) return;
  Leave(set[at], static_cast<std::uint32_t>(at + 1));
  set[at] = {};
}

std::vector<std::uint64_t> WayStacks::Occupancy() const {
  std::vector<std::uint64_t> lines(geometry_.ways);
  for (std::size_t i = 0; i < entries_.size(); ++i) lines[i % geometry_.ways] += entries_[i].valid;
  for (std::size_t w = 1; w < lines.size(); ++w) lines[w] += lines[w - 1];
  return lines;
}

std::vector<std::uint64_t> WayStacks::TakeWrittenBack() {
  std::vector<std::uint64_t> by_ways(geometry_.ways);
  std::int64_t sum = 0;
  for (std::size_t w = 1; w <= geometry_.ways; ++w) {
    sum += written_back_[w];
    by_ways[w - 1] = static_cast<std::uint64_t>(sum);
  }
  std::ranges::fill(written_back_, 0);
  return by_ways;
}

}  // namespace unis::cache
