// What a process controller is given of each task.
#pragma once

#include <cstdint>

#include "engine/controller/held_thread.h"
#include "engine/scheduler/components.h"

namespace unis {

struct ControlledTask {
  HeldThread* thread;  // outlives the controller
  CoreIndex core;
  std::uint32_t quota = 512;  // packets of a turn, where the function passes the CPU on
};

}  // namespace unis
