#include "engine/run/estimation.h"

#include <absl/cleanup/cleanup.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "engine/platform/links/ring.h"

namespace unis {
namespace {

constexpr std::uint32_t kRounds = 100;
constexpr std::uint32_t kTurns = 10;
constexpr int kAlonePriority = 2;
constexpr std::uint64_t kRoundsAtOnce = 4;  // in between others get at what the sink knows
constexpr int kFinishTries = 20;
constexpr auto kSettleTimeout = std::chrono::milliseconds(500);
constexpr auto kStopTimeout = std::chrono::seconds(2);
constexpr auto kWorkLookEvery = std::chrono::microseconds(200);

void Fill(v1::SizeEstimate& size, const CostEstimate& cost, double cycles_per_ns) {
  size.set_ns(cost.ns);
  size.set_ns_q1(cost.ns_q1);
  size.set_ns_q3(cost.ns_q3);
  size.set_cycles(cost.ns * cycles_per_ns);
  size.set_burst_ns(cost.burst_ns);
}

// What each of `sizes` sizes weighs in the mean; 1 in all.
std::vector<double> Weights(const v1::EstimateRequest& request, std::size_t sizes) {
  std::vector<double> weights(request.shares().begin(), request.shares().end());
  if (weights.empty()) weights.assign(sizes, 1);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

void FillMean(v1::FunctionEstimate& function, const std::vector<double>& weights) {
  for (int i = 0; i < function.sizes_size(); ++i) {
    const v1::SizeEstimate& size = function.sizes(i);
    const double share = weights[static_cast<std::size_t>(i)];
    function.set_ns(function.ns() + size.ns() * share);
    function.set_ns_q1(function.ns_q1() + size.ns_q1() * share);
    function.set_ns_q3(function.ns_q3() + size.ns_q3() * share);
    function.set_cycles(function.cycles() + size.cycles() * share);
  }
}

absl::Status WaitUntilStopped(HeldThread& thread) {
  const auto deadline = std::chrono::steady_clock::now() + kStopTimeout;
  while (!thread.stopped()) {
    if (!thread.alive())
      return absl::FailedPreconditionError(fmt::format("function {} has ended", thread.name()));
    if (std::chrono::steady_clock::now() > deadline)
      return absl::DeadlineExceededError(fmt::format("function {} does not stop", thread.name()));
    std::this_thread::sleep_for(kWorkLookEvery);
  }
  return absl::OkStatus();
}

// All threads of the process; returns once the polling one stands still. For that it must run, and
// in the class in which it waits, behind all others, it might not for long.
absl::Status StopAndWait(HeldThread& thread) {
  const auto before = thread.Class();
  (void)thread.Signal(SIGSTOP);
  if (before.ok()) (void)thread.SetClass(SCHED_FIFO, kAlonePriority);
  auto status = WaitUntilStopped(thread);
  if (before.ok()) status.Update(thread.RestoreClass(*before));
  return status;
}

}  // namespace

absl::StatusOr<v1::EstimateReply> Estimation::Run(const v1::EstimateRequest& request) {
  // The paper's cost of a fixed-cost function is that of the smallest frame (section 5.1.2).
  std::vector<std::uint32_t> sizes(request.sizes().begin(), request.sizes().end());
  if (!request.shares().empty() && request.shares_size() != request.sizes_size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} sizes and {} shares; state a share for each size, or none",
                    request.sizes_size(), request.shares_size()));
  }
  if (sizes.empty()) sizes.push_back(kMinFrame);
  const std::vector<HeldThread*> threads = threads_.AllLiving();
  std::vector<Subject> subjects;
  for (const std::string& name : request.functions()) {
    auto subject = SubjectOf(name, sizes.size());
    if (!subject.ok()) return subject.status();
    subjects.push_back(*std::move(subject));
  }
  const std::uint64_t rounds = request.rounds() > 0 ? request.rounds() : kRounds;
  // Nobody else takes the CPU, nor the packets.
  const absl::Cleanup as_before = [this, &threads] {
    deployment_.Rest(false);
    for (HeldThread* thread : threads) (void)thread->Signal(SIGCONT);
  };
  deployment_.Rest(true);
  for (HeldThread* thread : threads)
    if (auto status = StopAndWait(*thread); !status.ok()) return status;
  for (std::uint32_t turn = 0; turn < kTurns; ++turn) {
    for (Subject& subject : subjects) {
      if (!subject.not_measured.empty()) continue;
      for (std::size_t size = 0; size < sizes.size(); ++size) {
        const auto status =
            Sample(subject, sizes[size], (rounds + kTurns - 1) / kTurns, subject.samples[size]);
        if (status.ok()) continue;
        return absl::Status(status.code(),
                            fmt::format("cannot estimate what a packet of {} bytes costs {}: {}",
                                        sizes[size], subject.name, std::string(status.message())));
      }
    }
  }
  return Reply(subjects, sizes, Weights(request, sizes.size()));
}

