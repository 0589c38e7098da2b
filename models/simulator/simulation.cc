#include "models/simulator/simulation.h"

#include <memory>
#include <vector>

#include "models/simulator/machine.h"
#include "models/simulator/policy.h"
#include "models/simulator/service_cpu.h"
#include "models/simulator/traffic.h"

namespace unis::sim {
namespace {

struct EventLog final : SwitchObserver {
  explicit EventLog(bool enabled) : enabled(enabled) {}
  bool wants() const noexcept override { return enabled; }
  void OnSwitch(const SwitchRecord& record) noexcept override { records.push_back(record); }
  bool enabled;
  std::vector<SwitchRecord> records;
};

class Simulation {
 public:
  explicit Simulation(const Scenario& scenario)
      : scenario_(scenario),
        machine_(scenario),
        log_(scenario.trace),
        policy_(MakePolicy(scenario, machine_, log_)),
        services_(ServiceCpu::Of(scenario, machine_, *policy_)) {
    machine_.Observe(*policy_);
    for (const ChainSpec& chain : scenario.chains) {
      // Unlike those that the machine draws packet sizes from.
      const std::uint64_t seed = Random(~scenario.seed - arrivals_.size()).Next();
      arrivals_.emplace_back(chain.arrivals, seed);
    }
  }

  Result Run() {
    machine_.FillFirstRings(0);
    policy_->Start();
    RunUntil(scenario_.warmup * kNanosecond);
    if (scenario_.warmup > 0) BeginMeasuring();
    const Time end = (scenario_.warmup + scenario_.duration) * kNanosecond;
    RunUntil(end);

    Result result;
    machine_.Collect(end, result);
    result.ticks = policy_->Decisions() - decisions_before_;
    result.failed_switches = policy_->FailedSwitches() - failed_before_;
    result.events = std::move(log_.records);
    return result;
  }

 private:
  void BeginMeasuring() {
    machine_.BeginMeasuring(scenario_.warmup * kNanosecond);
    decisions_before_ = policy_->Decisions();
    failed_before_ = policy_->FailedSwitches();
    log_.records.clear();
  }

  // At one moment first the cores act, then packets arrive, then the platform works, then the
  // policy looks. There are few sources of events, so the next is found by looking at each.
  void RunUntil(Time end) {
    for (;;) {
      Time now = on_service_cpu() ? kNever : policy_->NextEvent();
      ServiceCpu* service = nullptr;
      for (ServiceCpu& cpu : services_) {
        if (cpu.next() <= now) now = cpu.next(), service = &cpu;
      }
      std::size_t source = kPolicy;
      for (std::size_t i = arrivals_.size(); i-- > 0;) {
        if (arrivals_[i].next() <= now) now = arrivals_[i].next(), source = i;
      }
      CoreIndex core = machine_.cores();
      const std::vector<Time>& agenda = machine_.agenda();
      for (CoreIndex i = machine_.cores(); i-- > 0;) {
        if (agenda[i] <= now) now = agenda[i], core = i;
      }
      if (now >= end) return;
      if (core < machine_.cores()) {
        machine_.OnCoreEvent(core, now);
        for (ServiceCpu& cpu : services_) cpu.Wake(now);
      } else if (source != kPolicy) {
        arrivals_[source].Advance();
        machine_.Arrive(source, scenario_.chains[source].arrivals.burst, now);
      } else if (service != nullptr) {
        service->OnTime(now);
      } else {
        policy_->OnTime(now);
      }
    }
  }

  bool on_service_cpu() const { return policy_->IsScheduler() && !services_.empty(); }

  static constexpr std::size_t kPolicy = ~std::size_t{0};

  const Scenario& scenario_;
  Machine machine_;
  EventLog log_;
  std::unique_ptr<CpuPolicy> policy_;
  std::vector<ServiceCpu> services_;
  std::vector<Arrivals> arrivals_;
  std::uint64_t decisions_before_ = 0;
  std::uint64_t failed_before_ = 0;
};

}  // namespace

Result Simulate(const Scenario& scenario) { return Simulation(scenario).Run(); }

}  // namespace unis::sim
