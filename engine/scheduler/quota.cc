// How many packets tasks take that pass the CPU on by themselves.
#include <algorithm>
#include <limits>
#include <span>

#include "engine/scheduler/scheduler.h"

namespace unis {
namespace {

// Counts of links are modulo 2^16: so often they are read, in which nobody takes so many packets.
constexpr Nanoseconds kCountEvery = 500'000;
constexpr Nanoseconds kCountsHold = 2'000'000;

constexpr std::uint32_t kLeastBacklog = 2 * kBatch;

}  // namespace

// A share γ of what fits into the least of its links: the task before could not fill up what this
// one empties, nor this one what the next one empties.
std::uint32_t Scheduler::MostInTurn(const TaskState& task) const noexcept {
  double least = std::numeric_limits<std::uint32_t>::max();
  for (std::uint32_t i = task.first_path; i < task.first_path + task.paths; ++i) {
    const double in = settings_.gamma * monitor_.PktCap(paths_[i].in);
    least = std::min({least, in, paths_[i].quota});
  }
  return std::max(static_cast<std::uint32_t>(least), kBatch);
}

std::uint32_t Scheduler::MostInTurn() const noexcept {
  std::uint32_t most = kBatch;
  for (const TaskState& task : tasks_) most = std::max(most, MostInTurn(task));
  return most;
}

std::uint32_t Scheduler::Quota() const noexcept {
  const bool handed_over =
      settings_.handover && std::ranges::any_of(tasks_, [this](const auto& task) {
        return controller_.PassesOn(task.index);
      });
  if (!handed_over) return 0;
  return search_ ? search_->found() : quota_;
}

// One that was made for another γ would go beyond what links hold under this one.
void Scheduler::GoOnWith(const QuotaSearch& search) noexcept {
  if (!search_ || search.most() != search_->most()) return;
  search_ = search;
  search_->Interrupt();
}

// A packet counts as much in both windows of a pair, whatever becomes of its cost.
void Scheduler::CountWork() noexcept {
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const std::uint16_t received = monitor_.Received(paths_[i].in);
    work_ += worths_[i].ns * static_cast<std::uint16_t>(received - worths_[i].received);
    worths_[i].received = received;
    if (!search_->trying()) worths_[i].ns = costs_.Ns(paths_[i].function);
  }
}

Nanoseconds Scheduler::RoundOf(std::uint32_t quota) const noexcept {
  double round = 0;
  for (const TaskState& task : tasks_)
    round += costs_.Ns(paths_[task.first_path].function) * std::min(quota, MostInTurn(task));
  return static_cast<Nanoseconds>(round);
}

// Where a chain has more than it can do, at least half a turn waits before or behind who has it.
bool Scheduler::HasBacklog(std::uint32_t quota) const noexcept {
  return std::ranges::any_of(tasks_, [&](const TaskState& task) {
    const std::uint32_t much = std::max(std::min(quota, MostInTurn(task)) / 2, kLeastBacklog);
    const auto paths = std::span(paths_).subspan(task.first_path, task.paths);
    return std::ranges::any_of(paths, [&](const PathState& path) {
      return BelowMax(path) > 0 && monitor_.NumPkts(path.in) >= much;
    });
  });
}

void Scheduler::SearchQuota(Nanoseconds now) noexcept {
  if (!search_) return;
  // While others ran, or all slept, nobody counted.
  if (now - counted_ > kCountsHold) {
    search_->Missed(now);
    counted_ = now - kCountEvery;
  }
  const bool due = now >= search_->next_look();
  if (!due && now - counted_ < kCountEvery) return;
  CountWork();
  counted_ = now;
  search_->Seen(now);
  if (!due) return;
  const std::uint32_t quota = search_->quota();
  const bool changed = search_->OnLook(
      {.now = now, .work = work_, .round = RoundOf(quota), .backlog = HasBacklog(quota)});
  if (changed) SetQuota(search_->quota());
}

void Scheduler::SetQuota(std::uint32_t packets) noexcept {
  for (const TaskState& task : tasks_)
    controller_.SetQuota(task.index, std::min(packets, MostInTurn(task)));
}

}  // namespace unis
