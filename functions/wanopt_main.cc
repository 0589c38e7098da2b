#include "functions/common/program.h"
#include "functions/wanopt.h"

int main(int argc, char** argv) {
  return unis::functions::RunProgram<unis::functions::Wanopt>(argc, argv);
}
