// unis-packet-trace: when sampled packets of a chain are where, and what the chain's threads do
// meanwhile. It attaches its programs, says `ready`, and waits. When it is to end it detaches them
// and writes what they told.
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
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/base/unique_fd.h"
#include "ports/packet_trace/packet_event.h"

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
    void* const at =
        mmap(nullptr, sizeof(packet_state), PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
    if (at == MAP_FAILED) Fail(errno, "cannot map the memory of the BPF programs");
    state_ = static_cast<packet_state*>(at);
  }
  ~StateMemory() { munmap(state_, sizeof(packet_state)); }
  StateMemory(const StateMemory&) = delete;
  StateMemory& operator=(const StateMemory&) = delete;
  packet_state& operator*() const noexcept { return *state_; }
  packet_state* operator->() const noexcept { return state_; }

 private:
  packet_state* state_ = nullptr;
};

struct Options {
  std::string object;
  packet_settings settings{};
  pid_t engine = 0;
  std::vector<std::uint32_t> threads;
  std::vector<std::string> without;
  double seconds = 60;
  int sets = 1;  // of the same programs, of which one tells and the others only cost
};

class Tracer {
 public:
  Tracer(const Tracer&) = delete;  // the ring of events has its address
  Tracer& operator=(const Tracer&) = delete;
  explicit Tracer(const Options& options)
      : engine_(options.engine), object_(bpf_object__open_file(options.object.c_str(), nullptr)) {
    if (!object_) Fail(errno, "cannot open " + options.object);
    bpf_map* const settings = MapCalled(".rodata.settings");
    if (const int error =
            bpf_map__set_initial_value(settings, &options.settings, sizeof(options.settings));
        error != 0)
      Fail(-error, "the BPF programs are of another build");
    for (const std::string& name : options.without) {
      bpf_program* const program = bpf_object__find_program_by_name(object_.get(), name.c_str());
      if (program == nullptr) Fail(EINVAL, "there is no BPF program " + name);
      bpf_program__set_autoload(program, false);
    }
    if (const int error = bpf_object__load(object_.get()); error != 0)
      Fail(-error, "the kernel refuses the BPF programs");
    state_.emplace(bpf_map__fd(MapCalled(".data.state")));
    std::uint8_t slot = 0;
    for (const std::uint32_t thread : options.threads) {
      (*state_)->threads[++slot].tid = thread;
      (*state_)->slots[thread & PACKET_TID_MASK] = slot;
    }
    ring_.reset(ring_buffer__new(bpf_map__fd(MapCalled("events")), &Tracer::Keep, this, nullptr));
    if (!ring_) Fail(errno, "cannot read the events of the BPF programs");
  }

