// unis-thread-trace: when the threads of a chain run, wait for their CPU and sleep while sampled
// packets are on their way. It attaches its programs, says `ready` and when packets are sampled,
// and waits. When it is to end it detaches the programs and writes what they told.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <poll.h>
#include <rte_cycles.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/base/unique_fd.h"
#include "ports/thread_trace/thread_event.h"

namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

[[noreturn]] void Fail(int code, const std::string& what) {
  throw std::system_error(code, std::generic_category(), what);
}

// ------------------------------------------------------------------ clocks

struct ClockPair {
  std::uint64_t cycles = 0, ns = 0;
};

std::uint64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Of some readings the one that took least: nothing came in between.
ClockPair ReadClocks() {
  constexpr int kReadings = 64;
  ClockPair best;
  std::uint64_t least = UINT64_MAX;
  for (int i = 0; i < kReadings; ++i) {
    const std::uint64_t before = rte_rdtsc(), ns = MonotonicNs(), after = rte_rdtsc();
    if (after - before >= least) continue;
    least = after - before;
    best = {.cycles = before + least / 2, .ns = ns};
  }
  return best;
}

// ------------------------------------------------------------------ programs in the kernel

struct CloseObject {
  void operator()(bpf_object* object) const { bpf_object__close(object); }
};
struct DestroyLink {
  void operator()(bpf_link* link) const { bpf_link__destroy(link); }
};
struct FreeRing {
  void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};

// The memory of a map, as long as it is mapped.
class StateMemory {
 public:
  explicit StateMemory(int map) {
    void* const at = mmap(nullptr, sizeof(trace_state), PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
    if (at == MAP_FAILED) Fail(errno, "cannot map the memory of the BPF programs");
    state_ = static_cast<trace_state*>(at);
  }
  ~StateMemory() { munmap(state_, sizeof(trace_state)); }
  StateMemory(const StateMemory&) = delete;
  StateMemory& operator=(const StateMemory&) = delete;
  trace_state& operator*() const noexcept { return *state_; }
  trace_state* operator->() const noexcept { return state_; }

 private:
  trace_state* state_ = nullptr;
};

struct Options {
  std::string object;
  std::vector<std::uint32_t> threads;
  double seconds = 60;              // longest time
  double delay = 0;                 // seconds until the first period begins
  double period = 0.001, open = 0;  // seconds; open: from the begin of each; 0: none
  bool copies = false;              // tells copies, and no threads
  int sets = 1;  // of the same programs, of which one tells and the others only cost
};

// Cycles and ns of CLOCK_MONOTONIC, from two readings some time apart.
class Clocks {
 public:
  Clocks() : begin_(ReadClocks()) {
    constexpr int kApartMs = 20;
    poll(nullptr, 0, kApartMs);
    Look();
  }
  // Reads anew: the longer since the first the better.
  void Look() { end_ = ReadClocks(); }
  ClockPair begin() const { return begin_; }
  ClockPair end() const { return end_; }
  double CyclesPerNs() const {
    return static_cast<double>(end_.cycles - begin_.cycles) /
           static_cast<double>(end_.ns - begin_.ns);
  }

 private:
  ClockPair begin_, end_;
};

// In TSC cycles, as packets are stamped.
struct Periods {
  std::uint64_t origin = 0, period = 1;
};

class Tracer {
 public:
  Tracer(const Tracer&) = delete;  // the ring of events has its address
  Tracer& operator=(const Tracer&) = delete;
  explicit Tracer(const Options& options)
      : object_(bpf_object__open_file(options.object.c_str(), nullptr)) {
    if (!object_) Fail(errno, "cannot open " + options.object);
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object_.get()) {
      const std::string name = bpf_program__name(program);
      const bool of_copies = name == "copy_begins" || name == "message_received";
      bpf_program__set_autoload(program, of_copies == options.copies);
    }
    if (const int error = bpf_object__load(object_.get()); error != 0)
      Fail(-error, "the kernel refuses the BPF programs");
    state_.emplace(bpf_map__fd(MapCalled(".data.state")));
    std::uint8_t slot = 0;
    for (const std::uint32_t thread : options.threads) {
      std::uint8_t& first = (*state_)->slots[thread & TRACE_TID_MASK];
      watched_thread& watched = (*state_)->threads[++slot];
      watched.tid = thread;
      watched.next = std::exchange(first, slot);
    }
    ring_.reset(ring_buffer__new(bpf_map__fd(MapCalled("events")), &Tracer::Keep, this, nullptr));
    if (!ring_) Fail(errno, "cannot read the events of the BPF programs");
  }