absl::StatusOr<Estimation::Subject> Estimation::SubjectOf(const std::string& name,
                                                          std::size_t sizes) const {
  const auto function = deployment_.topology().FindFunction(name);
  if (!function) return absl::InvalidArgumentError(fmt::format("there is no function {}", name));
  if (auto injector = InjectorOf(*function); !injector.ok()) return injector.status();
  const auto threads = threads_.Living(name);
  if (threads.empty())
    return absl::FailedPreconditionError(fmt::format(
        "function {} {}", name, threads_.threads(name).empty() ? "is not attached" : "has ended"));
  return Subject{.name = name,
                 .function = *function,
                 .thread = threads.front(),
                 .not_measured = NotMeasurable(*function, threads.size()),
                 .samples = std::vector<CostSamples>(sizes)};
}

std::string Estimation::NotMeasurable(std::size_t function, std::size_t threads) const {
  if (threads > 1) return "several of its threads poll, and share the CPU even alone";
  const Topology& topology = deployment_.topology();
  const auto& path = topology.paths[topology.functions[function].paths.front()];
  for (const LinkIndex link : {path.in.front().link, path.out.front().link})
    if (const LinkKind& kind = *topology.link_of(link).kind; !kind.hands_over_at_once())
      return fmt::format("a {} hands over each packet while the next is sent", kind.name());
  return "";
}

// By its first path.
absl::StatusOr<std::unique_ptr<Injector>> Estimation::InjectorOf(std::size_t index) const {
  const auto& function = deployment_.topology().functions[index];
  const std::string& name = function.config.name();
  if (function.paths.empty())
    return absl::InvalidArgumentError(fmt::format("no chain passes through {}", name));
  const auto& path = deployment_.topology().paths[function.paths.front()];
  if (function.counts()) {
    const auto ring = [this](LinkIndex link) {
      return dynamic_cast<RingLink&>(deployment_.link(link)).ring();
    };
    return std::make_unique<RingInjector>(ring(path.in.front().link), ring(path.out.front().link),
                                          *deployment_.port(index, path.in.front().port), timer_);
  }
  const LinkIndex ingress = path.in.front().link, egress = path.out.front().link;
  LinkEnd* in = deployment_.link(ingress).end();
  LinkEnd* out = deployment_.link(egress).end();
  if (in == nullptr || out == nullptr)
    return absl::InvalidArgumentError(fmt::format(
        "function {} has a link to another function; state its cost_ns: the engine can only "
        "measure between links of its own",
        name));
  return std::make_unique<MemifInjector>(*in, deployment_.occupancy(ingress), *out,
                                         deployment_.occupancy(egress), timer_);
}

