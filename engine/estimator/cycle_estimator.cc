#include "engine/estimator/cycle_estimator.h"

#include <fmt/format.h>
#include <rte_memcpy.h>

#include <algorithm>
#include <array>

#include "engine/base/quantile.h"

namespace unis {
namespace {

constexpr Nanoseconds kTimeout = 500'000'000;  // a virtual machine's CPU may stand still for 0.1 s

}  // namespace

absl::StatusOr<CostEstimate> CostSamples::Estimate() {
  const double mean = InterquartileMean(ns);
  if (!(mean > 0))
    return absl::UnavailableError(
        "more packets take no longer than fewer, as far as can be measured here; try more rounds "
        "on "
        "a quieter machine, or state cost_ns");
  return CostEstimate{.ns = mean,
                      .ns_q1 = Quantile(ns, 0.25),
                      .ns_q3 = Quantile(ns, 0.75),
                      .burst_ns = Quantile(burst_ns, 0.5)};
}

CycleEstimator::CycleEstimator(const PacketMemory& memory, Injector& injector,
                               const TimerSubsystem& timer)
    : memory_(memory), injector_(injector), timer_(timer), found_in_use_(memory.InUse()) {}

absl::Status CycleEstimator::CheckLinks() const {
  const std::uint32_t room = injector_.Room();
  if (room < 2 * kShortBurst) {
    return absl::FailedPreconditionError(fmt::format(
        "a link of {} packets is too short to estimate on; state cost_ns, or use links of {} "
        "and more",
        room, 4 * kShortBurst));
  }
  if (injector_.WaitingBefore() > 0 || injector_.WaitingBehind() > 0) {
    return absl::FailedPreconditionError(
        fmt::format("packets wait in the links of the function, {} in front of it and {} behind; "
                    "estimate while no traffic runs",
                    injector_.WaitingBefore(), injector_.WaitingBehind()));
  }
  return absl::OkStatus();
}

absl::Status CycleEstimator::Run(const Frames& frames, std::uint64_t rounds, CostSamples& samples) {
  // Rounds in which caches and branch predictors settle.
  constexpr std::uint64_t kFirstWarmUp = 8, kWarmUp = 1;
  if (!begun_) {
    if (auto status = CheckLinks(); !status.ok()) return status;
  }
  const std::uint64_t warm_up = begun_ ? kWarmUp : kFirstWarmUp;
  begun_ = true;
  settled_ = false;
  // A link must hold the train whole, in front of the function and behind it.
  const std::uint32_t room = injector_.Room();
  burst_ = room < 2 * kBurst ? kShortBurst : kBurst;
  const std::uint32_t train = std::clamp(room / burst_, 2U, kTrain);
  for (std::uint64_t round = 0; round < warm_up + rounds; ++round) {
    const auto one = TimeTrain(frames, 1);
    if (!one.ok()) return one.status();
    const auto many = TimeTrain(frames, train);
    if (!many.ok()) return many.status();
    if (round < warm_up) continue;
    samples.burst_ns.push_back(*one);
    samples.ns.push_back(std::max(0.0, (*many - *one) / ((train - 1) * burst_)));
  }
  return absl::OkStatus();
}

bool CycleEstimator::Settle() {
  // In this order: what a function that is done has sent is behind it, where it is seen.
  settled_ = !begun_ || (injector_.DoneAt() > 0 && Collect() == 0 && InHand() == 0);
  return settled_;
}

absl::Status CycleEstimator::Finish() {
  if (!begun_) return absl::OkStatus();  // what waits in the links is not ours
  while (Collect() > 0) {
  }
  const std::uint32_t waiting = injector_.WaitingBefore();
  const std::int64_t in_hand = InHand() - waiting;
  if (!settled_ || waiting > 0 || in_hand != 0)
    return absl::FailedPreconditionError(fmt::format(
        "it does not give back what it was sent: {} packets wait in front of it and it holds {}",
        waiting, std::max<std::int64_t>(in_hand, 0)));
  injector_.Rewind();
  return absl::OkStatus();
}

// Packets that are in use and were not at first, but for those that rest: in front of the function
// or in its hands. Behind memifs there are copies, which nobody sees. A function that runs may make
// the number wrong for a moment, while it gives packets back.
std::int64_t CycleEstimator::InHand() const {
  const auto rested = std::count_if(rested_.begin(), rested_.end(), [this](const rte_mbuf* packet) {
    return packet->pool == memory_.pool();
  });
  return std::int64_t{memory_.InUse()} - found_in_use_ - rested;
}

// What was taken for dropped may still come.
void CycleEstimator::AwaitQuiet() {
  const Nanoseconds begin = timer_.Now();
  while (Collect() > 0 || injector_.WaitingBefore() > 0) {
    if (timer_.Now() - begin > kTimeout) return;  // the train will say so
  }
}

absl::StatusOr<double> CycleEstimator::TimeTrain(const Frames& frames, std::uint32_t bursts) {
  const std::uint32_t count = bursts * burst_;
  AwaitQuiet();
  if (!Fill(frames, count)) return absl::ResourceExhaustedError("the packet memory is empty");
  const std::uint32_t sent = injector_.Send(packets_);
  // Rings and memifs show a train when it is whole: what copying it took is not the function's.
  const Nanoseconds begin = timer_.Now();
  rested_.insert(rested_.begin(), packets_.begin() + sent, packets_.end());
  if (sent < count) {
    return absl::UnavailableError(
        fmt::format("the link to the function takes {} of {} packets; is it up?", sent, count));
  }
  std::uint32_t back = 0;
  Nanoseconds end = begin;
  while (back < count) {
    const std::uint32_t n = Collect();
    const Nanoseconds now = timer_.Now();
    back += n;
    if (n > 0) {
      end = now;
      continue;
    }
    // A function that drops packets has answered when it is done.
    if (const Nanoseconds done = injector_.DoneAt(); done > 0) {
      end = std::max(end, done);
      while (const std::uint32_t rest = Collect()) back += rest;
      break;
    }
    KeepBusy(frames);
    if (now - begin > kTimeout) {
      return absl::DeadlineExceededError(fmt::format(
          "{} of {} packets came back within 0.5 s; does the function forward what it receives?",
          back, count));
    }
  }
  return static_cast<double>(end - begin);
}

// The packets that rested longest, filled anew.
bool CycleEstimator::Fill(const Frames& frames, std::uint32_t count) {
  // As much as the source would have under way, but no more than leaves some to the caches of
  // lcores.
  const std::uint32_t working_set = std::min(2 * injector_.Room(), memory_.size() / 2);
  if (!TakeRest(std::max(count, working_set))) return false;
  packets_.assign(rested_.begin(), rested_.begin() + count);
  rested_.erase(rested_.begin(), rested_.begin() + count);
  for (std::uint32_t i = 0; i < count; ++i) Write(frames, i, packets_[i]);
  return true;
}

void CycleEstimator::Write(const Frames& frames, std::size_t index, rte_mbuf* packet) {
  const Frames::Frame& frame = frames[index % frames.size()];
  rte_pktmbuf_reset(packet);
  rte_memcpy(rte_pktmbuf_mtod(packet, void*), frames.Bytes(frame).data(), frame.stored);
  packet->data_len = frame.length;
  packet->pkt_len = frame.length;
}

// While it waits it writes packets, as source and sink go on when an NF runs: they may share caches
// and, as two hardware threads, a core with the NF.
void CycleEstimator::KeepBusy(const Frames& frames) {
  constexpr std::size_t kPackets = 8;  // well below a microsecond
  for (std::size_t i = 0; i < kPackets && !rested_.empty(); ++i) {
    ++written_;
    Write(frames, written_, rested_[written_ % rested_.size()]);
  }
}

// Brings the number of rested packets up to `rest`: at first all, then what the NF dropped.
bool CycleEstimator::TakeRest(std::uint32_t rest) {
  while (rested_.size() < rest) {
    rte_mbuf* packet = rte_pktmbuf_alloc(memory_.pool());
    if (packet == nullptr) return false;
    memory_.Stamp(packet) = 0;  // it enters no chain
    rested_.push_back(packet);
  }
  return true;
}

std::uint32_t CycleEstimator::Collect() {
  std::array<rte_mbuf*, kBurst> packets;
  const std::uint32_t count = injector_.Receive(packets);
  rested_.insert(rested_.end(), packets.begin(), packets.begin() + count);
  return count;
}

CycleEstimator::~CycleEstimator() {
  for (rte_mbuf* packet : rested_) rte_pktmbuf_free(packet);
}

}  // namespace unis
