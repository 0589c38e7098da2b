#include "engine/server/engine.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "engine/server/convert.h"
#include "engine/server/proc.h"

namespace unis {
namespace {

constexpr auto kAttachTimeout = std::chrono::seconds(20);
constexpr auto kPollEvery = std::chrono::milliseconds(2);
// Before the engine's other threads, which answer calls. Not a real-time class: the services spin,
// and nothing else would ever run on their CPU.
constexpr int kServiceNice = -5;

void SleepFor(Nanoseconds time) { std::this_thread::sleep_for(std::chrono::nanoseconds(time)); }

absl::Status StoppedMeanwhile() { return absl::AbortedError("the chains were stopped meanwhile"); }

}  // namespace

Engine::Engine(Options options) : options_(std::move(options)) {}

void Engine::Release() {
  const std::lock_guard lock(mutex_);
  if (deployment_) deployment_->source().SetPaused(true);
  ReleaseNfs();
}

absl::Status Engine::RequireDeployed() const {
  if (deployment_) return absl::OkStatus();
  return absl::FailedPreconditionError("nothing is deployed yet");
}

absl::Status Engine::RequireRunning() const {
  if (policy_) return absl::OkStatus();
  return absl::FailedPreconditionError("the chains are not running");
}

absl::StatusOr<std::size_t> Engine::FindNf(const std::string& name) const {
  if (auto status = RequireDeployed(); !status.ok()) return status;
  const auto& nfs = deployment_->nfs();
  const auto found =
      std::find_if(nfs.begin(), nfs.end(), [&name](const auto& nf) { return nf.name == name; });
  if (found == nfs.end()) return absl::NotFoundError(fmt::format("there is no function {}", name));
  return static_cast<std::size_t>(found - nfs.begin());
}

std::vector<NfThread> Engine::Threads() const {
  std::vector<NfThread> threads;
  for (const auto& attached : attached_) {
    if (attached) threads.push_back(attached->thread);
  }
  return threads;
}

absl::StatusOr<v1::DeployReply> Engine::Deploy(const v1::DeployRequest& request) {
  const std::lock_guard lock(mutex_);
  if (deployment_)
    return absl::FailedPreconditionError("chains are deployed already; one engine, one chain file");
  const auto kind = FromProto(request.controller());
  if (!kind.ok()) return kind.status();
  auto deployment = Deployment::Create(request);
  if (!deployment.ok()) return deployment.status();
  deployment_ = *std::move(deployment);
  settings_ = FromProto(request.scheduler());
  lead_given_ = request.scheduler().has_lead_ns();
  controller_kind_ = *kind;
  rr_timeslice_ms_ = request.rr_timeslice_ms();
  attached_.resize(deployment_->nfs().size());
  monitor_ = std::make_unique<RingMonitor>(deployment_->Links());
  std::vector<TraceRecorder::Watched> watched;
  for (const auto& nf : deployment_->nfs())
    watched.push_back({.port = &nf.port(), .core = nf.core});
  trace_ = std::make_unique<TraceRecorder>(std::move(watched),
                                           static_cast<CoreIndex>(deployment_->cpus().size()));
  scheduling_ = std::make_unique<SchedulerComponent>(timer_, *trace_);
  if (auto status = RunComponents(); !status.ok()) return status;
  v1::DeployReply reply;
  const unsigned first_lcore =
      *std::max_element(options_.service_lcores.begin(), options_.service_lcores.end()) + 1;
  for (std::size_t i = 0; i < deployment_->nfs().size(); ++i) {
    const auto& nf = deployment_->nfs()[i];
    auto* port = reply.add_ports();
    port->set_nf(nf.name);
    port->set_vdev(nf.chain->VdevOf(nf.position));
    port->set_lcore(first_lcore + static_cast<unsigned>(i));
  }
  return reply;
}

// With one service lcore the three take turns; with more, the scheduler gets the last for itself.
absl::Status Engine::RunComponents() {
  const auto& lcores = options_.service_lcores;
  if (auto status = deployment_->source().RunOn(lcores.front()); !status.ok()) return status;
  if (auto status = deployment_->sink().RunOn(lcores[lcores.size() / 2]); !status.ok())
    return status;
  if (auto status = scheduling_->RunOn(lcores.back()); !status.ok()) return status;
  const auto favour = [] { (void)setpriority(PRIO_PROCESS, 0, kServiceNice); };
  deployment_->source().Do(favour);
  deployment_->sink().Do(favour);
  scheduling_->Do(favour);
  return absl::OkStatus();
}

absl::StatusOr<v1::AttachReply> Engine::Attach(const v1::AttachRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto index = FindNf(request.nf());
  if (!index.ok()) return index.status();
  const auto& nf = deployment_->nfs()[*index];
  const auto deadline = std::chrono::steady_clock::now() + kAttachTimeout;
  pid_t tid = 0;
  while ((tid = nf.port().Read().polling_tid) == 0) {
    if (!ProcessRuns(request.pid())) {
      return absl::FailedPreconditionError(
          fmt::format("function {} ended before it polled its port", nf.name));
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::DeadlineExceededError(fmt::format(
          "function {} has not polled its port for 20 s; does it use the port it is given?",
          nf.name));
    }
    std::this_thread::sleep_for(kPollEvery);
  }
  if (!ThreadExists(request.pid(), tid)) {
    return absl::InvalidArgumentError(fmt::format(
        "thread {} that polls for {} is not of process {}", tid, nf.name, request.pid()));
  }
  const NfThread thread{.name = nf.name,
                        .pid = request.pid(),
                        .tid = tid,
                        .core = nf.core,
                        .cooperates = nf.cooperates};
  const auto before = ReadScheduling(tid);
  if (!before.ok()) return before.status();
  if (auto status = PinToCpu(thread, nf.cpu); !status.ok()) return status;
  attached_[*index] = Attached{.thread = thread, .before = *before};
  // Until the start it spins for nothing: those that come after it on this CPU go first.
  if (auto status = SetSchedulingClass(thread, SCHED_IDLE, 0); !status.ok()) return status;
  v1::AttachReply reply;
  reply.set_tid(tid);
  return reply;
}

absl::Status Engine::Start(v1::Policy policy) {
  const std::lock_guard lock(mutex_);
  if (auto status = RequireDeployed(); !status.ok()) return status;
  if (policy_) return absl::FailedPreconditionError("the chains run already");
  for (std::size_t i = 0; i < attached_.size(); ++i) {
    if (!attached_[i]) {
      return absl::FailedPreconditionError(
          fmt::format("function {} is not attached", deployment_->nfs()[i].name));
    }
    if (deployment_->nfs()[i].cost_ns <= 0) {
      return absl::FailedPreconditionError(fmt::format(
          "the cost of function {} is neither given nor estimated", deployment_->nfs()[i].name));
    }
  }
  auto controller = MakeController(controller_kind_, Threads(), options_.run);
  if (!controller.ok()) return controller.status();
  controller_ = *std::move(controller);
  if (auto status = rt_runtime_.Change(-1); !status.ok()) return status;
  if (rr_timeslice_ms_ > 0) {
    if (auto status = rr_timeslice_.Change(rr_timeslice_ms_); !status.ok()) return status;
  }
  if (auto status = ChooseLead(); !status.ok()) return status;
  if (auto status = ApplyPolicy(policy); !status.ok()) {
    ReleaseNfs();
    return status;
  }
  deployment_->source().SetPaused(false);
  return absl::OkStatus();
}

absl::Status Engine::SetPolicy(v1::Policy policy) {
  const std::lock_guard lock(mutex_);
  if (auto status = RequireRunning(); !status.ok()) return status;
  return ApplyPolicy(policy);
}

absl::Status Engine::ApplyPolicy(v1::Policy policy) {
  const auto traits = TraitsOf(policy);
  if (!traits.ok()) return traits.status();
  if (traits->nfs_yield) {
    for (const auto& nf : deployment_->nfs()) {
      if (nf.cooperates) continue;
      return absl::FailedPreconditionError(
          fmt::format("function {} does not co-operate: policy cooperative needs yield_every for "
                      "every function",
                      nf.name));
    }
  }
  absl::Status status;
  scheduling_->Do([&] {
    scheduling_->set_scheduler(nullptr);
    status = controller_->Release();
    status.Update(LetKernelDecide(*traits));
    if (traits->engine_decides && status.ok()) status = LetEngineDecide();
  });
  if (status.ok()) policy_ = policy;
  return status;
}

absl::Status Engine::LetKernelDecide(const PolicyTraits& traits) {
  if (auto status = SetYielding(Threads(), traits.nfs_yield); !status.ok()) return status;
  return SetSchedulingClass(Threads(), traits.kernel_class, traits.priority);
}

absl::Status Engine::LetEngineDecide() {
  std::vector<ScheduledNf> nfs;
  for (const auto& nf : deployment_->nfs()) {
    nfs.push_back(
        {.core = nf.core, .ingress = nf.ingress, .egress = nf.ingress + 1, .cost_ns = nf.cost_ns});
  }
  if (auto status = controller_->Acquire(); !status.ok()) {
    (void)controller_->Release();
    return status;
  }
  scheduling_->set_scheduler(std::make_unique<Scheduler>(
      settings_, std::move(nfs), static_cast<CoreIndex>(deployment_->cpus().size()), *monitor_,
      timer_, *controller_, trace_.get()));
  scheduling_->scheduler()->Start();
  return absl::OkStatus();
}

void Engine::ReleaseNfs() {
  if (scheduling_) scheduling_->Do([this] { scheduling_->set_scheduler(nullptr); });
  if (controller_) (void)controller_->Release();
  for (const auto& attached : attached_) {
    if (attached) (void)RestoreScheduling(attached->thread.tid, attached->before);
  }
  (void)rr_timeslice_.Restore();
  (void)rt_runtime_.Restore();
  policy_.reset();
}

// Waits until no packet is under way, or until nothing has moved for so long that what is left will
// stay, say with a function that collects packets. True if so: an account taken then is exact. The
// kernel runs the NFs meanwhile: Algorithm 1 has no reason to run one whose ingress is empty, even
// if it was preempted between sending a packet and counting it.
absl::StatusOr<bool> Engine::Drain(Nanoseconds timeout) {
  constexpr int kEmptyFor = 2, kStillFor = 250;  // polls
  if (auto status = ApplyPolicy(v1::POLICY_OTHER); !status.ok()) return status;
  const Nanoseconds deadline = timer_.Now() + timeout;
  std::uint64_t last = 0;
  int still = 0;
  while (timer_.Now() < deadline) {
    std::uint64_t moved = 0;
    for (const auto& nf : deployment_->nfs()) {
      const PortCounters counters = nf.port().Read();
      moved += counters.rx_packets + counters.tx_packets + counters.tx_refused;
    }
    for (const auto& chain : deployment_->chains()) moved += chain->delivered.value();
    still = moved == last ? still + 1 : 0;
    last = moved;
    const bool empty = deployment_->memory().InUse() <= deployment_->held_by_ports();
    if (still >= (empty ? kEmptyFor : kStillFor)) return true;
    std::this_thread::sleep_for(kPollEvery);
  }
  return false;
}

v1::Account Engine::TakeAccount(bool exact) const {
  v1::Account account;
  std::uint64_t taken = 0, in_rings = 0;
  account.set_unclassified(deployment_->source().unclassified());
  account.set_offered(account.unclassified());
  for (const auto& chain : deployment_->chains()) {
    account.set_offered(account.offered() + chain->offered.value());
    account.set_dropped_ingress_full(account.dropped_ingress_full() +
                                     chain->dropped_ingress_full.value());
    account.set_delivered(account.delivered() + chain->delivered.value());
    account.set_dropped_sink(account.dropped_sink() + chain->dropped_sink.value());
    in_rings += chain->InRings();
  }
  for (const auto& nf : deployment_->nfs()) {
    const PortCounters counters = nf.port().Read();
    account.set_dropped_egress_full(account.dropped_egress_full() + counters.tx_refused);
    const std::uint64_t done = counters.tx_packets + counters.tx_refused;
    taken += counters.rx_packets > done ? counters.rx_packets - done : 0;
  }
  const std::uint32_t in_use = deployment_->memory().InUse();
  const std::uint64_t in_flight = in_use - std::min(in_use, deployment_->held_by_ports());
  // What NFs took and neither sent nor were refused, they hold or have dropped by themselves.
  const std::uint64_t held = in_flight > in_rings ? in_flight - in_rings : 0;
  account.set_dropped_by_function(taken > held ? taken - held : 0);
  account.set_in_flight(in_flight);
  account.set_unaccounted(static_cast<std::int64_t>(account.offered()) -
                          static_cast<std::int64_t>(account.delivered() + account.unclassified() +
                                                    account.dropped_ingress_full() +
                                                    account.dropped_egress_full() +
                                                    account.dropped_by_function() +
                                                    account.dropped_sink() + account.in_flight()));
  account.set_exact(exact);
  return account;
}

absl::StatusOr<v1::Account> Engine::Settle(Nanoseconds timeout) {
  const std::lock_guard lock(mutex_);
  if (auto status = RequireRunning(); !status.ok()) return status;
  v1::Account account;
  const auto status = WhilePaused(timeout, [&](bool drained) { account = TakeAccount(drained); });
  if (!status.ok()) return status;
  return account;
}

absl::Status Engine::WhilePaused(Nanoseconds timeout, const std::function<void(bool)>& work) {
  const v1::Policy policy = *policy_;
  deployment_->source().SetPaused(true);
  const auto drained = Drain(timeout);
  if (!drained.ok()) return drained.status();
  work(*drained);
  if (auto status = ApplyPolicy(policy); !status.ok()) return status;
  deployment_->source().SetPaused(false);
  return absl::OkStatus();
}

absl::StatusOr<v1::Account> Engine::Stop(Nanoseconds timeout) {
  const std::lock_guard lock(mutex_);
  if (auto status = RequireDeployed(); !status.ok()) return status;
  deployment_->source().SetPaused(true);
  bool exact = true;
  if (policy_) {
    const auto drained = Drain(timeout);
    if (!drained.ok()) spdlog::warn("{}", drained.status().ToString());
    exact = drained.value_or(false);
  }
  const v1::Account account = TakeAccount(exact);
  ReleaseNfs();
  return account;
}

absl::StatusOr<v1::MeasureReply> Engine::Measure(const v1::MeasureRequest& request) {
  struct Snapshot {
    Nanoseconds time = 0;
    v1::Account account;
    std::uint64_t bytes = 0;
    std::uint64_t switches = 0;
    std::vector<std::uint64_t> cpu;
  };
  const auto snapshot = [this] {
    Snapshot s;
    s.cpu = CpuTimes();
    s.account = TakeAccount(false);
    for (const auto& chain : deployment_->chains()) s.bytes += chain->delivered_bytes.value();
    s.time = timer_.Now();
    scheduling_->Do([&] {
      for (CoreIndex core = 0;
           scheduling_->scheduler() != nullptr && core < deployment_->cpus().size(); ++core) {
        s.switches += scheduling_->scheduler()->Switches(core);
      }
    });
    return s;
  };
  std::unique_lock lock(mutex_);
  if (auto status = RequireRunning(); !status.ok()) return status;
  if (request.policy() != v1::POLICY_UNSPECIFIED && request.policy() != policy_) {
    if (auto status = ApplyPolicy(request.policy()); !status.ok()) return status;
  }
  lock.unlock();
  SleepFor(static_cast<Nanoseconds>(request.settle_ns()));
  lock.lock();
  if (!policy_) return StoppedMeanwhile();
  deployment_->sink().Do([this] {
    for (const auto& chain : deployment_->chains()) chain->latency.Reset();
  });
  const Snapshot begin = snapshot();
  lock.unlock();
  SleepFor(static_cast<Nanoseconds>(request.window_ns()));
  lock.lock();
  if (!policy_) return StoppedMeanwhile();
  const Snapshot end = snapshot();
  LatencyHistogram latency;
  deployment_->sink().Do([&] {
    for (const auto& chain : deployment_->chains()) latency.Merge(chain->latency);
  });
  const auto dropped = [](const v1::Account& a) {
    return a.unclassified() + a.dropped_ingress_full() + a.dropped_egress_full() +
           a.dropped_by_function() + a.dropped_sink();
  };
  v1::MeasureReply reply;
  reply.set_policy(*policy_);
  reply.set_window_ns(static_cast<std::uint64_t>(end.time - begin.time));
  reply.set_offered(end.account.offered() - begin.account.offered());
  reply.set_delivered(end.account.delivered() - begin.account.delivered());
  reply.set_delivered_bytes(end.bytes - begin.bytes);
  reply.set_dropped(std::max(dropped(end.account), dropped(begin.account)) -
                    dropped(begin.account));
  reply.set_switches(end.switches - begin.switches);
  *reply.mutable_latency() = ToProto(latency);
  for (std::size_t i = 0; i < end.cpu.size(); ++i) reply.add_nf_cpu_ns(end.cpu[i] - begin.cpu[i]);
  return reply;
}

absl::StatusOr<v1::TraceReply> Engine::Trace(Nanoseconds duration) {
  std::unique_lock lock(mutex_);
  if (auto status = RequireRunning(); !status.ok()) return status;
  v1::TraceReply reply;
  reply.set_policy(*policy_);
  scheduling_->Do([&] {
    trace_->Begin();
    reply.set_begin_ns(static_cast<std::uint64_t>(timer_.Now()));
  });
  lock.unlock();
  SleepFor(duration);
  lock.lock();
  scheduling_->Do([&] {
    trace_->End();
    reply.set_end_ns(static_cast<std::uint64_t>(timer_.Now()));
  });
  const auto& nfs = deployment_->nfs();
  for (const SwitchRecord& record : trace_->switches()) {
    auto* event = reply.add_switches();
    event->set_time_ns(static_cast<std::uint64_t>(record.time));
    event->set_cpu(deployment_->cpus()[record.core]);
    if (record.reason != SwitchReason::kStart) event->set_from(nfs[record.from].name);
    event->set_to(nfs[record.to].name);
    event->set_reason(ToProto(record.reason));
    event->set_from_ingress(record.from_ingress);
    event->set_from_egress(record.from_egress);
    event->set_to_ingress(record.to_ingress);
    event->set_to_egress(record.to_egress);
    event->set_slice_ns(static_cast<std::uint64_t>(record.slice));
  }
  for (const Run& run : trace_->runs()) {
    auto* interval = reply.add_runs();
    interval->set_cpu(nfs[run.nf].cpu);
    interval->set_nf(nfs[run.nf].name);
    interval->set_begin_ns(static_cast<std::uint64_t>(run.begin));
    interval->set_end_ns(static_cast<std::uint64_t>(run.end));
    interval->set_packets(run.packets);
  }
  reply.set_dropped_events(trace_->lost());
  return reply;
}

}  // namespace unis
