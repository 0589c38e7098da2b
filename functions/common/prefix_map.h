// Longest prefix match for tables of a few thousand prefixes that never change: the address space
// cut into ranges, found by bisection. 8 bytes a range on the process's own heap, where rte_lpm
// takes 64 MB of the hugepages that a DPDK group shares.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "functions/common/text.h"

namespace unis::functions {

class PrefixMap {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Entry {
    Ipv4Prefix prefix;
    std::uint32_t value;  // anything but kNone
  };

  // No prefix twice.
  explicit PrefixMap(std::vector<Entry> entries) {
    // In front of the prefixes that lie within it, each prefix.
    std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
      return a.prefix.address != b.prefix.address ? a.prefix.address < b.prefix.address
                                                  : a.prefix.length < b.prefix.length;
    });
    std::vector<Open> around;  // the prefixes around the place where the sweep is, widest first
    Cut(0, kNone);
    for (const Entry& entry : entries) {
      const std::uint64_t begin = entry.prefix.address;
      while (!around.empty() && around.back().end <= begin) Close(around);
      Cut(begin, entry.value);
      around.push_back({begin + (std::uint64_t{1} << (32 - entry.prefix.length)), entry.value});
    }
    while (!around.empty()) Close(around);
  }

  // The value of the longest prefix that holds `address`, or kNone.
  std::uint32_t Find(std::uint32_t address) const {
    const auto behind = std::ranges::upper_bound(begins_, address);  // the first range begins at 0
    return values_[static_cast<std::size_t>(behind - begins_.begin()) - 1];
  }

 private:
  struct Open {
    std::uint64_t end;  // first address behind it
    std::uint32_t value;
  };

  void Close(std::vector<Open>& around) {
    const std::uint64_t end = around.back().end;
    around.pop_back();
    if (end >> 32 == 0) Cut(end, around.empty() ? kNone : around.back().value);
  }

  // From `begin` on, `value`. Begins never fall.
  void Cut(std::uint64_t begin, std::uint32_t value) {
    if (!begins_.empty() && begins_.back() == begin) {
      values_.back() = value;
      return;
    }
    begins_.push_back(static_cast<std::uint32_t>(begin));
    values_.push_back(value);
  }

  std::vector<std::uint32_t> begins_;
  std::vector<std::uint32_t> values_;
};

}  // namespace unis::functions
