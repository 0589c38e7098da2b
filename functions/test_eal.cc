#include "functions/test_eal.h"

#include <rte_eal.h>

#include <string>
#include <vector>

namespace unis::functions {

bool StartTestEal() {
  std::vector<std::string> words{
      "test",           "--no-huge",         "-m", "256", "--no-pci", "--no-shconf",
      "--no-telemetry", "--log-level=error", "-l", "0"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  static const bool started =
      rte_eal_init(static_cast<int>(arguments.size()) - 1, arguments.data()) >= 0;
  return started;
}

}  // namespace unis::functions
