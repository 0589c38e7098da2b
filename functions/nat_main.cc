#include "functions/common/program.h"
#include "functions/nat.h"

int main(int argc, char** argv) {
  return unis::functions::RunProgram<unis::functions::Nat>(argc, argv);
}
