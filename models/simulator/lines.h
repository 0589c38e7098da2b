// Who runs on each core and who comes after: the kernel's queue of equal real-time priorities.
#pragma once

#include <deque>
#include <vector>

#include "models/simulator/machine.h"

namespace unis::sim {

class Lines {
 public:
  // All tasks of each core, in chain order.
  explicit Lines(const Machine& machine) : lines_(machine.cores()) {
    const auto& tasks = machine.rings().tasks().tasks;
    for (TaskIndex task = 0; task < tasks.size(); ++task) lines_[tasks[task].core].push_back(task);
  }

  std::size_t cores() const { return lines_.size(); }
  // Who runs, once a hand-over that is under way is done.
  TaskIndex First(CoreIndex core) const { return lines_[core].front(); }
  bool IsAlone(CoreIndex core) const { return lines_[core].size() == 1; }
  const std::deque<TaskIndex>& operator[](CoreIndex core) const { return lines_[core]; }

  // Who runs goes to the end; returns the next.
  TaskIndex Rotate(CoreIndex core) {
    auto& line = lines_[core];
    line.push_back(line.front());
    line.pop_front();
    return line.front();
  }

  // `task` goes to the end, as one does whose priority goes down and up again. True: it was the
  // first.
  bool MoveToEnd(CoreIndex core, TaskIndex task) {
    auto& line = lines_[core];
    const bool first = line.front() == task;
    std::erase(line, task);
    line.push_back(task);
    return first;
  }

  // `first` runs, and behind it come those that stood behind it, and then the others.
  void BeginWith(CoreIndex core, TaskIndex first) {
    while (First(core) != first) Rotate(core);
  }

 private:
  std::vector<std::deque<TaskIndex>> lines_;
};

}  // namespace unis::sim
