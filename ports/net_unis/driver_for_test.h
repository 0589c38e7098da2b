// The driver under test, where EAL takes it from.
#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace unis {

// EAL refuses drivers below a directory that everybody may write, as build directories often are.
class PrivateCopy {
 public:
  explicit PrivateCopy(const std::filesystem::path& driver) {
    std::string directory = "/run/unis-test-XXXXXX";
    if (mkdtemp(directory.data()) == nullptr) return;
    directory_ = directory;
    std::error_code error;
    std::filesystem::copy_file(driver, path(), error);
  }
  ~PrivateCopy() {
    std::error_code error;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, error);
  }
  PrivateCopy(const PrivateCopy&) = delete;
  PrivateCopy& operator=(const PrivateCopy&) = delete;
  std::filesystem::path path() const { return directory_ / "librte_net_unis.so"; }

 private:
  std::filesystem::path directory_;
};

}  // namespace unis
