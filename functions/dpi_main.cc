#include "functions/common/program.h"
#include "functions/dpi.h"

int main(int argc, char** argv) {
  return unis::functions::RunProgram<unis::functions::Dpi>(argc, argv);
}
