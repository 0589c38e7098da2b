// What it takes until the CPU has gone from one thread to another, by the class of both.
#include <fmt/format.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <string_view>

#include "models/calibrate/partner.h"
#include "models/calibrate/sampling.h"
#include "models/calibrate/scheduling.h"
#include "models/calibrate/sections.h"

namespace unis {
namespace {

constexpr std::size_t kSwitchSamples = 21;
constexpr int kRounds = 200;       // of a sample
constexpr double kMostNs = 150e6;  // of one measurement, and so of real-time work without a rest
constexpr int kMostYieldsOfRound = 20;
constexpr double kMostYields = 1.1;  // a switch; more, and the time is that of other yields
constexpr unsigned kBoundSeconds = 2;

// What both sides see.
struct Table {
  std::atomic<int> arrived{0};
  std::atomic<bool> ends{false};
  std::atomic<int> last{0};             // that got the CPU by a yield
  std::atomic<int> partners_yields{0};  // its calls
  std::atomic<std::uint32_t> turn{0};   // a futex: 0, the measuring side's; 1, the partner's
  std::atomic<bool> refused{false};
};

void Meet(Table& table) {
  ++table.arrived;
  while (table.arrived < 2 && !table.refused) {
    const timespec moment{.tv_sec = 0, .tv_nsec = 50'000};
    nanosleep(&moment, nullptr);
  }
}

// Pass to the other side, and have the CPU back. False: it is over, or cannot be.
class Way {
 public:
  virtual ~Way() = default;
  virtual void WarmedUp() {}  // what was counted before does not count
  virtual absl::Status Round() = 0;
  virtual void Partner() = 0;  // until End()
  virtual void End() = 0;
};

class ByYield : public Way {
 public:
  explicit ByYield(Table& table) : table_(table) {}

  absl::Status Round() override {
    for (int i = 0; i < kMostYieldsOfRound; ++i) {
      ++yields_;
      if (Yielded(1)) {
        ++switches_;
        break;
      }
    }
    // Of both sides: what the partner yields in vain is in the time as well.
    const int yields = yields_ + PartnersYields() - partners_before_;
    if (yields > 2 * kRounds && yields > kMostYields * 2 * switches_)
      return absl::FailedPreconditionError(
          fmt::format("sched_yield passes the CPU on in {:.0f} % of its calls only: see the pipe",
                      200.0 * switches_ / yields));
    return absl::OkStatus();
  }
  void WarmedUp() override {
    yields_ = switches_ = 0;
    partners_before_ = PartnersYields();
  }
  void Partner() override {
    while (!table_.ends) {
      table_.partners_yields.store(PartnersYields() + 1, std::memory_order_relaxed);
      Yielded(2);
    }
  }
  void End() override { table_.ends = true; }

 private:
  // Whether the other side has run meanwhile.
  bool Yielded(int side) {
    sched_yield();
    return table_.last.exchange(side, std::memory_order_relaxed) != side;
  }

  int PartnersYields() const { return table_.partners_yields.load(std::memory_order_relaxed); }

  Table& table_;
  int yields_ = 0, switches_ = 0, partners_before_ = 0;
};

class ByPipe : public Way {
 public:
  absl::Status Round() override {
    return pipes_.Round() ? absl::OkStatus() : absl::InternalError("the partner has ended");
  }
  void Partner() override { pipes_.Answer(); }
  void End() override { pipes_.EndRounds(); }

 private:
  PipePair pipes_;
};

class ByFutex : public Way {
 public:
  explicit ByFutex(Table& table) : table_(table) {}

  absl::Status Round() override {
    PassTo(1);
    WaitFor(0);
    return absl::OkStatus();
  }
  void Partner() override {
    while (true) {
      WaitFor(1);
      if (table_.ends) return;
      PassTo(0);
    }
  }
  void End() override {
    table_.ends = true;
    PassTo(1);
  }

 private:
  void PassTo(std::uint32_t side) {
    table_.turn = side;
    syscall(SYS_futex, &table_.turn, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  void WaitFor(std::uint32_t side) {
    while (table_.turn != side)
      syscall(SYS_futex, &table_.turn, FUTEX_WAIT, 1 - side, nullptr, nullptr, 0);
  }

  Table& table_;
};

Samples RoundsOf(Way& way, std::size_t samples) {
  // Until both have woken up from their meeting.
  for (int round = 0; round < kRounds; ++round) (void)way.Round();
  way.WarmedUp();
  std::vector<double> found;
  const double begin = NowNs();
  while (found.size() < samples && NowNs() < begin + kMostNs) {
    const double started = NowNs();
    for (int round = 0; round < kRounds; ++round)
      if (const absl::Status done = way.Round(); !done.ok()) return done;
    found.push_back((NowNs() - started) / (2 * kRounds));
  }
  return found;
}

Samples SwitchSamples(const Settings& settings, const SchedulingClass& in, std::string_view how,
                      bool processes) {
  const Shared<Table> table;
  std::unique_ptr<Way> way;
  if (how == "yield") way = std::make_unique<ByYield>(*table);
  if (how == "pipe") way = std::make_unique<ByPipe>();
  if (how == "futex") way = std::make_unique<ByFutex>(*table);
  const auto partner = [&] {
    if (RunOn(settings.cpu, in).ok()) {
      Meet(*table);
      way->Partner();
    } else {
      table->refused = true;
    }
  };
  const Beside beside = processes ? Beside::Process(partner) : Beside::Thread(partner);
  Samples found = std::vector<double>();
  if (const absl::Status runs = RunOn(settings.cpu, in); runs.ok()) {
    Meet(*table);
    if (!table->refused) found = RoundsOf(*way, settings.samples(kSwitchSamples));
  } else {
    found = runs;
    table->refused = true;
  }
  way->End();
  return found;
}

}  // namespace

void MeasureSwitches(const Settings& settings, const Report& report) {
  for (const SchedulingClass& in : {kOther, kBatch, kRr, kFifo})
    for (const char* how : {"yield", "pipe", "futex"})
      for (const bool processes : {true, false}) {
        const Samples samples =
            InChild(kBoundSeconds, [&] { return SwitchSamples(settings, in, how, processes); });
        report(With({.group = "switch",
                     .name = in.name,
                     .labels = {{"by", how}, {"between", processes ? "processes" : "threads"}},
                     .provider = kClock,
                     .ns = {},
                     .missing = {}},
                    samples));
        Rest(in);
      }
}

}  // namespace unis
