// What sending and receiving through packet sockets takes, by the frames of a call.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "models/calibrate/sampling.h"
#include "models/calibrate/scheduling.h"
#include "models/calibrate/sections.h"
#include "models/calibrate/veth.h"

namespace unis {
namespace {

constexpr std::size_t kFramesOfSample = 256;
constexpr std::size_t kPacketSamples = 31, kPacketWarmUp = 3;
constexpr std::array<unsigned, 10> kBatches = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256};
constexpr double kEmptyNs = 1e6;

Row PacketRow(std::string name, std::vector<Label> labels = {}) {
  return {.group = "packet",
          .name = std::move(name),
          .labels = std::move(labels),
          .provider = kClock,
          .ns = {},
          .missing = {}};
}

void MeasureBatch(const VethPair& pair, std::size_t frame, unsigned batch, bool bypass,
                  std::size_t samples, const Report& report) {
  std::vector<Label> labels = {{"frame_bytes", static_cast<std::int64_t>(frame)}};
  if (batch > 0) labels.emplace_back("batch", batch);
  std::vector<double> sent, received;
  absl::Status fine;
  const auto way = FrameWay::Open(pair, bypass);
  if (!way.ok()) fine = way.status();
  Batches batches(kFramesOfSample, frame, batch);
  for (std::size_t i = 0; fine.ok() && i < kPacketWarmUp + samples; ++i) {
    const double begin = NowNs();
    const std::size_t gone = batches.Send(way->sender());
    const double between = NowNs();
    const std::size_t come = batches.Receive(way->receiver());
    const double end = NowNs();
    if (come != kFramesOfSample)
      fine = absl::InternalError(
          fmt::format("of {} frames {} were sent and {} came", kFramesOfSample, gone, come));
    if (i < kPacketWarmUp) continue;
    sent.push_back((between - begin) / kFramesOfSample);
    received.push_back((end - between) / kFramesOfSample);
  }
  const auto told = [&](std::vector<double> values) -> Samples {
    if (!fine.ok()) return fine;
    return values;
  };
  std::vector<Label> of_sender = labels;
  of_sender.emplace_back("qdisc", bypass ? "bypassed" : "passed");
  report(With(PacketRow(batch == 0 ? "send" : "sendmmsg", of_sender), told(std::move(sent))));
  if (bypass)
    report(With(PacketRow(batch == 0 ? "recv" : "recvmmsg", labels), told(std::move(received))));
}

void MeasureEmpty(const VethPair& pair, std::size_t samples, const Report& report) {
  const auto way = FrameWay::Open(pair, true);
  const auto measure = [&](const char* name, auto call) {
    report(With(PacketRow(name),
                way.ok() ? Samples(SampleCalls(samples, kEmptyNs, call)) : way.status()));
  };
  Batches one(1, 60, 0), several(64, 60, 64);
  measure("empty recv", [&] { one.Receive(way->receiver()); });
  measure("empty recvmmsg", [&] { several.Receive(way->receiver()); });
  const auto polled = [&] {
    pollfd asked{.fd = way->receiver(), .events = POLLIN, .revents = 0};
    poll(&asked, 1, 0);
  };
  measure("poll, nothing there", polled);
  if (way.ok()) one.Send(way->sender());
  measure("poll, a frame there", polled);
}

}  // namespace

void MeasurePacketCalls(const Settings& settings, const Report& report) {
  const PinnedTo pinned(settings.cpu);
  const auto pair = VethPair::Make();
  if (!pair.ok()) {
    for (const char* name : {"send", "recv", "sendmmsg", "recvmmsg"})
      report(With(PacketRow(name), pair.status()));
    return;
  }
  const std::size_t samples = settings.samples(kPacketSamples);
  MeasureEmpty(*pair, samples, report);
  for (const std::size_t frame : {60, 1514}) {
    MeasureBatch(*pair, frame, 0, false, samples, report);
    for (const unsigned batch : kBatches) MeasureBatch(*pair, frame, batch, true, samples, report);
  }
}

}  // namespace unis
