#include "functions/dpi_matcher.h"

#include <fmt/format.h>

namespace unis::functions {
namespace {

unsigned FlagsOf(const DpiRule& rule) {
  unsigned flags = HS_FLAG_SINGLEMATCH;  // that it matches is all that is asked
  if (rule.caseless) flags |= HS_FLAG_CASELESS;
  if (rule.dot_all) flags |= HS_FLAG_DOTALL;
  if (rule.multi_line) flags |= HS_FLAG_MULTILINE;
  return flags;
}

int Note(unsigned id, unsigned long long, unsigned long long, unsigned, void* matches) {
  static_cast<std::vector<std::uint32_t>*>(matches)->push_back(id);
  return 0;
}

Error CompileError(const std::vector<DpiRule>& rules, const std::string& file,
                   const hs_compile_error_t& error) {
  if (error.expression < 0) return Error{fmt::format("cannot compile {}: {}", file, error.message)};
  const DpiRule& rule = rules[static_cast<std::size_t>(error.expression)];
  return Error{fmt::format("{}:{}: Hyperscan does not take the pattern '{}': {}", file, rule.line,
                           rule.pattern, error.message)};
}

}  // namespace

Result<DpiMatcher> DpiMatcher::Compile(const std::vector<DpiRule>& rules, const std::string& file) {
  if (hs_valid_platform() != HS_SUCCESS) {
    return Error{"this processor lacks the vector instructions that Hyperscan needs"};
  }
  std::vector<const char*> patterns;
  std::vector<unsigned> flags, ids;
  for (const DpiRule& rule : rules) {
    patterns.push_back(rule.pattern.c_str());
    flags.push_back(FlagsOf(rule));
    ids.push_back(static_cast<unsigned>(ids.size()));
  }
  hs_database_t* raw = nullptr;
  hs_compile_error_t* failed = nullptr;
  if (hs_compile_multi(patterns.data(), flags.data(), ids.data(),
                       static_cast<unsigned>(rules.size()), HS_MODE_BLOCK, nullptr, &raw,
                       &failed) != HS_SUCCESS) {
    const Error error = CompileError(rules, file, *failed);
    hs_free_compile_error(failed);
    return error;
  }
  Database database(raw);
  hs_scratch_t* scratch = nullptr;
  if (hs_alloc_scratch(database.get(), &scratch) != HS_SUCCESS) {
    return Error{fmt::format("no memory to scan for the {} rules of {}", rules.size(), file)};
  }
  return DpiMatcher(std::move(database), Scratch(scratch), rules.size());
}

std::span<const std::uint32_t> DpiMatcher::Scan(std::span<const std::uint8_t> payload) {
  matches_.clear();
  // It fails only on arguments that it never gets here.
  hs_scan(database_.get(), reinterpret_cast<const char*>(payload.data()),
          static_cast<unsigned>(payload.size()), 0, scratch_.get(), Note, &matches_);
  return matches_;
}

std::size_t DpiMatcher::database_bytes() const {
  std::size_t bytes = 0;
  hs_database_size(database_.get(), &bytes);
  return bytes;
}

}  // namespace unis::functions
