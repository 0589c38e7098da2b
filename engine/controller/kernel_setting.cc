#include "engine/controller/kernel_setting.h"

#include <fmt/format.h>

#include <fstream>

namespace unis {

absl::StatusOr<long> KernelSetting::Read() const {
  std::ifstream file(path_);
  long value = 0;
  if (file >> value) return value;
  return absl::NotFoundError(fmt::format("cannot read {}", path_.string()));
}

absl::Status KernelSetting::Write(long value) const {
  std::ofstream file(path_);
  file << value << std::flush;
  if (file) return absl::OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("the kernel refuses {} for {}; run as root", value, path_.string()));
}

absl::Status KernelSetting::Change(long value) {
  const auto now = Read();
  if (!now.ok()) return now.status();
  if (*now == value) return absl::OkStatus();
  if (auto status = Write(value); !status.ok()) return status;
  if (!before_) before_ = *now;
  return absl::OkStatus();
}

absl::Status KernelSetting::Restore() {
  if (!before_) return absl::OkStatus();
  const long value = *before_;
  before_.reset();
  return Write(value);
}

}  // namespace unis
