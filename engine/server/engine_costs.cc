// What packets and switches cost, measured before the chains start; packets also while they pause.
#include <absl/cleanup/cleanup.h>
#include <fmt/format.h>
#include <rte_mbuf.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "engine/server/engine.h"
#include "engine/server/proc.h"

namespace unis {
namespace {

constexpr unsigned kSwitchCostRounds = 200;
constexpr std::uint32_t kEstimateRounds = 100;
constexpr std::uint32_t kTurns = 10;
constexpr int kAlonePriority = 2;
constexpr Nanoseconds kDrainTimeout = 2'000'000'000;
constexpr auto kStopTimeout = std::chrono::seconds(2);
constexpr auto kPollEvery = std::chrono::microseconds(200);

// The paper's cost of a fixed-cost function is that of the smallest frame (section 5.1.2).
std::vector<std::uint32_t> SizesOf(const v1::EstimateRequest& request) {
  if (request.sizes().empty()) return {kMinFrame};
  return {request.sizes().begin(), request.sizes().end()};
}

// Stops all threads of an NF and waits until its polling thread stands still.
absl::Status Stop(const NfThread& nf) {
  (void)kill(nf.pid, SIGSTOP);
  const auto deadline = std::chrono::steady_clock::now() + kStopTimeout;
  while (!ThreadStopped(nf.pid, nf.tid)) {
    if (!ProcessRuns(nf.pid)) {
      return absl::FailedPreconditionError(fmt::format("function {} has ended", nf.name));
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::DeadlineExceededError(fmt::format("function {} does not stop", nf.name));
    }
    std::this_thread::sleep_for(kPollEvery);
  }
  return absl::OkStatus();
}

// Writes packets over and over, as the source does in operation.
class PacketWork {
 public:
  explicit PacketWork(const PacketMemory& memory) {
    while (packets_.size() < kPackets) {
      rte_mbuf* const packet = rte_pktmbuf_alloc(memory.pool());
      if (packet == nullptr) break;
      packets_.push_back(packet);
    }
  }
  ~PacketWork() { rte_pktmbuf_free_bulk(packets_.data(), static_cast<unsigned>(packets_.size())); }
  PacketWork(const PacketWork&) = delete;
  PacketWork& operator=(const PacketWork&) = delete;

  void Burst() {
    for (std::size_t i = 0; i < kBurst && !packets_.empty(); ++i) {
      next_ = next_ + 1 < packets_.size() ? next_ + 1 : 0;
      rte_pktmbuf_reset(packets_[next_]);
      std::memset(rte_pktmbuf_mtod(packets_[next_], void*), 0, kMinFrame);
    }
  }

