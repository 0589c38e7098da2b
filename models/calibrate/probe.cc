#include "models/calibrate/probe.h"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <string.h>

#include <cerrno>
#include <vector>

namespace unis {
namespace {

struct Seen {
  std::uint64_t events, last_ns, last_value;  // as in probes.bpf.c
};

constexpr const char* kBtf = "/sys/kernel/btf/vmlinux";

}  // namespace

absl::StatusOr<Probe> Probe::Load(const std::filesystem::path& object, const std::string& name) {
  if (!std::filesystem::exists(kBtf))
    return absl::FailedPreconditionError(
        fmt::format("this kernel has no BTF ({}), so no program finds its types", kBtf));
  // What libbpf prints is for those who write programs.
  libbpf_set_print([](libbpf_print_level, const char*, va_list) { return 0; });
  Probe probe;
  probe.object_.reset(bpf_object__open_file(object.c_str(), nullptr));
  if (!probe.object_)
    return absl::NotFoundError(fmt::format("cannot open {}: {}", object.string(), strerror(errno)));
  bpf_program* each = nullptr;
  bpf_object__for_each_program(each, probe.object_.get()) {
    const bool wanted = name == bpf_program__name(each);
    bpf_program__set_autoload(each, wanted);
    if (wanted) probe.program_ = each;
  }
  if (!probe.program_)
    return absl::NotFoundError(fmt::format("{} has no program {}", object.string(), name));
  if (const int error = bpf_object__load(probe.object_.get()); error != 0)
    return absl::FailedPreconditionError(fmt::format(
        "the kernel refuses the program: {}{}", strerror(-error),
        error == -EPERM
            ? "; needs CAP_BPF and CAP_PERFMON"
            : (error == -ESRCH || error == -ENOENT ? "; it has no such tracepoint" : "")));
  return probe;
}

absl::Status Probe::Attach() {
  link_.reset(bpf_program__attach(program_));
  if (!link_)
    return absl::FailedPreconditionError(
        fmt::format("the kernel does not attach the program: {}", strerror(errno)));
  return absl::OkStatus();
}

std::uint64_t Probe::EventsOn(unsigned cpu) const {
  const int cpus = libbpf_num_possible_cpus();
  if (cpus <= 0 || cpu >= static_cast<unsigned>(cpus)) return 0;
  std::vector<Seen> seen(static_cast<std::size_t>(cpus));
  const std::uint32_t key = 0;
  const int map = bpf_object__find_map_fd_by_name(object_.get(), "counts");
  return bpf_map_lookup_elem(map, &key, seen.data()) == 0 ? seen[cpu].events : 0;
}

}  // namespace unis
