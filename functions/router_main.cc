#include "functions/common/program.h"
#include "functions/router.h"

int main(int argc, char** argv) {
  return unis::functions::RunProgram<unis::functions::Router>(argc, argv);
}
