#include "functions/common/signals.h"

#include <algorithm>
#include <initializer_list>

namespace unis::functions {

namespace signal_flags {
volatile std::sig_atomic_t stop = 0;
volatile std::sig_atomic_t yield_every = 0;
}  // namespace signal_flags

namespace {

void Stop(int signal, siginfo_t*, void*) { signal_flags::stop = signal; }
void SetYielding(int, siginfo_t* info, void*) {
  signal_flags::yield_every = std::max(0, info->si_value.sival_int);
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

void CatchSignals(std::uint32_t yield_every) {
  signal_flags::yield_every = static_cast<std::sig_atomic_t>(yield_every);
  for (const int signal : {SIGINT, SIGTERM}) Catch(signal, Stop);
  Block(SIG_BLOCK);
  if (yield_every > 0) {
    Catch(SIGRTMIN, SetYielding);
  } else {
    std::signal(SIGRTMIN, SIG_IGN);
  }
}

void TakeOrders() { Block(SIG_UNBLOCK); }

}  // namespace unis::functions
