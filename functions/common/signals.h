// What a signal asks of the poll loop. Handlers set flags; the loop reads them.
#pragma once

#include <csignal>
#include <cstdint>

namespace unis::functions {

namespace signal_flags {
extern volatile std::sig_atomic_t stop;
extern volatile std::sig_atomic_t yield_every;
}  // namespace signal_flags

// SIGINT and SIGTERM ask for the end. SIGRTMIN, queued with a number of bursts, has a program that
// was started co-operative (`yield_every` > 0) yield every so often from then on, and never with 0;
// others ignore it. A queued signal, for they arrive in the order in which they were sent, also
// after a time without the CPU.
// They wait until TakeOrders(): threads that are made in between never take one.
void CatchSignals(std::uint32_t yield_every);

// The calling thread alone takes the orders to yield from now on. With several that take them, an
// order could overtake another.
void TakeOrders();

inline bool StopRequested() { return signal_flags::stop != 0; }
// Bursts between two yields; 0: it does not yield.
inline std::uint32_t YieldEvery() { return static_cast<std::uint32_t>(signal_flags::yield_every); }

}  // namespace unis::functions
