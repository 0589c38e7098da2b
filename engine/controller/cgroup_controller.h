// The cgroup freezer, version 1 or 2, whichever is mounted: a cgroup for each NF, frozen while it
// waits (section 4.5.4 tried cgroup shares; the freezer stops and starts exactly). For comparison,
// and for containers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/controller/nf_controller.h"

namespace unis {

// An open file that is written again and again; closes itself.
class ControlFile {
 public:
  explicit ControlFile(const std::filesystem::path& path);
  ~ControlFile();
  ControlFile(ControlFile&& other) noexcept;
  ControlFile& operator=(ControlFile&&) = delete;
  bool open() const noexcept { return fd_ >= 0; }
  bool Write(const char* text) const noexcept;

 private:
  int fd_;
};

class CgroupController final : public NfController {
 public:
  // Fails where no freezer is mounted.
  static absl::StatusOr<std::unique_ptr<NfController>> Create(std::vector<NfThread> nfs,
                                                              const std::string& run);
  ~CgroupController() override;

  absl::Status Acquire() override;
  absl::Status Release() override;
  void Start(CoreIndex core, NfIndex first) noexcept override;
  void Switch(CoreIndex core, NfIndex from, NfIndex to) noexcept override;

 private:
  struct Freezer {
    std::filesystem::path mount;
    int version;  // of cgroups
  };
  static absl::StatusOr<Freezer> FindFreezer();
  CgroupController(std::vector<NfThread> nfs, Freezer freezer, const std::string& run);

  absl::Status MoveIn(const NfThread& nf);
  void Freeze(NfIndex nf, bool frozen) noexcept;

  std::vector<NfThread> nfs_;
  Freezer freezer_;
  std::filesystem::path root_;                 // of this run's cgroups
  std::vector<std::filesystem::path> origin_;  // per NF that was moved: its cgroup before
  std::vector<ControlFile> state_;             // per NF
};

}  // namespace unis
