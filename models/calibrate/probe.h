// A BPF program on a tracepoint of the kernel, attached while it is wanted.
#pragma once

#include <absl/status/statusor.h>
#include <bpf/libbpf.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace unis {

class Probe {
 public:
  // Loads the program of `object` with the tracepoint's name.
  static absl::StatusOr<Probe> Load(const std::filesystem::path& object, const std::string& name);

  absl::Status Attach();
  void Detach() { link_.reset(); }
  // How often it ran on a CPU.
  std::uint64_t EventsOn(unsigned cpu) const;

 private:
  struct Close {
    void operator()(bpf_object* object) const { bpf_object__close(object); }
    void operator()(bpf_link* link) const { bpf_link__destroy(link); }
  };

  std::unique_ptr<bpf_object, Close> object_;
  std::unique_ptr<bpf_link, Close> link_;
  bpf_program* program_ = nullptr;  // of object_
};

}  // namespace unis
