#include "functions/common/program.h"
#include "functions/firewall.h"

int main(int argc, char** argv) {
  return unis::functions::RunProgram<unis::functions::Firewall>(argc, argv);
}