  void Attach() {
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object_.get()) {
      if (!bpf_program__autoload(program)) continue;
      bpf_link* const link = bpf_program__type(program) == BPF_PROG_TYPE_KPROBE
                                 ? AttachToEngine(program)
                                 : bpf_program__attach(program);
      if (link == nullptr)
        Fail(errno, fmt::format("cannot attach {}", bpf_program__section_name(program)));
      links_.emplace_back(link);
    }
    __atomic_store_n(&(*state_)->since, rte_rdtsc(), __ATOMIC_RELEASE);
  }

  void Detach() {
    __atomic_store_n(&(*state_)->since, 0ULL, __ATOMIC_RELEASE);
    links_.clear();
    Read();
  }

  // Makes room for further events.
  void Read() { ring_buffer__consume(ring_.get()); }

  const std::vector<packet_event>& events() const { return events_; }
  std::uint64_t lost() const { return (*state_)->lost; }

 private:
  bpf_map* MapCalled(const char* name) const {
    bpf_map* const map = bpf_object__find_map_by_name(object_.get(), name);
    if (map == nullptr) Fail(EINVAL, fmt::format("the BPF programs have no map {}", name));
    return map;
  }

  bpf_link* AttachToEngine(bpf_program* program) const {
    LIBBPF_OPTS(bpf_uprobe_opts, how, .func_name = "unis_packet_came");
    return bpf_program__attach_uprobe_opts(program, engine_,
                                           fmt::format("/proc/{}/exe", engine_).c_str(), 0, &how);
  }

  static int Keep(void* tracer, void* data, std::size_t bytes) {
    packet_event event{};
    std::memcpy(&event, data, std::min(bytes, sizeof(event)));
    static_cast<Tracer*>(tracer)->events_.push_back(event);
    return 0;
  }

  pid_t engine_;
  std::unique_ptr<bpf_object, CloseObject> object_;
  std::optional<StateMemory> state_;
  std::unique_ptr<ring_buffer, FreeRing> ring_;
  std::vector<std::unique_ptr<bpf_link, DestroyLink>> links_;
  std::vector<packet_event> events_;
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
  Tracer tracer(options);
  std::deque<Tracer> others;
  while (static_cast<int>(others.size()) + 1 < options.sets) others.emplace_back(options);
  const ClockPair begin = ReadClocks();
  tracer.Attach();
  for (Tracer& other : others) other.Attach();
  fmt::print("ready\n");
  std::fflush(stdout);
  WaitForEnd(signals.get(), options.seconds, [&] {
    tracer.Read();
    for (Tracer& other : others) other.Read();
  });
  tracer.Detach();
  others.clear();
  const ClockPair end = ReadClocks();
  const std::vector<packet_event>& events = tracer.events();
  fmt::print("{{\"events\": {}, \"bytes\": {}, \"lost\": {}, \"clocks\": [[{}, {}], [{}, {}]]}}\n",
             events.size(), sizeof(packet_event), tracer.lost(), begin.cycles, begin.ns, end.cycles,
             end.ns);
  std::fwrite(events.data(), sizeof(packet_event), events.size(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

// "4026531840:7": a network namespace and a device in it.
std::pair<std::uint32_t, std::uint32_t> DeviceOf(const std::string& text) {
  const std::size_t colon = text.find(':');
  try {
    if (colon == std::string::npos) throw std::invalid_argument(text);
    return {static_cast<std::uint32_t>(std::stoul(text.substr(0, colon))),
            static_cast<std::uint32_t>(std::stoul(text.substr(colon + 1)))};
  } catch (const std::exception&) {
    throw CLI::ValidationError("give a device as NAMESPACE:INDEX, both numbers, not " + text);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes when sampled packets of a chain are where. `unis profile chain` uses it.");
  Options options;
  std::string mark, first, last;
  std::uint64_t one_in = 64;
  app.add_option("--object", options.object, "BPF programs")->required();
  app.add_option("--mark", mark, "What is in front of a packet's stamp, hexadecimal")->required();
  app.add_option("--first", first, "Device that packets reach first: NAMESPACE:INDEX")->required();
  app.add_option("--last", last, "Device that packets reach last: NAMESPACE:INDEX")->required();
  app.add_option("--threads", options.threads, "TIDs of the functions")
      ->required()
      ->delimiter(',')
      ->expected(1, PACKET_MOST_THREADS);
  app.add_option("--engine", options.engine, "PID of unisd")->required();
  app.add_option("--one-in", one_in, "Packets of which one is followed")
      ->check(CLI::Range(std::uint64_t{PACKET_CAME_ONE_IN}, UINT64_MAX));
  app.add_option("--sets", options.sets, "Times that each program is attached, to learn its cost")
      ->check(CLI::Range(1, 8));
  app.add_option("--without", options.without, "BPF programs to leave out")->delimiter(',');
  app.add_option("--seconds", options.seconds, "Longest time")->check(CLI::Range(0.001, 3600.0));
  CLI11_PARSE(app, argc, argv);
  try {
    options.settings.mark = std::stoull(mark, nullptr, 16);
    options.settings.most = UINT64_MAX / one_in;
    std::tie(options.settings.first_space, options.settings.first_device) = DeviceOf(first);
    std::tie(options.settings.last_space, options.settings.last_device) = DeviceOf(last);
    return Trace(options);
  } catch (const CLI::Error& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "unis-packet-trace: {}\n", error.what());
    return 1;
  }
}
