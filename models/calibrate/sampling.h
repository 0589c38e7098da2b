// How samples are taken.
#pragma once

#include <time.h>

#include <cstddef>
#include <vector>

namespace unis {

// ns since some moment.
inline double NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// ns a call. A sample is the mean of as many calls as take about `sample_ns`.
template <typename Call>
std::vector<double> SampleCalls(std::size_t samples, double sample_ns, Call&& call) {
  const auto timed = [&](std::size_t calls) {
    const double begin = NowNs();
    for (std::size_t i = 0; i < calls; ++i) call();
    return NowNs() - begin;
  };
  std::size_t calls = 1;
  while (timed(calls) < sample_ns / 2) calls *= 2;
  std::vector<double> found;
  for (std::size_t i = 0; i < samples; ++i)
    found.push_back(timed(calls) / static_cast<double>(calls));
  return found;
}

}  // namespace unis