// The sink's thread does the measuring: source and sink rest.
absl::Status Estimation::Sample(Subject& subject, std::uint32_t size, std::uint64_t rounds,
                                CostSamples& samples) {
  if (auto status = go_on_(); !status.ok()) return status;
  HeldThread& thread = *subject.thread;
  const auto& function = deployment_.topology().functions[subject.function];
  const std::size_t chain = deployment_.topology().paths[function.paths.front()].chain;
  const Frames frames = deployment_.ProbeFrames(chain, size);
  // One for each turn: it remembers where the links stand, and others use them in between.
  absl::StatusOr<std::unique_ptr<Injector>> injector = absl::UnknownError("");
  deployment_.sink().Do([&] { injector = InjectorOf(subject.function); });
  if (!injector.ok()) return injector.status();
  CycleEstimator estimator(deployment_.memory(), **injector, timer_);
  const auto before = thread.Class();
  if (!before.ok()) return before.status();
  (void)thread.Signal(SIGCONT);
  absl::Status status;
  if (function.config.yield_every() > 0) status = thread.SetYielding(0);
  if (status.ok()) status = thread.SetClass(SCHED_FIFO, kAlonePriority);
  if (status.ok()) status = Rounds(estimator, frames, rounds, samples);
  status.Update(Finish(thread, estimator));
  status.Update(thread.RestoreClass(*before));
  return status;
}

absl::Status Estimation::Rounds(CycleEstimator& estimator, const Frames& frames,
                                std::uint64_t rounds, CostSamples& samples) {
  for (std::uint64_t done = 0; done < rounds; done += kRoundsAtOnce) {
    if (auto status = go_on_(); !status.ok()) return status;
    absl::Status status;
    deployment_.sink().Do(
        [&] { status = estimator.Run(frames, std::min(kRoundsAtOnce, rounds - done), samples); });
    if (!status.ok()) return status;
    std::this_thread::sleep_for(kWorkLookEvery);  // who waits for the sink goes first
  }
  return absl::OkStatus();
}

// Also where the run ends: what is left in the links would be delivered and was never offered.
absl::Status Estimation::Finish(HeldThread& thread, CycleEstimator& estimator) {
  const auto deadline = std::chrono::steady_clock::now() + kSettleTimeout;
  absl::Status status;
  for (int i = 0; i < kFinishTries; ++i) {
    (void)thread.Signal(SIGCONT);
    for (bool settled = false; !settled && std::chrono::steady_clock::now() < deadline;) {
      deployment_.sink().Do([&] { settled = estimator.Settle(); });
      if (!settled) std::this_thread::sleep_for(kWorkLookEvery);
    }
    if (status = StopAndWait(thread); !status.ok() && thread.alive()) return status;
    deployment_.sink().Do([&] { status = estimator.Finish(); });
    if (status.ok()) return status;
    if (std::chrono::steady_clock::now() >= deadline) return status;
  }
  return status;
}

absl::StatusOr<v1::EstimateReply> Estimation::Reply(std::vector<Subject>& subjects,
                                                    const std::vector<std::uint32_t>& sizes,
                                                    const std::vector<double>& weights) const {
  v1::EstimateReply reply;
  reply.set_tsc_hz(static_cast<double>(timer_.clock().hz()));
  for (Subject& subject : subjects) {
    auto* estimate = reply.add_functions();
    estimate->set_function(subject.name);
    estimate->set_not_measured(subject.not_measured);
    if (!subject.not_measured.empty()) continue;
    for (std::size_t size = 0; size < sizes.size(); ++size) {
      auto* of_size = estimate->add_sizes();
      of_size->set_size(sizes[size]);
      const auto cost = subject.samples[size].Estimate();
      if (!cost.ok())
        return absl::Status(
            cost.status().code(),
            fmt::format("cannot estimate what a packet of {} bytes costs {}: {}", sizes[size],
                        subject.name, std::string(cost.status().message())));
      Fill(*of_size, *cost, reply.tsc_hz() / 1e9);
    }
    FillMean(*estimate, weights);
  }
  return reply;
}

}  // namespace unis
