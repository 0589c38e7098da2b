#include "functions/common/program.h"
#include "functions/monitor.h"

int main(int argc, char** argv) {
  return unis::functions::RunProgram<unis::functions::Monitor>(argc, argv);
}
