// unisd: the engine as a process. Primary of the DPDK multi-process group that the NFs join, or,
// where it only schedules, a secondary of theirs; does what the launcher tells it over gRPC; ends
// on SIGTERM and SIGINT.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/grpcpp.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "engine/base/capabilities.h"
#include "engine/base/favour.h"
#include "engine/run/run.h"
#include "engine/server/service.h"

namespace unis {
namespace {

constexpr int kBadUsage = 2;
constexpr int kLargestMessage = 4 << 20;  // bytes; the fields of one have bounds of their own

struct Options {
  std::string socket;
  std::string file_prefix = "unis";
  std::vector<unsigned> cpus = {0};
  unsigned memory_mb = 0;  // 0: as it is needed
  std::string hugepage_dir;
  std::vector<std::string> pci, drivers;
  bool ports = false;
  std::string held;  // empty: nobody guards
  bool foreign = false;
  std::string join;  // empty: no group of others
};

void PrintCapabilities() {
  for (const Capability& one : kUnisdCapabilities)
    fmt::print("{}\t{}\t{}\t\n", one.name, one.number, one.why);
  for (const Capability& one : kPortCapabilities)
    fmt::print("{}\t{}\t{}\tports\n", one.name, one.number, one.why);
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  CLI::App app(
      "The engine of UNiS: packet memory, traffic, scheduler. Started by `unis up`; end it with "
      "SIGTERM.",
      "unisd");
  app.add_option("--socket", options.socket, "Unix socket for the gRPC service")->required();
  app.add_option("--file-prefix", options.file_prefix, "name of the DPDK multi-process group")
      ->capture_default_str();
  app.add_option("--cpus", options.cpus,
                 "CPUs for source, sink and scheduler; with one CPU they take turns on it")
      ->capture_default_str()
      ->delimiter(',')
      ->check(CLI::Range(0, CPU_SETSIZE - 1));
  app.add_option("--memory", options.memory_mb,
                 "MB of hugepages to take at the start and keep; else each when it is needed, to "
                 "which all functions must agree: one that is stopped makes others wait 5 s")
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--hugepage-dir", options.hugepage_dir,
                 "mounted hugetlbfs to use; else as DPDK finds it");
  app.add_option(
      "--pci", options.pci,
      "let DPDK probe this PCI device: a NIC or a virtual function of one, as source, sink or "
      "end of a link; once for each");
  app.add_option("--driver", options.drivers, "load this driver into DPDK, for a port");
  app.add_flag("--ports", options.ports,
               "packets come from or go to a DPDK port: keep the capabilities for it (with --pci "
               "they are kept anyway)");
  app.add_flag_callback(
      "--capabilities",
      [] {
        PrintCapabilities();
        std::exit(0);
      },
      "print those it keeps: name, number, why, and whether for ports only");
  auto* const foreign =
      app.add_flag("--foreign", options.foreign,
                   "only schedule what others started: no packet memory, no hugepages");
  app.add_option("--join", options.join, "join this DPDK group, for the rings that are in it")
      ->needs(foreign);
  app.add_option(
      "--held", options.held,
      "where to note, for a guard, which threads are held and that the scheduler goes on");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : kBadUsage);
  }
  return options;
}

// The main thread, which sleeps, has the first lcore; those behind it are service lcores, one a
// CPU. In the group of others they are its last, for each lcore is one process's.
unsigned FirstLcore(const Options& options) {
  return options.join.empty() ? 0 : RTE_MAX_LCORE - 1 - static_cast<unsigned>(options.cpus.size());
}

// Which memory, and whose.
std::vector<std::string> GroupArguments(const Options& options) {
  if (!options.join.empty()) return {"--proc-type=secondary", "--file-prefix", options.join};
  std::vector<std::string> own = {"--file-prefix", options.file_prefix, "--iova-mode=va"};
  if (options.foreign) {
    own.insert(own.end(), {"--no-huge", "--no-shconf", "-m", "64"});
  } else if (options.memory_mb > 0) {
    // To take more later DPDK asks every process of the group, a function that is stopped or has no
    // CPU among them; after 5 s without an answer it takes back what was given, and may crash.
    own.insert(own.end(), {"-m", std::to_string(options.memory_mb)});
  }
  return own;
}

std::vector<std::string> EalArguments(const Options& options) {
  const unsigned first = FirstLcore(options);
  std::string lcores = fmt::format("{}@{}", first, options.cpus.front());
  for (std::size_t i = 0; i < options.cpus.size(); ++i)
    lcores += fmt::format(",{}@{}", first + i + 1, options.cpus[i]);
  std::vector<std::string> arguments = {"unisd", "--lcores", lcores, "--no-telemetry",
                                        "--log-level=*:warning"};
  const std::vector<std::string> group = GroupArguments(options);
  arguments.insert(arguments.end(), group.begin(), group.end());
  if (options.pci.empty()) arguments.emplace_back("--no-pci");
  for (const std::string& address : options.pci) {
    arguments.emplace_back("-a");
    arguments.push_back(address);
  }
  for (const std::string& driver : options.drivers) {
    arguments.emplace_back("-d");
    arguments.push_back(driver);
  }
  if (!options.hugepage_dir.empty()) {
    arguments.emplace_back("--huge-dir");
    arguments.push_back(options.hugepage_dir);
  }
  return arguments;
}

