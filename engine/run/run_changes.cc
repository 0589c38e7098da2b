// Operations that change what is deployed and which functions are attached.
#include <absl/cleanup/cleanup.h>
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/proc.h"
#include "engine/base/turns.h"
#include "engine/run/pollers.h"
#include "engine/run/run.h"
#include "engine/run/services.h"

namespace unis {
namespace {

using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

constexpr nanoseconds kLookEvery = std::chrono::milliseconds(2);
constexpr nanoseconds kEmptyTimeout = std::chrono::seconds(1);  // for chains that go
constexpr int kEmptyFor = 5, kStillFor = 20;                    // looks
constexpr nanoseconds kAttachTimeout = std::chrono::seconds(20);

nanoseconds TimeoutOf(const v1::AttachRequest& request) {
  return request.timeout_ns() > 0 ? nanoseconds(request.timeout_ns()) : kAttachTimeout;
}

}  // namespace

absl::Status Run::Apply(const v1::DeployRequest& request) {
  const auto pass = turnstile_.Enter("changing what runs");
  if (!pass.ok()) return pass.status();
  struct Now {
    bool is_it, running;
    const Deployment& deployment;
  };
  const auto now = state_.Do([&](RunState& state) -> absl::StatusOr<Now> {
    if (auto status = state.RequireDeployed(); !status.ok()) return status;
    const bool is_it = state.Is(request);
    if (auto status = is_it ? absl::OkStatus() : state.MayBecome(request); !status.ok())
      return status;
    return Now{.is_it = is_it, .running = state.running(), .deployment = state.deployment()};
  });
  if (!now.ok()) return now.status();
  absl::Status status;
  if (!now->is_it) {
    auto prepared = now->deployment.Prepare(request);
    if (!prepared.ok()) return prepared.status();
    if (now->running) status = TakeTimeslice(request.rr_timeslice_ms());
    if (status.ok() && now->running) LetRunEmpty(request);
    if (status.ok())
      status = state_.Do([&](RunState& state) { return state.Apply(*std::move(prepared)); });
  }
  // Of what is deployed now, whether that was an error or not.
  if (now->running) status.Update(TakeLeases());
  return status;
}

// The chains that `config` no longer has get no more packets, and pass on those that they have:
// all, or, where the policy lets a few wait for more, all but those.
void Run::LetRunEmpty(const v1::DeployRequest& config) {
  if (config.foreign()) return;  // who takes of its packets goes on
  // Each time anew: a look in between raises the chains whose functions are all there.
  const auto waiting = [&](RunState& state) -> std::optional<std::uint64_t> {
    const auto going = state.Close(config);
    std::uint64_t packets = 0;
    for (const LinkIndex link : going) packets += state.deployment().monitor().NumPkts(link);
    return going.empty() ? std::nullopt : std::optional(packets);
  };
  const auto deadline = Clock::now() + kEmptyTimeout;
  auto last = state_.Do(waiting);
  for (int still = 0; last && Clock::now() < deadline;) {
    if (!ending_.SleepFor(kLookEvery)) return;
    const auto now = state_.Do(waiting);
    still = now == last ? still + 1 : 0;
    if (still >= (now == 0U ? kEmptyFor : kStillFor)) return;
    last = now;
  }
}

absl::StatusOr<v1::AttachReply> Run::Attach(const v1::AttachRequest& request) {
  const auto pass = turnstile_.Enter("attaching a function");
  if (!pass.ok()) return pass.status();
  auto status = state_.Do([&](RunState& state) {
    auto deployed = state.RequireDeployed();
    return deployed.ok() ? state.BeginAttaching(request.function()) : deployed;
  });
  if (!status.ok()) return status;
  const absl::Cleanup over = [this] { state_.Do([](RunState& state) { state.EndAttaching(); }); };
  auto process = Pidfd::OfProcess(request.pid());
  if (!process.ok()) return process.status();
  const auto tids = WaitForPolling(request);
  if (!tids.ok()) return tids.status();
  // An engine before this one may have left it handing the CPU over.
  if (const auto turns = Turns::Find(request.pid()); turns.ok()) (*turns)->SetBudget(0);
  status =
      state_.Do([&](RunState& state) { return state.Attach(request, *std::move(process), *tids); });
  if (!status.ok()) return status;
  v1::AttachReply reply;
  reply.set_tid(tids->front());
  return reply;
}

absl::StatusOr<std::vector<pid_t>> Run::WaitForPolling(const v1::AttachRequest& request) {
  const std::string& name = request.function();
  struct Way {
    bool by_ports, waits, unseen;
  };
  const auto way = state_.Do([&](RunState& state) -> Way {
    const Topology& topology = state.deployment().topology();
    const auto& function = topology.functions[*topology.FindFunction(name)];
    const bool unseen = std::ranges::any_of(function.ports, [&](const Topology::Port& port) {
      return port.rx && !topology.link_of(*port.rx).kind->can_be_read();
    });
    return {.by_ports = function.counts(), .waits = function.config.waits(), .unseen = unseen};
  });
  if (!way.by_ports) {
    if (auto status = WaitForLinks(request); !status.ok()) return status;
    // Of such links none is connected here. Who has the plug-in has polled when he is attached.
    const bool starts = way.unseen && !way.waits && !Turns::Find(request.pid()).ok();
    const auto tids =
        FindPollers(name, request.pid(), way.waits, starts, TimeoutOf(request), ending_);
    if (!tids.ok()) return tids;
    // Once more: a client that was turned away at first has made itself new memory since.
    if (auto status = WaitForLinks(request); !status.ok()) return status;
    return tids;
  }
  pid_t tid = 0;
  const auto status = WaitFor(request, "it polled its port", [&](RunState& state) -> absl::Status {
    tid = state.deployment().PollerOf(name);
    if (tid == 0)
      return absl::NotFoundError("has not polled its port; does it use the port it is given?");
    if (ThreadExists(request.pid(), tid)) return absl::OkStatus();
    return absl::NotFoundError(
        fmt::format("has a port that thread {} polls, which is not of process {}: end that one",
                    tid, request.pid()));
  });
  if (!status.ok()) return status;
  return std::vector{tid};
}

absl::Status Run::WaitForLinks(const v1::AttachRequest& request) {
  return WaitFor(request, "its links were connected", [&](RunState& state) -> absl::Status {
    const auto found = state.deployment().FindLinks(request);
    if (found.ok()) return found;
    if (!absl::IsNotFound(found))
      return absl::Status(found.code(),
                          fmt::format("function {} has links that cannot be read: {}",
                                      request.function(), std::string(found.message())));
    return absl::NotFoundError(fmt::format(
        "has links that are not connected; does it use the ports that it is given, with as many "
        "queues as are said? {}",
        std::string(found.message())));
  });
}

absl::Status Run::WaitFor(const v1::AttachRequest& request, const char* what,
                          const std::function<absl::Status(RunState&)>& look) {
  const nanoseconds timeout = TimeoutOf(request);
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    const absl::Status status = state_.Do(look);
    if (!absl::IsNotFound(status)) return status;
    if (!ProcessRuns(request.pid()))
      return absl::FailedPreconditionError(
          fmt::format("function {} ended before {}", request.function(), what));
    if (Clock::now() > deadline)
      return absl::DeadlineExceededError(fmt::format(
          "after {:.0f} s function {} {}", std::chrono::duration<double>(timeout).count(),
          request.function(), std::string(status.message())));
    if (!ending_.SleepFor(kLookEvery)) return Ending();
  }
}

