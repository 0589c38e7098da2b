// What is measured, a section each. Every section leaves CPU, class and network namespace of the
// calling thread as they were, and nothing on the machine.
#pragma once

#include <filesystem>
#include <optional>

#include "models/calibrate/row.h"

namespace unis {

struct Settings {
  unsigned cpu = 0;                   // that is measured
  std::optional<unsigned> other_cpu;  // that wakes it up; none: there is no other
  bool quick = false;                 // few samples, short arrays
  std::filesystem::path probes;       // the BPF object

  std::size_t samples(std::size_t most) const { return quick ? kLeastSamples : most; }
};

void MeasureMemory(const Settings& settings, const Report& report);
void MeasureCalls(const Settings& settings, const Report& report);
void MeasureSwitches(const Settings& settings, const Report& report);
void MeasureWakeUps(const Settings& settings, const Report& report);
void MeasureTimers(const Settings& settings, const Report& report);
void MeasurePacketCalls(const Settings& settings, const Report& report);
void MeasureProbes(const Settings& settings, const Report& report);

}  // namespace unis
