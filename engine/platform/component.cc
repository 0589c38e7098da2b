#include "engine/platform/component.h"

#include <fmt/format.h>
#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_service.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "engine/base/sanitizer.h"

namespace unis {
namespace {

// An lcore of DPDK goes through a round by a copy of the list of its services. If it loses its CPU
// in the round, it may run a service late: its own component has gone, and a component of another
// lcore has got the number of that service. Then DPDK marks the service as active on the wrong
// lcore, until that lcore looks at it again. With the service on every list, each lcore looks. A
// service that is stopped is looked at and not run.
void TellAllLcores(std::uint32_t service) {
  std::array<std::uint32_t, RTE_MAX_LCORE> lcores{};
  const int count = rte_service_lcore_list(lcores.data(), lcores.size());
  for (int i = 0; i < count; ++i)
    rte_service_map_lcore_set(service, lcores[static_cast<std::size_t>(i)], 1);
}

}  // namespace

Component::Component(std::string name) : name_(std::move(name)) {}

Component::~Component() { Halt(); }

absl::Status Component::RunOn(unsigned lcore) {
  const bool worker = rte_lcore_is_enabled(lcore) != 0 && lcore != rte_get_main_lcore();
  if (!worker && rte_eal_lcore_role(lcore) != ROLE_SERVICE) {
    return absl::InvalidArgumentError(fmt::format("lcore {} cannot be a service lcore", lcore));
  }
  if (name_.size() >= RTE_SERVICE_NAME_MAX) {
    return absl::InvalidArgumentError(
        fmt::format("{} is too long a name for a DPDK service", name_));
  }
  if (std::uint32_t id = 0; rte_service_get_by_name(name_.c_str(), &id) == 0) {
    return absl::AlreadyExistsError(fmt::format("there is a DPDK service {} already", name_));
  }
  rte_service_spec spec{};
  std::snprintf(spec.name, sizeof(spec.name), "%s", name_.c_str());
  spec.callback = &Component::Call;
  spec.callback_userdata = this;
  if (rte_service_component_register(&spec, &service_) != 0) {
    return absl::InternalError(fmt::format("cannot register DPDK service {}", name_));
  }
  lcore_ = lcore;
  LcoreNap::Of(lcore).Join();
  Released(this);
  rte_service_lcore_add(lcore);  // refused only when it is one already
  rte_service_component_runstate_set(service_, 1);
  rte_service_runstate_set(service_, 1);
  rte_service_map_lcore_set(service_, lcore, 1);
  const int started = rte_service_lcore_start(lcore);
  running_ = true;
  if (started != 0 && started != -EALREADY) {
    Halt();
    return absl::InternalError(fmt::format("service lcore {} does not start", lcore));
  }
  return absl::OkStatus();
}

void Component::Do(const std::function<void()>& work) {
  const std::lock_guard caller(callers_);
  if (!running_) return work();
  std::unique_lock lock(done_mutex_);
  work_.store(&work, std::memory_order_release);
  Wake();
  done_.wait(lock, [this] { return work_.load(std::memory_order_acquire) == nullptr; });
}

void Component::Halt() {
  const std::lock_guard caller(callers_);
  if (!running_) return;
  rte_service_runstate_set(service_, 0);
  TellAllLcores(service_);
  Wake();
  while (rte_service_may_be_active(service_) == 1) rte_delay_us_sleep(50);
  Acquired(this);
  rte_service_map_lcore_set(service_, lcore_, 0);
  rte_service_component_runstate_set(service_, 0);
  rte_service_component_unregister(service_);
  LcoreNap::Of(lcore_).Leave();
  running_ = false;
}

std::int32_t Component::Call(void* self) {
  Acquired(self);
  auto* const component = static_cast<Component*>(self);
  if (rte_lcore_id() != component->lcore_) [[unlikely]] {  // see TellAllLcores()
    Released(self);
    return 0;
  }
  const bool handled = component->TakeTurn();
  LcoreNap::Of(component->lcore_).AfterTurn(handled, [component] {
    return component->rests_ ? LcoreNap::kUntilGiven : component->IdleNs();
  });
  Released(self);
  return 0;
}

bool Component::TakeTurn() noexcept {
  if (const auto* work = work_.load(std::memory_order_acquire); work != nullptr) [[unlikely]] {
    (*work)();
    const std::lock_guard lock(done_mutex_);
    work_.store(nullptr, std::memory_order_release);
    done_.notify_all();
  }
  if (rests_) return false;
  const std::uint64_t begin = rte_rdtsc();
  const std::uint32_t handled = Iterate();
  if (handled == 0) return false;
  handled_.Add(handled);
  busy_cycles_.Add(rte_rdtsc() - begin);
  return true;
}

}  // namespace unis
