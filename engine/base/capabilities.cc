#include "engine/base/capabilities.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace unis {
namespace {

using Sets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

__user_cap_header_struct Header() { return {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0}; }

absl::Status Failed(const char* what) {
  return absl::InternalError(fmt::format("cannot {}: {}", what, std::strerror(errno)));
}

std::uint32_t Bit(const Capability& one) { return 1U << (one.number % 32); }

// Else a program that root starts would have them again. Who may not do it has none to lose here.
void Bound(std::span<const Capability> keep) {
  for (unsigned number = 0; prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; ++number) {
    bool kept = false;
    for (const Capability& one : keep) kept = kept || one.number == number;
    if (!kept) (void)prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
  }
}

}  // namespace

absl::StatusOr<std::vector<Capability>> KeepOnly(std::span<const Capability> keep) {
  Bound(keep);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Failed("renounce new privileges");
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);  // unknown before Linux 4.3
  auto header = Header();
  Sets have{}, wanted{};
  if (syscall(SYS_capget, &header, have.data()) != 0) return Failed("read our capabilities");
  std::vector<Capability> missing;
  for (const Capability& one : keep) {
    auto& set = wanted.at(one.number / 32);
    if ((have.at(one.number / 32).permitted & Bit(one)) == 0) {
      missing.push_back(one);
      continue;
    }
    set.permitted |= Bit(one);
    set.effective |= Bit(one);
  }
  if (syscall(SYS_capset, &header, wanted.data()) != 0) return Failed("give up capabilities");
  return missing;
}

}  // namespace unis
