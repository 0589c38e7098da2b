// What a signal asks of the poll loop. Handlers set flags; the loop reads them.
#pragma once

#include <csignal>

namespace unis::functions {

namespace signal_flags {
extern volatile std::sig_atomic_t stop;
extern volatile std::sig_atomic_t yielding;
}  // namespace signal_flags

// SIGINT and SIGTERM ask for the end. SIGRTMIN, queued with the value 0 or 1, stops or resumes the
// yielding of a program that was started co-operative; others ignore it. A queued signal, for they
// arrive in the order in which they were sent, also after a time without the CPU.
// They wait until TakeOrders(): threads that are made in between never take one.
void CatchSignals(bool cooperative);

// The calling thread alone takes the orders to yield from now on. With several that take them, an
// order could overtake another.
void TakeOrders();

inline bool StopRequested() { return signal_flags::stop != 0; }
inline bool Yielding() { return signal_flags::yielding != 0; }

}  // namespace unis::functions
