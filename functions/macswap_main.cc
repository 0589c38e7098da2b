#include "functions/common/program.h"
#include "functions/macswap.h"

int main(int argc, char** argv) {
  return unis::functions::RunProgram<unis::functions::Macswap>(argc, argv);
}
