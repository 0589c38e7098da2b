// What a BPF program on a tracepoint costs each time that it runs: the same program attached once
// and twice, around work that passes the tracepoint.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "engine/base/quantile.h"
#include "models/calibrate/partner.h"
#include "models/calibrate/probe.h"
#include "models/calibrate/sampling.h"
#include "models/calibrate/scheduling.h"
#include "models/calibrate/sections.h"
#include "models/calibrate/veth.h"

namespace unis {
namespace {

constexpr std::size_t kProbeSamples = 15, kFramesOfTrigger = 256;
constexpr int kRoundsOfTrigger = 200, kTriggersOfSample = 9;

// Passes the tracepoint; returns the ns that this took, without what else is to be done.
using Trigger = std::function<double()>;

struct Costs {
  std::vector<double> first, second;  // ns an event, of the first program and of one more
};

absl::StatusOr<Costs> CostsOf(const Settings& settings, const std::string& name,
                              const Trigger& trigger) {
  auto one = Probe::Load(settings.probes, name), other = Probe::Load(settings.probes, name);
  if (!one.ok()) return one.status();
  if (!other.ok()) return other.status();
  const auto median = [&] {
    std::vector<double> found;
    for (int i = 0; i < kTriggersOfSample; ++i) found.push_back(trigger());
    return Quantile(found, 0.5);
  };
  Costs costs;
  for (std::size_t i = 0; i < settings.samples(kProbeSamples); ++i) {
    trigger();  // warms up
    const double without = median();
    if (const absl::Status attached = one->Attach(); !attached.ok()) return attached;
    const std::uint64_t before = one->EventsOn(settings.cpu);
    const double once = median();
    const double events =
        static_cast<double>(one->EventsOn(settings.cpu) - before) / kTriggersOfSample;
    if (const absl::Status attached = other->Attach(); !attached.ok()) return attached;
    const double twice = median();
    one->Detach();
    other->Detach();
    if (events < 1) return absl::FailedPreconditionError("nothing here passes the tracepoint");
    costs.first.push_back((once - without) / events);
    costs.second.push_back((twice - once) / events);
  }
  return costs;
}

double Timed(const std::function<void()>& work) {
  const double begin = NowNs();
  work();
  return NowNs() - begin;
}

void MeasureProbe(const Settings& settings, const char* name, const absl::Status& able,
                  const Trigger& trigger, const Report& report) {
  const absl::StatusOr<Costs> costs = able.ok() ? CostsOf(settings, name, trigger) : able;
  const auto row = [&](const char* which, std::vector<double> Costs::*samples) {
    Row row{.group = "probe",
            .name = name,
            .labels = {{"program", which}},
            .provider = fmt::format("tp_btf program, difference by {}", kClock),
            .ns = {},
            .missing = {}};
    report(With(std::move(row), costs.ok() ? Samples((*costs).*samples) : costs.status()));
  };
  row("first", &Costs::first);
  row("second", &Costs::second);
}

void MeasureOnPackets(const Settings& settings, const Report& report) {
  const auto pair = VethPair::Make();
  const absl::StatusOr<FrameWay> way = pair.ok() ? FrameWay::Open(*pair, false) : pair.status();
  Batches batches(kFramesOfTrigger, 60, 64);
  const auto both = [&](bool of_sending) {
    const double sending = Timed([&] { batches.Send(way->sender()); });
    const double receiving = Timed([&] { batches.Receive(way->receiver()); });
    return of_sending ? sending : receiving;
  };
  for (const char* name : {"netif_receive_skb", "net_dev_queue", "net_dev_start_xmit"})
    MeasureProbe(
        settings, name, way.status(), [&] { return both(true); }, report);
  MeasureProbe(
      settings, "skb_copy_datagram_iovec", way.status(), [&] { return both(false); }, report);
}

void MeasureOnSwitches(const Settings& settings, const Report& report) {
  const PipePair pipes;
  if (!pipes.valid()) return;
  const Beside partner = Beside::Thread([&] { pipes.Answer(); });  // on this CPU, as this thread is
  for (const char* name : {"sched_switch", "sched_waking"})
    MeasureProbe(
        settings, name, absl::OkStatus(),
        [&] {
          return Timed([&] {
            for (int i = 0; i < kRoundsOfTrigger; ++i) (void)pipes.Round();
          });
        },
        report);
  pipes.EndRounds();
}

}  // namespace

void MeasureProbes(const Settings& settings, const Report& report) {
  const PinnedTo pinned(settings.cpu);
  MeasureOnPackets(settings, report);
  MeasureOnSwitches(settings, report);
}

}  // namespace unis
