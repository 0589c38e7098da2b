// What changes while a run lives: what is deployed, who is there, who has died.
#include <fmt/format.h>
#include <google/protobuf/util/message_differencer.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "engine/base/proc.h"
#include "engine/controller/fair_slice.h"
#include "engine/run/account.h"
#include "engine/run/run.h"
#include "engine/run/services.h"

namespace unis {
namespace {

using google::protobuf::util::MessageDifferencer;
using std::chrono::nanoseconds;

constexpr nanoseconds kEmptyLookEvery = std::chrono::milliseconds(2);
constexpr nanoseconds kEmptyTimeout = std::chrono::seconds(1);  // for chains that go
constexpr nanoseconds kLateLookEvery = std::chrono::milliseconds(200);
constexpr int kEmptyFor = 5, kStillFor = 20;  // looks

template <typename Items>
auto Named(const Items& items, const std::string& name) {
  return std::ranges::find_if(items, [&name](const auto& item) { return item.name() == name; });
}

absl::Status Refused(const std::string& sentence) {
  return absl::FailedPreconditionError(sentence);
}

absl::Status Wrong(const std::string& sentence) { return absl::InvalidArgumentError(sentence); }

// Costs apart, which may change, and the CPU: whether a process that plays the one plays the other.
bool SameProcess(v1::FunctionConfig one, v1::FunctionConfig other) {
  for (auto* config : {&one, &other}) {
    config->set_cost_ns(0);
    config->set_cpu(0);
  }
  return MessageDifferencer::Equals(one, other);
}

// The functions that `to` no longer has, has elsewhere or has with other ports.
std::set<std::string> Changed(const v1::DeployRequest& from, const v1::DeployRequest& to) {
  std::set<std::string> changed;
  for (const auto& function : from.functions()) {
    const auto same = Named(to.functions(), function.name());
    if (same == to.functions().end() || same->cpu() != function.cpu() ||
        !SameProcess(*same, function))
      changed.insert(function.name());
  }
  return changed;
}

// Frames and rate apart, which may change.
bool SameTraffic(const v1::TrafficConfig& one, const v1::TrafficConfig& other) {
  return one.source_case() == other.source_case() &&
         MessageDifferencer::Equals(one.port(), other.port()) &&
         one.sink_device() == other.sink_device() &&
         one.has_sink_descriptors() == other.has_sink_descriptors() &&
         one.sink_descriptors() == other.sink_descriptors();
}

}  // namespace

// ------------------------------------------------------------------ what is deployed

absl::Status Run::Apply(const v1::DeployRequest& request) {
  const auto pass = turnstile_.Enter("changing what runs");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireDeployed(); !status.ok()) return status;
  const std::lock_guard arrangement(arrangement_);
  if (whole_ && MessageDifferencer::Equals(request, deployment_->config())) return absl::OkStatus();
  if (auto status = MayBecome(request); !status.ok()) return status;
  auto prepared = deployment_->Prepare(request);
  if (!prepared.ok()) return prepared.status();
  if (phase_ != v1::RUN_PHASE_RUNNING) {
    const std::lock_guard lock(state_);
    return Reconfigure(*std::move(prepared));
  }
  const unsigned slice = deployment_->config().rr_timeslice_ms();
  if (slice != request.rr_timeslice_ms()) {
    if (auto status = TakeTimeslice(request.rr_timeslice_ms()); !status.ok()) {
      (void)TakeTimeslice(slice);
      return status;
    }
  }
  LetRunEmpty(request);
  const std::vector<unsigned> before = deployment_->topology().cpus;
  {
    const std::lock_guard lock(state_);
    const auto cpus = deployment_->topology().CpusAround(Changed(deployment_->config(), request));
    if (auto status = Rearrange(cpus, [&] { return Reconfigure(*std::move(prepared)); });
        !status.ok()) {
      if (slice != request.rr_timeslice_ms()) (void)TakeTimeslice(slice);
      return status;
    }
  }
  std::vector<unsigned> more = deployment_->topology().cpus;
  std::erase_if(more, [&](unsigned cpu) { return std::ranges::count(before, cpu) > 0; });
  for (Lease& lease : SuspendFairServers(more)) leases_.push_back(std::move(lease));
  return absl::OkStatus();
}

