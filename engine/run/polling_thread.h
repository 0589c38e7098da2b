// Which thread of a program polls, found by what it does: a thread that polls never sleeps.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <chrono>
#include <string>

#include "engine/base/interrupt.h"

namespace unis {

// The thread that took most of its process's CPU time in two windows in a row, at least four times
// as much as any other. An error: the process ended, `timeout` passed, or `interrupt` was raised.
absl::StatusOr<pid_t> FindPollingThread(const std::string& function, pid_t pid,
                                        std::chrono::nanoseconds timeout, Interrupt& interrupt);

}  // namespace unis
