#include "models/simulator/machine.h"

#include <algorithm>

namespace unis::sim {
namespace {

std::vector<std::uint32_t> DistinctCpus(const Scenario& scenario) {
  std::vector<std::uint32_t> cpus;
  for (const FunctionSpec& function : scenario.functions) cpus.push_back(function.cpu);
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::vector<CoreIndex> CoresOf(const Scenario& scenario, const std::vector<std::uint32_t>& cpus) {
  std::vector<CoreIndex> cores;
  for (const FunctionSpec& function : scenario.functions) {
    const auto cpu = std::lower_bound(cpus.begin(), cpus.end(), function.cpu);
    cores.push_back(static_cast<CoreIndex>(cpu - cpus.begin()));
  }
  return cores;
}

}  // namespace

Machine::Machine(const Scenario& scenario)
    : poll_(FromNs(scenario.machine.poll_ns)),
      trace_(scenario.trace),
      cpus_(DistinctCpus(scenario)),
      rings_(scenario, CoresOf(scenario, cpus_)),
      cores_(cpus_.size()),
      agenda_(cpus_.size(), kNever) {
  for (const Task& task : rings_.tasks().tasks) {
    functions_.push_back({.core = task.core, .hops = rings_.HopsOf(task.function), .burst = {}});
    functions_.back().burst.reserve(kBatch);
  }
}

void Machine::Start(TaskIndex task, Time now) {
  Resume(functions_[task].core, task, now);
  Reschedule(functions_[task].core);
}

void Machine::HandOver(TaskIndex to, Time stop, Time start) {
  const CoreIndex core = functions_[to].core;
  auto& pending = cores_[core].hand_overs;
  if (!pending.empty()) stop = std::max(stop, pending.back().start);
  pending.push_back({.to = to, .stop = stop, .start = std::max(start, stop)});
  Reschedule(core);
}

// A burst that ends when its function is to be stopped is finished first.
void Machine::OnCoreEvent(CoreIndex index, Time now) {
  Core& core = cores_[index];
  if (core.due == now) {
    EndPoll(index, now);
  } else if (!core.hand_overs.front().stopped) {
    Stop(index, now);
    core.hand_overs.front().stopped = true;
  } else {
    const TaskIndex to = core.hand_overs.front().to;
    core.hand_overs.pop_front();
    ++switches_;
    ++functions_[to].switched_in;
    Resume(index, to, now);
  }
  Reschedule(index);
}

void Machine::Reschedule(CoreIndex index) {
  const Core& core = cores_[index];
  Time next = core.due;
  if (!core.hand_overs.empty()) {
    const PendingHandOver& first = core.hand_overs.front();
    next = std::min(next, first.stopped ? first.start : first.stop);
  }
  agenda_[index] = next;
}

void Machine::Resume(CoreIndex index, TaskIndex next, Time now) {
  Core& core = cores_[index];
  core.running = next;
  core.run_begin = now;
  const Function& function = functions_[next];
  if (function.in_hand == 0) {
    Poll(index, now);
    return;
  }
  core.activity = Activity::kWorking;
  core.since = now;
  core.due = now + function.work_left;
}

void Machine::Stop(CoreIndex index, Time now) {
  Core& core = cores_[index];
  Account(core, now);
  if (core.activity == Activity::kWorking) functions_[*core.running].work_left = core.due - now;
  EndRun(index, now);
  core.running.reset();
  core.activity = Activity::kNone;
  core.due = kNever;
}

void Machine::Poll(CoreIndex index, Time now) {
  Core& core = cores_[index];
  Function& function = functions_[*core.running];
  core.since = now;
  if (TakeBurst(function, now)) {
    core.activity = Activity::kWorking;
    core.due = now + rings_.WorkOn(function.hop, function.burst, now);
    return;
  }
  core.activity = Activity::kSpinning;
  core.spin_begin = now;
  core.due = observer_->WantsEmptyPolls(index, *core.running) ? now + poll_ : kNever;
}

bool Machine::TakeBurst(Function& function, Time now) {
  for (HopIndex polls = 0; polls < function.hops.size && function.in_hand == 0; ++polls) {
    function.hop = function.hops.begin + function.next_hop;
    function.next_hop = (function.next_hop + 1) % function.hops.size;
    function.in_hand = rings_.Take(function.hop, function.burst, now);
  }
  WakeReaders(now);
  return function.in_hand > 0;
}

void Machine::EndPoll(CoreIndex index, Time now) {
  Core& core = cores_[index];
  const TaskIndex running = *core.running;
  Function& function = functions_[running];
  Account(core, now);
  const bool worked = core.activity == Activity::kWorking;
  const std::uint32_t packets = worked ? function.in_hand : 0;
  if (worked) {
    core.run_packets += packets;
    rings_.Put(function.hop, function.burst, now);
    function.burst.clear();
    function.in_hand = 0;
    function.work_left = 0;
    WakeReaders(now);
  }
  core.activity = Activity::kNone;
  core.due = kNever;
  if (worked || observer_->WantsEmptyPolls(index, running))
    observer_->OnPollEnd(index, running, packets, now);
  if (core.hand_overs.empty() || core.hand_overs.front().stop > now) Poll(index, now);
}

// It finds the packets with its first poll that begins now or later.
void Machine::Wake(TaskIndex reader, Time now) {
  const CoreIndex index = functions_[reader].core;
  Core& core = cores_[index];
  if (core.running != reader || core.activity != Activity::kSpinning || core.due != kNever) return;
  const Time polls = std::max<Time>(1, (now - core.spin_begin + poll_ - 1) / poll_);
  core.due = core.spin_begin + polls * poll_;
  Reschedule(index);
}

void Machine::Arrive(std::size_t chain, std::uint32_t count, Time now) {
  rings_.Arrive(chain, count, now);
  WakeReaders(now);
}

std::uint32_t Machine::Deliver(std::size_t chain, std::uint32_t most, Time now) {
  const std::uint32_t count = rings_.Deliver(chain, most, now);
  WakeReaders(now);
  return count;
}

void Machine::WakeReaders(Time now) {
  rings_.WakeReaders([this, now](TaskIndex reader) { Wake(reader, now); });
}

void Machine::Account(Core& core, Time now) {
  if (core.activity == Activity::kWorking) functions_[*core.running].busy += now - core.since;
  if (core.activity == Activity::kSpinning) functions_[*core.running].spinning += now - core.since;
  core.since = now;
}

void Machine::EndRun(CoreIndex index, Time now) {
  Core& core = cores_[index];
  if (trace_ && core.running && now > core.run_begin) {
    const Nanoseconds begin = core.run_begin / kNanosecond;
    const Nanoseconds end = now / kNanosecond;
    if (core.last_run && runs_[*core.last_run].function == *core.running &&
        runs_[*core.last_run].end == begin) {
      runs_[*core.last_run].end = end;
      runs_[*core.last_run].packets += core.run_packets;
    } else {
      core.last_run = runs_.size();
      runs_.push_back({index, *core.running, begin, end, core.run_packets});
    }
  }
  core.run_packets = 0;
}

void Machine::BeginMeasuring(Time now) {
  for (Core& core : cores_) {
    Account(core, now);
    core.run_begin = std::max(core.run_begin, now);
    core.run_packets = 0;
    core.last_run.reset();
  }
  for (Function& function : functions_) {
    function.busy = function.spinning = 0;
    function.switched_in = 0;
  }
  rings_.BeginMeasuring();
  runs_.clear();
  switches_ = 0;
}

void Machine::Collect(Time now, Result& result) {
  for (CoreIndex core = 0; core < cores_.size(); ++core) {
    Account(cores_[core], now);
    EndRun(core, now);
  }
  result.cpus = cpus_;
  result.chains = rings_.Chains();
  result.functions = rings_.functions();
  for (TaskIndex task = 0; task < functions_.size(); ++task) {
    FunctionResult& counts = result.functions[task];
    counts.busy = functions_[task].busy / kNanosecond;
    counts.spinning = functions_[task].spinning / kNanosecond;
    counts.switched_in = functions_[task].switched_in;
  }
  result.switches = switches_;
  result.runs = runs_;
}

}  // namespace unis::sim
