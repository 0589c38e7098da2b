// How long an access to memory takes, by the size of the array, by stride, and by the page's size.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "models/calibrate/pointer_chase.h"
#include "models/calibrate/scheduling.h"
#include "models/calibrate/sections.h"

namespace unis {
namespace {

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr std::size_t kLine = 64, kSmallestArray = 4 * kKiB, kLargestArray = 256 * kMiB;
// As in Fig. 3 of the SCC paper, up to a jumbo frame. 4096 B fall into few sets of a cache; 4160 B
// touch a line of each page, and lines of all sets: what misses there is the TLB.
constexpr std::array<std::size_t, 7> kStrides = {128, 256, 1024, 1500, 4096, 4160, 9000};
constexpr std::array kArraysOfStrides = {128 * kKiB, kMiB, 16 * kMiB, 256 * kMiB};
constexpr double kSampleNs = 1e6;
// Lines. To warm more takes seconds; of longer arrays few lines are in most caches.
constexpr std::size_t kMostToWarm = 1 << 18;
constexpr std::size_t kMemorySamples = 15;

// What the largest array may take: the machine's memory has other uses.
std::size_t MostBytes(const Settings& settings) {
  if (settings.quick) return 4 * kMiB;
  std::ifstream meminfo("/proc/meminfo");
  std::size_t kb = 0;
  for (std::string line; std::getline(meminfo, line);)
    if (sscanf(line.c_str(), "MemAvailable: %zu", &kb) == 1) break;
  std::size_t most = kLargestArray;
  while (most > kSmallestArray && most > kb * kKiB / 4) most /= 2;
  return most;
}

struct Access {
  const char* order;
  std::size_t array, stride;
};

// Samples of one array. Others may be taken in between: the array is brought back into the caches.
class Series {
 public:
  static absl::StatusOr<Series> Of(const absl::StatusOr<Pages>& pages, const Access& access,
                                   const std::vector<std::uint32_t>& circle) {
    if (!pages.ok()) return pages.status();
    if (access.array > pages->memory().size())
      return absl::ResourceExhaustedError(
          fmt::format("{} MiB are more than a quarter of the free memory", access.array / kMiB));
    return Series(Chase(pages->memory(), access.stride, circle), circle.size());
  }

  void Take() {
    if (elements_ <= kMostToWarm) chase_.NsPerAccess(elements_);
    found_.push_back(chase_.NsPerAccess(accesses_));
  }
  std::vector<double> found() const { return found_; }

 private:
  Series(Chase chase, std::size_t elements) : chase_(chase), elements_(elements) {
    const double about = chase_.NsPerAccess(std::clamp<std::size_t>(elements, 1000, kMostToWarm));
    accesses_ = std::max<std::size_t>(1000, static_cast<std::size_t>(kSampleNs / about));
  }

  Chase chase_;
  std::size_t elements_, accesses_ = 0;
  std::vector<double> found_;
};

Samples FoundBy(const absl::StatusOr<Series>& series) {
  if (!series.ok()) return series.status();
  return series->found();
}

// Small pages less huge ones: what the translation of addresses takes.
Samples Difference(const Samples& small, const Samples& huge) {
  if (!small.ok()) return small.status();
  if (!huge.ok()) return huge.status();
  std::vector<double> found;
  for (std::size_t i = 0; i < std::min(small->size(), huge->size()); ++i)
    found.push_back((*small)[i] - (*huge)[i]);
  return found;
}

Row RowOf(const Access& access) {
  return {.group = "memory",
          .name = access.order,
          .labels = {{"array_bytes", static_cast<std::int64_t>(access.array)},
                     {"stride_bytes", static_cast<std::int64_t>(access.stride)}},
          .provider = kClock,
          .ns = {},
          .missing = {}};
}

Row OfPages(Row row, std::size_t page, const absl::StatusOr<Pages>& pages) {
  row.labels.emplace_back("page_bytes", static_cast<std::int64_t>(page));
  if (pages.ok()) row.labels.emplace_back("pages", pages->kind());
  return row;
}

}  // namespace

void MeasureMemory(const Settings& settings, const Report& report) {
  const PinnedTo pinned(settings.cpu);
  const std::size_t most = MostBytes(settings), samples = settings.samples(kMemorySamples);
  const auto small = Pages::Small(most), huge = Pages::Huge(most);
  const auto measure = [&](const Access& access) {
    const auto circle = RandomCircle(access.array / access.stride, access.array);
    auto of_small = Series::Of(small, access, circle), of_huge = Series::Of(huge, access, circle);
    // By turns: what else happens on the machine meets both.
    for (std::size_t i = 0; i < samples; ++i) {
      if (of_small.ok()) of_small->Take();
      if (of_huge.ok()) of_huge->Take();
    }
    report(With(OfPages(RowOf(access), kSmallPage, small), FoundBy(of_small)));
    report(With(OfPages(RowOf(access), kHugePage, huge), FoundBy(of_huge)));
    Row row = RowOf(access);
    row.labels.emplace_back("part", "tlb");
    row.provider += ", difference of the two sizes of pages";
    report(With(std::move(row), Difference(FoundBy(of_small), FoundBy(of_huge))));
  };
  const std::size_t last = settings.quick ? most : kLargestArray;
  for (std::size_t array = kSmallestArray; array <= last; array *= 2)
    measure({"random", array, kLine});
  for (const std::size_t array : kArraysOfStrides) {
    if (array > last) continue;
    for (const std::size_t stride : kStrides) measure({"random", array, stride});
    // In order of addresses the CPU fetches ahead, as in the paper.
    const auto forward = [&](std::size_t stride) {
      const Access access{"forward", array, stride};
      auto series = Series::Of(small, access, ForwardCircle(array / stride));
      for (std::size_t i = 0; series.ok() && i < samples; ++i) series->Take();
      report(With(OfPages(RowOf(access), kSmallPage, small), FoundBy(series)));
    };
    forward(kLine);
    for (const std::size_t stride : kStrides) forward(stride);
  }
}

}  // namespace unis
