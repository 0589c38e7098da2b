#include "functions/common/program.h"
#include "functions/ipsec.h"

int main(int argc, char** argv) {
  return unis::functions::RunProgram<unis::functions::Ipsec>(argc, argv);
}
