// All patterns of dpi at once over one payload, by Hyperscan. Its fork Vectorscan has the same
// interface and would do, for other processors too; but Debian's build of it took three times as
// long over 1472 bytes, and Debian lets nobody install it beside Suricata, which needs Hyperscan.
//
// The database and the scratch space are on the process's own heap: nothing of them is shared with
// a DPDK group.
#pragma once

#include <hs/hs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "functions/common/result.h"
#include "functions/dpi_rules.h"

namespace unis::functions {

class DpiMatcher {
 public:
  // Errors name the line of the rule that it does not take. `file` is what they call its file.
  static Result<DpiMatcher> Compile(const std::vector<DpiRule>& rules, const std::string& file);

  // The positions of the rules that match, each once, in no order. Valid until the next call.
  std::span<const std::uint32_t> Scan(std::span<const std::uint8_t> payload);

  std::size_t database_bytes() const;

 private:
  struct FreeDatabase {
    void operator()(hs_database_t* database) const { hs_free_database(database); }
  };
  struct FreeScratch {
    void operator()(hs_scratch_t* scratch) const { hs_free_scratch(scratch); }
  };
  using Database = std::unique_ptr<hs_database_t, FreeDatabase>;
  using Scratch = std::unique_ptr<hs_scratch_t, FreeScratch>;

  DpiMatcher(Database database, Scratch scratch, std::size_t rules)
      : database_(std::move(database)), scratch_(std::move(scratch)) {
    matches_.reserve(rules);  // a scan allocates nothing
  }

  Database database_;
  Scratch scratch_;
  std::vector<std::uint32_t> matches_;
};

}  // namespace unis::functions
