// A virtual CPU of the platform, on which source, sink and scheduler take turns as they do on a
// service lcore of the engine. While one works, the others wait: a busy source lets the scheduler
// decide later, and while the scheduler switches no packet is sent or taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/simulator/machine.h"
#include "models/simulator/policy.h"
#include "models/simulator/scenario.h"

namespace unis::sim {

class ServiceCpu {
 public:
  enum class Role : std::uint8_t { kSource, kSink, kScheduler };

  // Those that the scenario's platform has, with their roles; none if its parts take no time.
  static std::vector<ServiceCpu> Of(const Scenario& scenario, Machine& machine, CpuPolicy& policy);

  // When the part at work is done; kNever: all parts wait.
  Time next() const { return next_; }
  void OnTime(Time now);
  // Something has changed on the machine: a part that waited may have work.
  void Wake(Time now);

 private:
  ServiceCpu(const Scenario& scenario, Machine& machine, CpuPolicy& policy,
             std::vector<Role> roles);
  Time Begin(Role role, Time now);  // until when it works; `now`: it found nothing to do
  Time BeginSource(Time now);
  Time BeginSink(Time now);
  bool SourceHasRoom() const;

  Machine* machine_;
  CpuPolicy* policy_;
  std::vector<Role> roles_;
  Time source_, sink_, poll_;   // per packet, per packet, per look that finds nothing
  std::size_t turn_ = 0;        // of the roles
  std::size_t next_chain_ = 0;  // of the source
  std::uint32_t sending_ = 0;   // packets of the source's burst, for sending_to_
  std::size_t sending_to_ = 0;
  bool idle_ = false;
  Time next_ = 0;
};

}  // namespace unis::sim
