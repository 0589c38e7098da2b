#include "models/simulator/service_cpu.h"

#include <algorithm>
#include <utility>

namespace unis::sim {

std::vector<ServiceCpu> ServiceCpu::Of(const Scenario& scenario, Machine& machine,
                                       CpuPolicy& policy) {
  if (!scenario.machine.platform_takes_time()) return {};
  std::vector<std::vector<Role>> cpus = {{Role::kSource, Role::kSink, Role::kScheduler}};
  if (scenario.machine.platform_has_three_cpus)
    cpus = {{Role::kSource}, {Role::kSink}, {Role::kScheduler}};
  std::vector<ServiceCpu> made;
  for (auto& roles : cpus) made.push_back(ServiceCpu(scenario, machine, policy, std::move(roles)));
  return made;
}

ServiceCpu::ServiceCpu(const Scenario& scenario, Machine& machine, CpuPolicy& policy,
                       std::vector<Role> roles)
    : machine_(&machine),
      policy_(&policy),
      roles_(std::move(roles)),
      source_(FromNs(scenario.machine.source_ns)),
      sink_(FromNs(scenario.machine.sink_ns)),
      poll_(FromNs(scenario.machine.poll_ns)) {}

// Each part gets its turn; the first that has something to do works until the next event.
void ServiceCpu::OnTime(Time now) {
  if (sending_ > 0) machine_->Arrive(sending_to_, std::exchange(sending_, 0), now);
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    const Role role = roles_[turn_];
    turn_ = turn_ + 1 == roles_.size() ? 0 : turn_ + 1;
    next_ = Begin(role, now);
    idle_ = next_ == now;
    if (!idle_) return;
    now += poll_;
  }
  const bool schedules = std::ranges::find(roles_, Role::kScheduler) != roles_.end();
  next_ = schedules && policy_->IsScheduler() ? std::max(now, policy_->NextEvent()) : kNever;
}

void ServiceCpu::Wake(Time now) {
  if (!idle_) return;
  const auto has_work = [this](Role role) {
    if (role == Role::kSource) return SourceHasRoom();
    return role == Role::kSink && machine_->rings().SinkHasPackets();
  };
  if (std::ranges::any_of(roles_, has_work)) next_ = std::min(next_, now + poll_);
}

bool ServiceCpu::SourceHasRoom() const {
  for (std::size_t chain = 0; chain < machine_->rings().chains(); ++chain) {
    if (machine_->rings().HasRoom(chain, kBatch)) return true;
  }
  return false;
}

Time ServiceCpu::Begin(Role role, Time now) {
  switch (role) {
    case Role::kSource:
      return BeginSource(now);
    case Role::kSink:
      return BeginSink(now);
    case Role::kScheduler:
      break;
  }
  if (!policy_->IsScheduler() || policy_->NextEvent() > now) return now;
  return policy_->OnTime(now);
}

// One burst for one chain: the packets are in its ring when the work is done.
Time ServiceCpu::BeginSource(Time now) {
  for (std::size_t i = 0; i < machine_->rings().chains(); ++i) {
    const std::size_t chain = next_chain_;
    next_chain_ = next_chain_ + 1 == machine_->rings().chains() ? 0 : next_chain_ + 1;
    if (!machine_->rings().HasRoom(chain, kBatch)) continue;
    sending_ = kBatch;
    sending_to_ = chain;
    return now + sending_ * source_;
  }
  return now;
}

Time ServiceCpu::BeginSink(Time now) {
  std::uint32_t taken = 0;
  for (std::size_t chain = 0; chain < machine_->rings().chains(); ++chain)
    taken += machine_->Deliver(chain, kBatch, now);
  return now + taken * sink_;
}

}  // namespace unis::sim
