// The options of a function: what stands behind the `--` that ends the options of DPDK's EAL. They
// are checked before EAL starts, so that a wrong one costs no second and leaves nothing behind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "functions/common/result.h"

namespace unis::functions {

class OptionTable {
 public:
  using Setter = std::function<Failure(std::string_view value)>;

  // `--name VALUE` or `--name=VALUE`. Lines of `help` are separated by '\n'.
  void Add(std::string name, std::string value, std::string help, Setter set);

  // A whole number from `min` to `max` into `target`.
  template <class T>
  void AddNumber(std::string name, std::string value, std::string help, std::uint64_t min,
                 std::uint64_t max, T& target) {
    AddNumber(std::move(name), std::move(value), std::move(help), min, max,
              [&target](std::uint64_t number) { target = static_cast<T>(number); });
  }

  // A file name into `target`.
  void AddFile(std::string name, std::string help, std::filesystem::path& target);

  // The same option may be given twice; the last one counts.
  Failure Parse(std::span<const std::string_view> words) const;
  std::string Help() const;
  // Is `word` one of these options, with or without a value behind it?
  bool Knows(std::string_view word) const;

 private:
  struct Option {
    std::string name;
    std::string value;
    std::string help;
    Setter set;
  };

  void AddNumber(std::string name, std::string value, std::string help, std::uint64_t min,
                 std::uint64_t max, std::function<void(std::uint64_t)> set);

  std::vector<Option> options_;
};

}  // namespace unis::functions
