// What a process controller is given of each task.
#pragma once

#include "engine/controller/held_thread.h"
#include "engine/scheduler/components.h"

namespace unis {

struct ControlledTask {
  HeldThread* thread;  // outlives the controller
  CoreIndex core;
};

}  // namespace unis