// What no run can take on while it lives.
absl::Status Run::MayBecome(const v1::DeployRequest& config) const {
  const v1::DeployRequest& now = deployment_->config();
  if (config.run() != now.run() || config.run_id() != now.run_id())
    return Wrong(fmt::format("this engine runs {}, not {}", now.run(), config.run()));
  if (!config.has_scheduler()) return Wrong("the deployment has no settings of the scheduler");
  if (config.has_fair_slice_ns())
    if (auto status = KnowsFairSlices(); !status.ok()) return status;
  if (config.foreign() != now.foreign())
    return Wrong("a run has functions of its own or somebody else's for as long as it lives");
  if (!SameTraffic(config.traffic(), now.traffic()))
    return Wrong("source and sink stay what they are while a run lives: end it to change them");
  for (const auto& link : now.links()) {
    const auto wanted = Named(config.links(), link.name());
    if (wanted != config.links().end() && !MessageDifferencer::Equals(*wanted, link))
      return Wrong(
          fmt::format("link {} stays what it is while it is there: give one that differs another "
                      "name",
                      link.name()));
  }
  for (const auto& function : now.functions()) {
    const auto wanted = Named(config.functions(), function.name());
    if (wanted != config.functions().end() && SameProcess(*wanted, function)) continue;
    if (auto status = MayGo(function); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Its memory must not go under it.
absl::Status Run::MayGo(const v1::FunctionConfig& function) const {
  using Presence = ThreadRegistry::Presence;
  const Presence presence = threads_->PresenceOf(function.name());
  if (presence == Presence::kPolling || presence == Presence::kNotPolling)
    return Refused(fmt::format("function {} runs and polls its links: end process {} first",
                               function.name(), threads_->ProcessOf(function.name())));
  // Also where it is not attached, or no more.
  if (const pid_t tid = deployment_->PolledBy(function.name()); tid != 0)
    return Refused(
        fmt::format("thread {} still polls the ports of function {}: end its process "
                    "first",
                    tid, function.name()));
  return absl::OkStatus();
}

// The chains that `config` no longer has get no more packets, and pass on those that they have:
// all, or, where the policy lets a few wait for more, all but those.
void Run::LetRunEmpty(const v1::DeployRequest& config) {
  if (config.foreign()) return;  // who takes of its packets goes on
  const Topology& topology = deployment_->topology();
  std::vector<const Topology::Chain*> going;
  for (std::size_t i = 0; i < topology.chains.size(); ++i) {
    if (Named(config.chains(), topology.chains[i].config.name()) != config.chains().end()) continue;
    deployment_->chains()[i]->up = false;
    going.push_back(&topology.chains[i]);
  }
  const auto waiting = [&] {
    std::uint64_t packets = 0;
    for (const Topology::Chain* chain : going)
      for (const LinkIndex link : chain->links) packets += deployment_->monitor().NumPkts(link);
    return packets;
  };
  const auto deadline = std::chrono::steady_clock::now() + kEmptyTimeout;
  std::uint64_t last = waiting();
  for (int still = 0; !going.empty() && std::chrono::steady_clock::now() < deadline;) {
    if (!ending_.SleepFor(kEmptyLookEvery)) return;
    const std::uint64_t now = waiting();
    still = now == last ? still + 1 : 0;
    if (still >= (now == 0 ? kEmptyFor : kStillFor)) return;
    last = now;
  }
}

absl::Status Run::Reconfigure(Deployment::Prepared prepared) {
  std::map<std::string, double> stated;  // costs, ns
  std::map<std::string, unsigned> cpus;
  for (const auto& function : deployment_->topology().functions) {
    stated[function.config.name()] = function.config.cost_ns();
    cpus[function.config.name()] = function.config.cpu();
  }
  auto status = deployment_->Apply(std::move(prepared));
  TakeCosts(stated);
  for (const auto& function : deployment_->config().functions()) {
    const auto cpu = cpus.find(function.name());
    if (cpu != cpus.end() && cpu->second != function.cpu())
      status.Update(threads_->Pin(function.name()));
  }
  threads_->ForgetOthers();
  std::erase_if(absent_, [this](const std::string& function) {
    return !deployment_->topology().FindFunction(function);
  });
  return status;
}

// ------------------------------------------------------------------ who is there

bool Run::Ready(const std::string& function) const {
  return deployment_->topology().FindFunction(function) && !threads_->Living(function).empty();
}

void Run::RaiseChains() {
  for (std::size_t i = 0; i < deployment_->chains().size(); ++i) {
    const Topology& topology = deployment_->topology();
    deployment_->chains()[i]->up =
        std::ranges::all_of(topology.chains[i].paths, [&](std::size_t path) {
          return Ready(topology.functions[topology.paths[path].function].config.name());
        });
  }
}

absl::Status Run::Rearrange(const std::set<unsigned>& cpus,
                            const std::function<absl::Status()>& change) {
  const HeldFile::Changing changing(options_.held);
  ++arranged_;
  control_->LetGo(cpus);
  auto status = change();
  RaiseChains();
  status.Update(TakeCores());
  const auto changed = ChangeTo(*wanted_);
  // Of who has died meanwhile the next look will know; else the kernel decides from now on.
  if (!changed.ok() && threads_->Ended().empty())
    (void)ChangeTo({.policy = v1::POLICY_OTHER, .controller = wanted_->controller});
  status.Update(changed);
  whole_ = status.ok();
  return status;
}

ScheduleCounts Run::Counts() const {
  ScheduleCounts counts = control_ ? control_->counts() : ScheduleCounts();
  for (const unsigned cpu : deployment_->topology().cpus) (void)counts.cores[cpu];
  return counts;
}

absl::StatusOr<v1::AttachReply> Run::Attach(const v1::AttachRequest& request) {
  const auto pass = turnstile_.Enter("attaching a function");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireDeployed(); !status.ok()) return status;
  {
    const std::lock_guard arrangement(arrangement_);
    const std::lock_guard lock(state_);
    RemoveEnded();
    if (absent_.contains(request.function()))
      return Refused(fmt::format("function {} has died: detach it first", request.function()));
  }
  const auto tid = threads_->Attach(request, ending_, state_);
  if (!tid.ok()) return tid.status();
  const std::lock_guard arrangement(arrangement_);
  const std::lock_guard lock(state_);
  const auto there = [&] {
    deployment_->ReadLinksAnew();
    deployment_->NotePositions(*deployment_->topology().FindFunction(request.function()));
    return absl::OkStatus();
  };
  const auto cpus = deployment_->topology().CpusAround({request.function()});
  if (auto status = phase_ == v1::RUN_PHASE_RUNNING ? Rearrange(cpus, there) : there();
      !status.ok())
    return status;
  v1::AttachReply reply;
  reply.set_tid(*tid);
  return reply;
}

absl::Status Run::Detach(const v1::DetachRequest& request) {
  const auto pass = turnstile_.Enter("letting a function go");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireDeployed(); !status.ok()) return status;
  const std::string& name = request.function();
  const auto function = deployment_->topology().FindFunction(name);
  if (!function) return absl::InvalidArgumentError(fmt::format("there is no function {}", name));
  const std::lock_guard arrangement(arrangement_);
  const bool running = phase_ == v1::RUN_PHASE_RUNNING;
  const bool gone = request.pid() > 0 && request.start_time() > 0 &&
                    !ProcessRuns(request.pid(), request.start_time());
  // The first thread of a process ends before the pidfd says that all of them have.
  for (const auto until = std::chrono::steady_clock::now() + kEmptyTimeout;
       gone && std::chrono::steady_clock::now() < until;) {
    {
      const std::lock_guard lock(state_);
      RemoveEnded();
      if (!threads_->Remembers(name)) break;
    }
    if (!ending_.SleepFor(kEmptyLookEvery)) return Ending();
  }
  {
    const std::lock_guard lock(state_);
    RemoveEnded();
    const auto presence = threads_->PresenceOf(name);
    if (presence == ThreadRegistry::Presence::kPolling ||
        presence == ThreadRegistry::Presence::kNotPolling) {
      const auto let_go = [&] { return threads_->LetGo(name); };
      return running ? Rearrange(deployment_->topology().CpusAround({name}), let_go) : let_go();
    }
    if (presence == ThreadRegistry::Presence::kAbsent && !absent_.contains(name)) {
      if (deployment_->PolledBy(name) != 0)
        return Refused(fmt::format("function {} is not attached", name));
      if (gone) deployment_->FreeDevices(*function);
      return absl::OkStatus();
    }
  }
  // What is still under way to it, from those before it.
  const auto deadline = std::chrono::steady_clock::now() + kEmptyTimeout;
  std::uint64_t last = 0;
  for (int still = 0;
       running && still < kEmptyFor && std::chrono::steady_clock::now() < deadline;) {
    deployment_->EmptyBefore(*function);
    const auto& paths = deployment_->topology().functions[*function].paths;
    std::uint64_t moved = 0;
    for (const std::size_t path : paths)
      moved +=
          deployment_->chains()[deployment_->topology().paths[path].chain]->dropped_waiting.value();
    still = moved == last ? still + 1 : 0;
    last = moved;
    if (!ending_.SleepFor(kEmptyLookEvery)) return Ending();
  }
  const std::lock_guard lock(state_);
  absent_.erase(name);
  return absl::OkStatus();
}

// ------------------------------------------------------------------ who has died

void Run::Look() {
  // Whoever holds it looks by himself, or is soon done.
  const std::unique_lock arrangement(arrangement_, std::try_to_lock);
  const std::lock_guard lock(state_);
  ReacquireThreads();
  if (threads_) threads_->BoostExiting();
  if (!arrangement.owns_lock() || phase_ != v1::RUN_PHASE_RUNNING) return;
  RemoveEnded();
  TakeLate();
  for (const std::string& name : absent_)
    deployment_->EmptyBefore(*deployment_->topology().FindFunction(name));
}

// Whoever is inside the turnstile, measuring say, wants the same decision; so this passes none.
void Run::ReacquireThreads() {
  if (!options_.held.TakeReturned()) return;
  if (!control_ || !control_->decision()) return;
  const HeldFile::Changing changing(options_.held);
  const auto status = control_->Repeat();
  if (status.ok()) {
    spdlog::warn(
        "the scheduler stood still, and the guard had put every function back into its old "
        "scheduling class: took them again");
  } else {
    spdlog::error("cannot take the functions again that the guard has put back: {}",
                  std::string(status.message()));
  }
}

void Run::RemoveEnded() {
  const auto functions = threads_ ? threads_->Ended() : std::set<std::string>();
  if (functions.empty()) return;
  const auto remove = [&] {
    for (const std::string& name : threads_->TakeEnded(functions)) {
      const auto function = deployment_->topology().FindFunction(name);
      if (!function) continue;
      spdlog::warn("function {} has ended", name);
      deployment_->ReclaimPorts(*function);
      deaths_ = true;
      if (threads_->PresenceOf(name) == ThreadRegistry::Presence::kEnded ||
          threads_->PresenceOf(name) == ThreadRegistry::Presence::kAbsent)
        absent_.insert(name);
    }
    return absl::OkStatus();
  };
  const auto cpus = deployment_->topology().CpusAround(functions);
  const auto status = phase_ == v1::RUN_PHASE_RUNNING ? Rearrange(cpus, remove) : remove();
  if (!status.ok()) spdlog::warn("{}", std::string(status.message()));
}

// Since the last call, or do now.
std::set<unsigned> Run::CpusThatRested() {
  std::set<unsigned> cpus;
  for (const auto& [cpu, core] : Counts().cores) {
    const CoreStatistics& now = core.statistics;
    const std::uint64_t before = std::exchange(rests_[cpu], now.parks);
    if (now.parked || now.parks != before) cpus.insert(cpu);
  }
  return cpus;
}

void Run::TakeLate() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_for_late_ < kLateLookEvery) return;
  looked_for_late_ = now;
  // These hold whole processes, and so one task of each.
  const auto decision = control_ ? control_->decision() : std::nullopt;
  if (decision && (decision->controller == v1::CONTROLLER_SIGNAL ||
                   decision->controller == v1::CONTROLLER_CGROUP))
    return;
  const unsigned elsewhere = CpuOfLcore(options_.service_lcores.front());
  const auto functions = threads_->LookForLate(elsewhere, CpusThatRested());
  if (functions.empty()) return;
  spdlog::info("threads have begun to poll, or sleep for long: takes and gives them back");
  const auto status = Rearrange(deployment_->topology().CpusAround(functions),
                                [&] { return threads_->TakeLate(functions); });
  if (!status.ok()) spdlog::warn("{}", std::string(status.message()));
}

}  // namespace unis
