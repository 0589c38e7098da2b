#include "functions/common/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "functions/common/text.h"

namespace unis::functions {

void OptionTable::Add(std::string name, std::string value, std::string help, Setter set) {
  options_.push_back({std::move(name), std::move(value), std::move(help), std::move(set)});
}

void OptionTable::AddNumber(std::string name, std::string value, std::string help,
                            std::uint64_t min, std::uint64_t max,
                            std::function<void(std::uint64_t)> set) {
  auto parse = [what = "value of " + name, min, max, set = std::move(set)](std::string_view word) {
    const auto number = ParseNumber(word, what, min, max);
    if (!number) return Failure(number.error());
    set(*number);
    return Failure();
  };
  Add(std::move(name), std::move(value), std::move(help), std::move(parse));
}

void OptionTable::AddFile(std::string name, std::string help, std::filesystem::path& target) {
  Add(std::move(name), "FILE", std::move(help), [&target](std::string_view value) {
    target = value;
    return Failure();
  });
}

Failure OptionTable::Parse(std::span<const std::string_view> words) const {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string_view name = words[i].substr(0, equals);
    const auto option = std::ranges::find(options_, name, &Option::name);
    if (option == options_.end()) {
      return Error{fmt::format("unknown option '{}'; --help lists them", words[i])};
    }
    if (equals == std::string_view::npos && ++i == words.size()) {
      return Error{fmt::format("option {} needs a value: {} {}", name, name, option->value)};
    }
    const std::string_view value =
        equals == std::string_view::npos ? words[i] : words[i].substr(equals + 1);
    if (Failure failure = option->set(value)) return failure;
  }
  return std::nullopt;
}

bool OptionTable::Knows(std::string_view word) const {
  const std::string_view name = word.substr(0, word.find('='));
  return std::ranges::find(options_, name, &Option::name) != options_.end();
}

std::string OptionTable::Help() const {
  std::string text;
  for (const Option& option : options_) {
    text += fmt::format("  {} {}\n", option.name, option.value);
    for (const std::string_view line : Split(option.help, '\n')) {
      text += fmt::format("      {}\n", line);
    }
  }
  return text;
}

}  // namespace unis::functions
