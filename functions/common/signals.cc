#include "functions/common/signals.h"

#include <initializer_list>

namespace unis::functions {

namespace signal_flags {
volatile std::sig_atomic_t stop = 0;
volatile std::sig_atomic_t yielding = 0;
}  // namespace signal_flags

namespace {

void Stop(int signal, siginfo_t*, void*) { signal_flags::stop = signal; }
void SetYielding(int, siginfo_t* info, void*) {
  signal_flags::yielding = info->si_value.sival_int != 0 ? 1 : 0;
}

void Catch(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_RESTART;  // DPDK's control threads expect no interruption
  sigaction(signal, &action, nullptr);
}

void Block(int how) {
  sigset_t orders;
  sigemptyset(&orders);
  sigaddset(&orders, SIGRTMIN);
  pthread_sigmask(how, &orders, nullptr);
}

}  // namespace

void CatchSignals(bool cooperative) {
  signal_flags::yielding = cooperative ? 1 : 0;
  for (const int signal : {SIGINT, SIGTERM}) Catch(signal, Stop);
  Block(SIG_BLOCK);
  if (cooperative) {
    Catch(SIGRTMIN, SetYielding);
  } else {
    std::signal(SIGRTMIN, SIG_IGN);
  }
}

void TakeOrders() { Block(SIG_UNBLOCK); }

}  // namespace unis::functions