absl::Status Run::Detach(const v1::DetachRequest& request) {
  const auto pass = turnstile_.Enter("letting a function go");
  if (!pass.ok()) return pass.status();
  const std::string& name = request.function();
  auto status = state_.Do([&](RunState& state) {
    auto deployed = state.RequireDeployed();
    if (!deployed.ok() || state.deployment().topology().FindFunction(name)) return deployed;
    return absl::InvalidArgumentError(fmt::format("there is no function {}", name));
  });
  if (!status.ok()) return status;
  const bool gone = request.pid() > 0 && request.start_time() > 0 &&
                    !ProcessRuns(request.pid(), request.start_time());
  // The first thread of a process ends before the pidfd says that all of them have.
  const auto known = [&] {
    return state_.Do([&](RunState& state) {
      state.RemoveEnded();
      return state.threads().Remembers(name);
    });
  };
  for (const auto until = Clock::now() + kEmptyTimeout; gone && known() && Clock::now() < until;)
    if (!ending_.SleepFor(kLookEvery)) return Ending();
  const auto died = state_.Do([&](RunState& state) { return state.Detach(name, gone); });
  if (!died.ok() || !*died) return died.status();
  // What is still under way to it, from those before it.
  const auto drop = [&](RunState& state) {
    return state.running() ? std::optional(state.DropFor(name)) : std::nullopt;
  };
  const auto deadline = Clock::now() + kEmptyTimeout;
  std::uint64_t last = 0;
  for (int still = 0; still < kEmptyFor && Clock::now() < deadline;) {
    const auto dropped = state_.Do(drop);
    if (!dropped) break;
    still = *dropped == last ? still + 1 : 0;
    last = *dropped;
    if (!ending_.SleepFor(kLookEvery)) return Ending();
  }
  state_.Do([&](RunState& state) { state.Forget(name); });
  return absl::OkStatus();
}

}  // namespace unis
