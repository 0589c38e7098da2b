#include "functions/common/signals.h"

#include <initializer_list>

namespace unis::functions {

namespace signal_flags {
volatile std::sig_atomic_t stop = 0;
volatile std::sig_atomic_t yielding = 0;
}  // namespace signal_flags

namespace {

void Handle(int signal) {
  switch (signal) {
    case SIGUSR1:
      signal_flags::yielding = 0;
      break;
    case SIGUSR2:
      signal_flags::yielding = 1;
      break;
    default:
      signal_flags::stop = signal;
  }
}

void Catch(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // system calls of DPDK's control threads are not to fail
  sigaction(signal, &action, nullptr);
}

}  // namespace

void CatchSignals(bool cooperative) {
  signal_flags::yielding = cooperative ? 1 : 0;
  for (const int signal : {SIGINT, SIGTERM}) Catch(signal, Handle);
  for (const int signal : {SIGUSR1, SIGUSR2}) Catch(signal, cooperative ? Handle : SIG_IGN);
}

}  // namespace unis::functions