 private:
  static constexpr std::size_t kPackets = 4096;  // two rings full
  std::vector<rte_mbuf*> packets_;
  std::size_t next_ = 0;
};

void Fill(v1::SizeEstimate& size, const CostEstimate& cost, double cycles_per_ns) {
  size.set_ns(cost.ns);
  size.set_ns_q1(cost.ns_q1);
  size.set_ns_q3(cost.ns_q3);
  size.set_cycles(cost.ns * cycles_per_ns);
  size.set_burst_ns(cost.burst_ns);
}

// The mean over the sizes.
void FillMean(v1::NfEstimate& nf) {
  const auto share = 1.0 / static_cast<double>(nf.sizes().size());
  for (const auto& size : nf.sizes()) {
    nf.set_ns(nf.ns() + size.ns() * share);
    nf.set_ns_q1(nf.ns_q1() + size.ns_q1() * share);
    nf.set_ns_q3(nf.ns_q3() + size.ns_q3() * share);
    nf.set_cycles(nf.cycles() + size.cycles() * share);
  }
}

}  // namespace

absl::StatusOr<v1::EstimateReply> Engine::Estimate(const v1::EstimateRequest& request) {
  const std::lock_guard lock(mutex_);
  if (auto status = RequireDeployed(); !status.ok()) return status;
  if (!policy_) {
    if (auto status = rt_runtime_.Change(-1); !status.ok()) return status;
    auto reply = EstimateInTurns(request);
    if (auto status = rt_runtime_.Restore(); !status.ok()) return status;
    return reply;
  }
  absl::StatusOr<v1::EstimateReply> reply = absl::InternalError("not run");
  auto status = WhilePaused(kDrainTimeout, [&](bool) { reply = EstimateInTurns(request); });
  if (!status.ok()) return status;
  return reply;
}

absl::StatusOr<v1::EstimateReply> Engine::EstimateInTurns(const v1::EstimateRequest& request) {
  std::vector<std::size_t> nfs;
  for (const std::string& name : request.nfs()) {
    const auto index = FindNf(name);
    if (!index.ok()) return index.status();
    nfs.push_back(*index);
  }
  for (const auto& attached : attached_) {
    if (!attached) return absl::FailedPreconditionError("not every function is attached yet");
  }
  const std::vector<std::uint32_t> sizes = SizesOf(request);
  for (const std::uint32_t size : sizes) {
    if (size < kMinFrame || size > kMaxFrame) {
      return absl::InvalidArgumentError(
          fmt::format("frame size {} is not within {} to {} bytes", size, kMinFrame, kMaxFrame));
    }
  }
  const std::uint32_t rounds = request.rounds() > 0 ? request.rounds() : kEstimateRounds;
  std::vector<std::vector<CostSamples>> samples(nfs.size(), std::vector<CostSamples>(sizes.size()));
  // Nobody else takes the CPU, nor the packets.
  const absl::Cleanup go_on = [this] {
    for (const NfThread& nf : Threads()) (void)kill(nf.pid, SIGCONT);
  };
  for (const NfThread& nf : Threads()) {
    if (auto status = unis::Stop(nf); !status.ok()) return status;
  }
  for (std::uint32_t turn = 0; turn < kTurns; ++turn) {
    for (std::size_t nf = 0; nf < nfs.size(); ++nf) {
      for (std::size_t size = 0; size < sizes.size(); ++size) {
        const auto status =
            SampleAlone(nfs[nf], sizes[size], (rounds + kTurns - 1) / kTurns, samples[nf][size]);
        if (status.ok()) continue;
        return absl::Status(
            status.code(),
            fmt::format("cannot estimate what a packet of {} bytes costs {}: {}", sizes[size],
                        deployment_->nfs()[nfs[nf]].name, std::string(status.message())));
      }
    }
  }
  v1::EstimateReply reply;
  reply.set_tsc_hz(static_cast<double>(timer_.clock().hz()));
  for (std::size_t i = 0; i < nfs.size(); ++i) {
    auto& nf = deployment_->nfs()[nfs[i]];
    auto* estimate = reply.add_nfs();
    estimate->set_nf(nf.name);
    for (std::size_t size = 0; size < sizes.size(); ++size) {
      auto* of_size = estimate->add_sizes();
      of_size->set_size(sizes[size]);
      Fill(*of_size, samples[i][size].Estimate(), reply.tsc_hz() / 1e9);
    }
    FillMean(*estimate);
    nf.cost_ns = estimate->ns();
  }
  return reply;
}

// The sink's thread does the measuring: so it takes no packet away, and the source rests.
absl::Status Engine::SampleAlone(std::size_t index, std::uint32_t size, std::uint32_t rounds,
                                 CostSamples& samples) {
  const auto& nf = deployment_->nfs()[index];
  const NfThread& thread = attached_[index]->thread;
  (void)kill(thread.pid, SIGCONT);
  auto status = SetYielding({thread}, false);
  if (status.ok()) status = SetSchedulingClass(thread, SCHED_FIFO, kAlonePriority);
  if (status.ok()) {
    const Frames frames = deployment_->ProbeFrames(*nf.chain, size);
    CycleEstimator estimator(deployment_->memory(), nf.chain->link(nf.position),
                             nf.chain->link(nf.position + 1), nf.port());
    deployment_->sink().Do([&] { status = estimator.Run(frames, rounds, samples); });
  }
  status.Update(unis::Stop(thread));
  status.Update(SetSchedulingClass(thread, SCHED_IDLE, 0));
  return status;
}

absl::StatusOr<v1::SwitchCostReply> Engine::MeasureSwitchCost(
    const v1::SwitchCostRequest& request) {
  const std::lock_guard lock(mutex_);
  if (auto status = RequireDeployed(); !status.ok()) return status;
  if (policy_)
    return absl::FailedPreconditionError("the switch is measured before the chains start");
  if (auto status = rt_runtime_.Change(-1); !status.ok()) return status;
  const auto cost =
      SwitchCostOn(request.cpu(), request.rounds() > 0 ? request.rounds() : kSwitchCostRounds);
  if (auto status = rt_runtime_.Restore(); !status.ok()) return status;
  if (!cost.ok()) return cost.status();
  v1::SwitchCostReply reply;
  reply.set_call_ns(cost->call_ns);
  reply.set_until_preempted_ns(cost->until_preempted_ns);
  reply.set_until_running_ns(cost->until_running_ns);
  reply.set_until_running_ns_q1(cost->until_running_ns_q1);
  reply.set_until_running_ns_q3(cost->until_running_ns_q3);
  reply.set_yield_ns(cost->yield_ns);
  return reply;
}

absl::StatusOr<SwitchCost> Engine::SwitchCostOn(unsigned cpu, unsigned rounds) const {
  PacketWork work(deployment_->memory());
  return unis::MeasureSwitchCost(cpu, rounds, [&work] { work.Burst(); });
}

absl::Status Engine::ChooseLead() {
  const auto cost = SwitchCostOn(deployment_->cpus().front(), kSwitchCostRounds);
  if (!cost.ok()) return cost.status();
  switch_cost_ = *cost;
  if (!lead_given_) {
    settings_.lead = static_cast<Nanoseconds>(cost->until_preempted_ns);
    settings_.switch_time = static_cast<Nanoseconds>(cost->until_running_ns);
  }
  spdlog::info(
      "a switch: {:.1f} µs of system call, {:.1f} µs until the function stops, {:.1f} µs until the "
      "next one runs; yield {:.1f} µs",
      cost->call_ns / 1e3, cost->until_preempted_ns / 1e3, cost->until_running_ns / 1e3,
      cost->yield_ns / 1e3);
  return absl::OkStatus();
}

}  // namespace unis
