// What becomes of a run while it lives: what is deployed, who is there, who has died.
#include <fmt/format.h>
#include <google/protobuf/util/message_differencer.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "engine/base/favour.h"
#include "engine/base/proc.h"
#include "engine/controller/fair_slice.h"
#include "engine/run/run_state.h"
#include "engine/run/services.h"

namespace unis {
namespace {

using google::protobuf::util::MessageDifferencer;

constexpr Nanoseconds kTimesEvery = 200'000'000;

template <typename Items>
auto Named(const Items& items, const std::string& name) {
  return std::ranges::find_if(items, [&name](const auto& item) { return item.name() == name; });
}

absl::Status Refused(const std::string& sentence) {
  return absl::FailedPreconditionError(sentence);
}

// What is only said of a function, and neither its process nor its place.
void ClearSettings(v1::FunctionConfig& function) {
  function.clear_cost_ns();
  function.clear_stays_awake();
  function.clear_kernel();
}

// Whether a process that plays the one plays the other. Its settings and its CPU may change.
bool SameProcess(v1::FunctionConfig one, v1::FunctionConfig other) {
  for (auto* config : {&one, &other}) {
    ClearSettings(*config);
    config->clear_cpu();
  }
  return MessageDifferencer::Equals(one, other);
}

// The functions that `to` no longer has, or has elsewhere, with other ports or otherwise. All
// where the scheduler has other settings: what it follows and puts back of costs ends first.
std::set<std::string> Changed(const v1::DeployRequest& from, const v1::DeployRequest& to) {
  std::set<std::string> changed;
  const bool all = !MessageDifferencer::Equals(from.scheduler(), to.scheduler()) ||
                   from.fair_slice_ns() != to.fair_slice_ns();
  for (const auto& function : from.functions()) {
    const auto same = Named(to.functions(), function.name());
    if (all || same == to.functions().end() || !MessageDifferencer::Equals(*same, function))
      changed.insert(function.name());
  }
  return changed;
}

// Whether no link, port or function comes or goes, or moves.
bool SameButSettings(v1::DeployRequest one, v1::DeployRequest other) {
  for (auto* config : {&one, &other}) {
    config->clear_scheduler();
    config->clear_fair_slice_ns();
    config->clear_rr_timeslice_ms();
    for (auto& function : *config->mutable_functions()) ClearSettings(function);
  }
  return MessageDifferencer::Equals(one, other);
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

bool RunState::Is(const v1::DeployRequest& config) const {
  return whole_ && MessageDifferencer::Equals(config, deployment_->config());
}

absl::Status RunState::MayBecome(const v1::DeployRequest& config) const {
  const v1::DeployRequest& now = deployment_->config();
  if (config.run() != now.run() || config.run_id() != now.run_id())
    return absl::InvalidArgumentError(
        fmt::format("this engine runs {}, not {}", now.run(), config.run()));
  if (!config.has_scheduler())
    return absl::InvalidArgumentError("the deployment has no settings of the scheduler");
  if (NeedsFairSlices(config))
    if (auto status = KnowsFairSlices(); !status.ok()) return status;
  if (config.foreign() != now.foreign())
    return absl::InvalidArgumentError(
        "a run has functions of its own or somebody else's for as long as it lives");
  if (!SameTraffic(config.traffic(), now.traffic()))
    return absl::InvalidArgumentError(
        "source and sink stay what they are while a run lives: end it to change them");
  for (const auto& link : now.links()) {
    const auto wanted = Named(config.links(), link.name());
    if (wanted != config.links().end() && !MessageDifferencer::Equals(*wanted, link))
      return absl::InvalidArgumentError(
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
absl::Status RunState::MayGo(const v1::FunctionConfig& function) const {
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

std::vector<LinkIndex> RunState::Close(const v1::DeployRequest& config) {
  const Topology& topology = deployment_->topology();
  std::vector<LinkIndex> links;
  for (std::size_t i = 0; i < topology.chains.size(); ++i) {
    const auto& chain = topology.chains[i];
    if (Named(config.chains(), chain.config.name()) != config.chains().end()) continue;
    deployment_->chains()[i]->up = false;
    links.insert(links.end(), chain.links.begin(), chain.links.end());
  }
  return links;
}

absl::Status RunState::Apply(Deployment::Prepared prepared) {
  const bool links_change = !SameButSettings(deployment_->config(), prepared.config);
  return Rearrange(
      Changed(deployment_->config(), prepared.config),
      [&] { return Reconfigure(std::move(prepared)); }, links_change);
}

absl::Status RunState::Reconfigure(Deployment::Prepared prepared) {
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

bool RunState::Ready(const std::string& function) const {
  return deployment_->topology().FindFunction(function) && !threads_->Living(function).empty();
}

void RunState::RaiseChains() {
  deployment_->Open([this](std::size_t function) {
    return Ready(deployment_->topology().functions[function].config.name());
  });
}

absl::Status RunState::Rearrange(const std::set<std::string>& functions,
                                 const std::function<absl::Status()>& change, bool takes_locks) {
  if (!running()) return change();
  const HeldFile::Changing changing(options_.held);
  std::optional<Hurry> hurry;
  if (!takes_locks) hurry.emplace();
  ++arranged_;
  control_->LetGo(deployment_->topology().CpusAround(functions));
  auto status = change();
  RaiseChains();
  const auto taken = TakeCores();
  status.Update(taken);
  const auto changed = taken.ok() ? ChangeTo(*wanted_) : taken;
  // Of who has died meanwhile the next look will know; else the kernel decides from now on.
  if (!changed.ok() && (!taken.ok() || threads_->Ended().empty()))
    (void)ChangeTo(AllFair(wanted_->controller));
  status.Update(changed);
  whole_ = status.ok();
  return status;
}

absl::Status RunState::BeginAttaching(const std::string& function) {
  RemoveEnded();
  if (absent_.contains(function) && function != attaching_)
    return Refused(fmt::format("function {} has died: detach it first", function));
  auto status = threads_->MayAttach(function);
  if (status.ok()) attaching_ = function;
  return status;
}

absl::Status RunState::Attach(const v1::AttachRequest& request, Pidfd process,
                              const std::vector<pid_t>& tids) {
  const std::string& function = request.function();
  auto status = BeginAttaching(function);  // once more, after a while
  // With a process that has ended since, links were forgotten.
  if (status.ok()) status = deployment_->FindLinks(request);
  if (status.ok()) status = threads_->Attach(function, request.pid(), std::move(process), tids);
  if (!status.ok()) return status;
  absent_.erase(function);
  return Rearrange({function}, [&] {
    deployment_->ReadLinksAnew();
    deployment_->NotePositions(*deployment_->topology().FindFunction(function));
    return absl::OkStatus();
  });
}

absl::StatusOr<bool> RunState::Detach(const std::string& name, bool gone) {
  using Presence = ThreadRegistry::Presence;
  RemoveEnded();
  const Presence presence = threads_->PresenceOf(name);
  if (presence == Presence::kPolling || presence == Presence::kNotPolling) {
    auto status = Rearrange({name}, [&] { return threads_->LetGo(name); });
    if (!status.ok()) return status;
    return false;
  }
  if (presence != Presence::kAbsent || absent_.contains(name)) return true;
  if (deployment_->PolledBy(name) != 0)
    return Refused(fmt::format("function {} is not attached", name));
  if (gone) deployment_->FreeDevices(*deployment_->topology().FindFunction(name));
  return false;
}

std::uint64_t RunState::DropFor(const std::string& name) {
  const Topology& topology = deployment_->topology();
  const auto function = topology.FindFunction(name);
  if (!function) return 0;
  deployment_->EmptyBefore(*function);
  std::uint64_t dropped = 0;
  for (const std::size_t path : topology.functions[*function].paths)
    if (const Chain& chain = *deployment_->chains()[topology.paths[path].chain]; !chain.up)
      dropped += chain.dropped_waiting.value();
  return dropped;
}

void RunState::DropForAbsent() {
  for (const std::string& name : absent_)
    if (name != attaching_) (void)DropFor(name);
}

void RunState::Look() {
  ReacquireThreads();
  if (threads_) threads_->BoostExiting();
  if (!running()) return;
  RemoveEnded();
  if (!still_) TakeLate();
  DropForAbsent();
  if (timer_.Now() - times_at_ >= kTimesEvery) {
    deployment_->FollowLinks();
    LookAtTimes(Counts());
  }
}

void RunState::ReacquireThreads() {
  if (!options_.held.TakeReturned()) return;
  if (!control_ || !control_->decision()) return;
  const HeldFile::Changing changing(options_.held);
  ++arranged_;  // a trace has missed something
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

void RunState::RemoveEnded() {
  const auto functions = threads_ ? threads_->Ended() : std::set<std::string>();
  if (functions.empty()) return;
  const auto status = Rearrange(functions, [&] {
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
  });
  Warn(status);
}

// Since the last call, or do now.
std::set<unsigned> RunState::CpusThatRested() {
  std::set<unsigned> cpus;
  for (const auto& [cpu, core] : Counts().cores) {
    const CoreStatistics& now = core.statistics;
    const std::uint64_t before = std::exchange(rests_[cpu], now.parks);
    if (now.parked || now.parks != before) cpus.insert(cpu);
  }
  return cpus;
}

void RunState::TakeLate() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_for_late_ < options_.late_look_every) return;
  looked_for_late_ = now;
  const auto decision = decided();
  if (decision && decision->controller == v1::CONTROLLER_SIGNAL)
    return;  // it has one task a process
  const unsigned elsewhere = CpuOfLcore(options_.service_lcores.front());
  const auto functions = threads_->LookForLate(elsewhere, CpusThatRested());
  if (functions.empty()) return;
  spdlog::info("threads have begun to poll, or sleep for long: takes and gives them back");
  const auto status = Rearrange(functions, [&] { return threads_->TakeLate(functions); });
  Warn(status);
}

}  // namespace unis
