// Where every packet is: counted at the chain's ends and by the ports, and what is in flight read
// from packet memory and links, so that the sum can fail.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/run/deployment.h"
#include "unis/v1/engine.pb.h"

namespace unis {

// Of one moment, while packets move. Of foreign chains nothing, here and below.
v1::Account TakeAccount(const Deployment& deployment);

// The source rests and, if `drained`, nothing moves any more: exact, unless there is a doubt, which
// it then names.
v1::Account TakeAccountAtRest(const Deployment& deployment, bool drained);

// What became of the packets of a chain, beside what `account` has.
void AddChain(const Chain& chain, v1::Account& account);

// Grows whenever a packet is taken or passed on anywhere: while it stands still, nothing moves.
std::uint64_t Movement(const Deployment& deployment);

// Packets that programs of other DPDK groups took and did not give back: they hold or have dropped
// them.
std::uint64_t InForeignHands(const Deployment& deployment);

// Packets that were offered and dropped, wherever; copies apart.
std::uint64_t DroppedOf(const v1::Account& account);

// Whether no packet is under way in memory of the engine or in a link outside.
bool Drained(const Deployment& deployment);

// Of a function on net_unis; zeros for others.
FunctionCounts CountFunction(const Deployment& deployment, std::size_t function);

// Packets that a function took. Where a function is not on net_unis, its links count them: this
// count begins anew when the function gets other links. None: nobody can look into one of them.
std::optional<std::uint64_t> TakenByFunction(const Deployment& deployment, std::size_t function);

// What a chain's path through a function has counted so far.
struct PathCounts {
  std::uint64_t rx = 0;
  std::uint64_t tx = 0;
  std::uint64_t refused = 0;  // offered when the egress was full; or dropped by the link
  bool counted = false;       // false: another program, of which only the links tell
  bool received_known = true, sent_known = true;  // false: nor does one of the links
  std::uint64_t taken() const { return rx > tx + refused ? rx - tx - refused : 0; }
};
PathCounts CountPath(const Deployment& deployment, const Topology::Path& path);

}  // namespace unis