// An NF may use any DPDK library, and those that keep lists in shared memory must be known to the
// group's primary. A secondary must know none that its primary does not.
bool LoadSharedLists() {
  Dl_info eal{};
  if (dladdr(dlsym(RTLD_DEFAULT, "rte_eal_init"), &eal) == 0) return false;
  for (const char* const library : {"distributor", "efd", "eventdev", "fib", "hash", "lpm",
                                    "member", "reorder", "rib", "stack"}) {
    std::string name = eal.dli_fname;  // the others are beside it, of the same version
    name.replace(name.rfind("rte_eal"), std::strlen("rte_eal"), fmt::format("rte_{}", library));
    if (dlopen(name.c_str(), RTLD_NOW) != nullptr) continue;
    spdlog::error("cannot load {}, which functions may need", name);
    return false;
  }
  return true;
}

bool StartEal(const Options& options) {
  if (!options.foreign && !LoadSharedLists()) return false;
  std::vector<std::string> arguments = EalArguments(options);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return rte_eal_init(static_cast<int>(argv.size()), argv.data()) >= 0;
}

// The CPUs of our cpuset: the kernel cuts what is asked for down to them. The affinity tells less,
// for the launcher keeps itself, and with it us, off the CPUs of functions.
cpu_set_t AllowedCpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
  CPU_ZERO(&cpus);
  sched_getaffinity(0, sizeof(cpus), &cpus);
  return cpus;
}

// EAL puts its control threads, which answer functions and memif clients, on the CPUs of the
// process that no lcore has: left with those of the functions, they would wait for spinners for
// ever.
void StayOn(const std::vector<unsigned>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned cpu : cpus) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

// CPUs that we may use and that the services leave.
std::set<unsigned> FunctionCpus(const std::vector<unsigned>& services, const cpu_set_t& allowed) {
  std::set<unsigned> cpus;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.insert(cpu);
  for (const unsigned cpu : services) cpus.erase(cpu);
  return cpus;
}

// Before DPDK starts, for its threads have what we have then. False: it is not safe to go on.
bool DropCapabilities(const Options& options) {
  std::vector<Capability> keep(kUnisdCapabilities.begin(), kUnisdCapabilities.end());
  if (options.ports || !options.pci.empty())
    keep.insert(keep.end(), kPortCapabilities.begin(), kPortCapabilities.end());
  const auto missing = KeepOnly(keep);
  if (!missing.ok()) {
    spdlog::error("{}", std::string(missing.status().message()));
    return false;
  }
  for (const Capability& one : *missing)
    spdlog::warn("lacks the capability {}, for {}", one.name, one.why);
  std::vector<const char*> names;
  for (const Capability& one : keep) names.push_back(one.name);
  spdlog::info("capabilities {}; `unisd --capabilities` tells why", fmt::join(names, ", "));
  return true;
}

int WaitForSignal(const sigset_t& signals, Run& run) {
  constexpr timespec kLookEvery{.tv_sec = 0, .tv_nsec = 20'000'000};
  for (;;) {
    const int signal = sigtimedwait(&signals, nullptr, &kLookEvery);
    if (signal > 0) return signal;
    run.Look();
  }
}

int Serve(const Options& options, const sigset_t& signals, const cpu_set_t& allowed) {
  std::vector<unsigned> lcores;
  for (unsigned i = 0; i < options.cpus.size(); ++i) lcores.push_back(FirstLcore(options) + i + 1);
  auto held = options.held.empty() ? HeldFile() : HeldFile::Create(options.held);
  if (!held.ok()) {
    spdlog::error("{}", std::string(held.status().message()));
    return 1;
  }
  Run run({.service_lcores = lcores,
           .function_cpus = FunctionCpus(options.cpus, allowed),
           .end = [] { kill(getpid(), SIGTERM); },
           .held = *std::move(held)});
  EngineService service(run);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kLargestMessage);
  builder.AddListeningPort("unix:" + options.socket, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) {
    spdlog::error("cannot listen on {}; is its folder there and writable?", options.socket);
    return 1;
  }
  (void)chmod(options.socket.c_str(), S_IRUSR | S_IWUSR);
  spdlog::info("listening on {}, CPUs {}", options.socket, fmt::join(options.cpus, ","));
  const int signal = WaitForSignal(signals, run);
  spdlog::info("ending on signal {}", signal);
  // First of all, for handlers may be under way, and shutting down waits for them.
  run.Release();
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  if (options.foreign) return 0;
  // Functions may still poll the rings, so nothing that they share is freed one by one: the kernel
  // takes it back with the last process that maps it. The launcher removes DPDK's files.
  std::_Exit(0);
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  const cpu_set_t allowed = AllowedCpus();
  StayOn(options.cpus);
  FavourSession();
  umask(S_IRWXG | S_IRWXO);  // nothing that we make is anyone else's to read
  // Blocked in every thread, so that the main one alone waits for them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  spdlog::flush_on(spdlog::level::info);
  if (!DropCapabilities(options)) return 1;
  if (!StartEal(options)) {
    spdlog::error(
        "DPDK does not start: {}; {}", rte_strerror(rte_errno),
        options.join.empty()
            ? "hugepages, permission and a second run of the same name are the usual reasons, "
              "`unis doctor` tells"
            : fmt::format("is there a group {}, of the same DPDK version and with its files below "
                          "/var/run/dpdk (no --in-memory)?",
                          options.join));
    return 1;
  }
  const int code = Serve(options, signals, allowed);
  if (options.foreign) rte_eal_cleanup();  // the group of others stays as it was found
  return code;
}

}  // namespace
}  // namespace unis

int main(int argc, char** argv) { return unis::Main(argc, argv); }
