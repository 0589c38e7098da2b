// SIGSTOP and SIGCONT (section 4.5.4: explored by the paper, too slow for short slices). For
// comparison, and for machines that refuse real-time classes. Stops the whole process.
#pragma once

#include <vector>

#include "engine/controller/nf_controller.h"

namespace unis {

class SignalController final : public NfController {
 public:
  explicit SignalController(std::vector<NfThread> nfs);

  absl::Status Acquire() override;
  absl::Status Release() override;
  void Start(CoreIndex core, NfIndex first) noexcept override;
  void Switch(CoreIndex core, NfIndex from, NfIndex to) noexcept override;

 private:
  std::vector<NfThread> nfs_;
};

}  // namespace unis