  void Attach() {
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object_.get()) {
      if (!bpf_program__autoload(program)) continue;
      bpf_link* const link = bpf_program__attach(program);
      if (link == nullptr)
        Fail(errno, fmt::format("cannot attach {}", bpf_program__section_name(program)));
      links_.emplace_back(link);
    }
  }

  // Periods are of the TSC, and the kernel has another clock: it is told anew now and then.
  void Open(const Clocks& clocks, const Periods& periods, double open) {
    const ClockPair now = clocks.end();
    const double rate = clocks.CyclesPerNs();
    const auto from = now.cycles > periods.origin
                          ? -static_cast<double>((now.cycles - periods.origin) % periods.period)
                          : static_cast<double>(periods.origin - now.cycles);
    const auto ns = static_cast<double>(now.ns) + from / rate;
    __atomic_store_n(&(*state_)->period_ns,
                     static_cast<std::uint64_t>(static_cast<double>(periods.period) / rate),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&(*state_)->open_ns, static_cast<std::uint64_t>(open * 1e9), __ATOMIC_RELAXED);
    __atomic_store_n(&(*state_)->origin_ns, static_cast<std::uint64_t>(ns), __ATOMIC_RELEASE);
  }

  void Detach() {
    __atomic_store_n(&(*state_)->origin_ns, 0ULL, __ATOMIC_RELEASE);
    links_.clear();
    Read();
  }

  // TID, packets that the kernel copied to it, ns in all.
  std::string Copies() const {
    std::string text;
    for (const watched_thread& thread : std::span((*state_)->threads).subspan(1))
      if (thread.copies > 0)
        text += fmt::format("{}[{}, {}, {}]", text.empty() ? "" : ", ", thread.tid, thread.copies,
                            thread.copy_ns);
    return text;
  }

  // Makes room for further events.
  void Read() { ring_buffer__consume(ring_.get()); }

  const std::vector<thread_event>& events() const { return events_; }
  std::uint64_t lost() const { return (*state_)->lost; }

 private:
  bpf_map* MapCalled(const char* name) const {
    bpf_map* const map = bpf_object__find_map_by_name(object_.get(), name);
    if (map == nullptr) Fail(EINVAL, fmt::format("the BPF programs have no map {}", name));
    return map;
  }

  static int Keep(void* tracer, void* data, std::size_t bytes) {
    thread_event event{};
    std::memcpy(&event, data, std::min(bytes, sizeof(event)));
    static_cast<Tracer*>(tracer)->events_.push_back(event);
    return 0;
  }

  std::unique_ptr<bpf_object, CloseObject> object_;
  std::optional<StateMemory> state_;
  std::unique_ptr<ring_buffer, FreeRing> ring_;
  std::vector<std::unique_ptr<bpf_link, DestroyLink>> links_;
  std::vector<thread_event> events_;
};

// ------------------------------------------------------------------ until it is to end

// A signal, the end of standard input, or the time: whoever started it may be gone.
template <typename Meanwhile>
void WaitForEnd(int signals, double seconds, Meanwhile meanwhile) {
  constexpr int kPauseMs = 50;
  const std::uint64_t end = MonotonicNs() + static_cast<std::uint64_t>(seconds * 1e9);
  std::array<pollfd, 2> files{pollfd{signals, POLLIN, 0}, pollfd{STDIN_FILENO, POLLIN, 0}};
  for (std::uint64_t now = MonotonicNs(); now < end; now = MonotonicNs()) {
    const auto left =
        static_cast<int>(std::min<std::uint64_t>((end - now) / 1'000'000 + 1, kPauseMs));
    const int ready = poll(files.data(), files.size(), left);
    meanwhile();
    if (ready <= 0) continue;
    std::array<char, 64> ignored{};
    if (files[0].revents != 0) return;
    if (files[1].revents != 0 && read(STDIN_FILENO, ignored.data(), ignored.size()) <= 0) return;
  }
}

unis::UniqueFd SignalsAsFile() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  unis::UniqueFd file(signalfd(-1, &set, SFD_CLOEXEC));
  if (!file.valid()) Fail(errno, "signalfd");
  return file;
}

int Trace(const Options& options) {
  const unis::UniqueFd signals = SignalsAsFile();
  std::deque<Tracer> tracers;
  for (int i = 0; i < options.sets && !options.threads.empty(); ++i) tracers.emplace_back(options);
  for (Tracer& tracer : tracers) tracer.Attach();
  Clocks clocks;
  const double rate = clocks.CyclesPerNs() * 1e9;  // a second
  const Periods periods{.origin = rte_rdtsc() + static_cast<std::uint64_t>(options.delay * rate),
                        .period = static_cast<std::uint64_t>(options.period * rate)};
  const auto look = [&] {
    clocks.Look();
    for (Tracer& tracer : tracers) {
      tracer.Open(clocks, periods, options.open);
      tracer.Read();
    }
  };
  look();
  fmt::print("ready {} {}\n", periods.origin, periods.period);
  std::fflush(stdout);
  WaitForEnd(signals.get(), options.seconds, look);
  for (Tracer& tracer : tracers) tracer.Detach();
  clocks.Look();
  const bool told = !tracers.empty();
  const std::vector<thread_event> events =
      told ? tracers.front().events() : std::vector<thread_event>();
  fmt::print(
      "{{\"events\": {}, \"bytes\": {}, \"lost\": {}, \"clocks\": [[{}, {}], [{}, {}]], "
      "\"copies\": [{}]}}\n",
      events.size(), sizeof(thread_event), told ? tracers.front().lost() : 0, clocks.begin().cycles,
      clocks.begin().ns, clocks.end().cycles, clocks.end().ns,
      told ? tracers.front().Copies() : "");
  std::fwrite(events.data(), sizeof(thread_event), events.size(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes when the threads of a chain run. `unis profile chain` uses it.");
  Options options;
  app.add_option("--object", options.object, "BPF programs")->required();
  app.add_option("--threads", options.threads, "TIDs; none: only the clocks are told")
      ->delimiter(',')
      ->expected(0, TRACE_MOST_THREADS);
  app.add_flag("--copies", options.copies, "Tell how long the kernel copies packets to them");
  app.add_option("--delay", options.delay, "Seconds until packets are sampled")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--period", options.period, "Seconds: one packet of each is sampled")
      ->check(CLI::Range(1e-6, 3600.0));
  app.add_option("--open", options.open, "Seconds of each period in which threads are watched")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--sets", options.sets, "Times that each program is attached, to learn its cost")
      ->check(CLI::Range(1, 8));
  app.add_option("--seconds", options.seconds, "Longest time")->check(CLI::Range(0.001, 3600.0));
  CLI11_PARSE(app, argc, argv);
  try {
    return Trace(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "unis-thread-trace: {}\n", error.what());
    return 1;
  }
}
