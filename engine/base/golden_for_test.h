// Results that must stay as they are, kept in a file beside the test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace unis {

// What `file` holds. With UNIS_WRITE_GOLDEN=1 in the environment it is first written: for a change
// that is meant to give other results, whose diff is then reviewed.
inline std::string Golden(const std::filesystem::path& file, const std::string& now) {
  if (std::getenv("UNIS_WRITE_GOLDEN") != nullptr) std::ofstream(file) << now;
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace unis
