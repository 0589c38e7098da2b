// A shared object where EAL loads it from: it refuses those below a directory that everybody may
// write, as build directories often are.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace unis {

class PrivateCopy {
 public:
  // Null, as of a variable that is not set: there is none.
  explicit PrivateCopy(const char* object) {
    std::string directory = "/run/unis-test-XXXXXX";
    if (object == nullptr || mkdtemp(directory.data()) == nullptr) return;
    path_ = std::filesystem::path(directory) / std::filesystem::path(object).filename();
    std::error_code error;
    std::filesystem::copy_file(object, path_, error);
  }
  ~PrivateCopy() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_.parent_path(), error);
  }
  PrivateCopy(const PrivateCopy&) = delete;
  PrivateCopy& operator=(const PrivateCopy&) = delete;
  std::filesystem::path path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace unis
