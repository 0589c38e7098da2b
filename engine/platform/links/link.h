// What the engine knows of a link, whatever its kind: the engine's own end, how full each direction
// is, and what a death leaves to repair.
//
// A link has one direction, or two and then two ends: direction 0 leads to end 0, direction 1 to
// end 1. If the engine has an end, it is end 0.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/counter.h"
#include "engine/monitor/occupancy.h"
#include "unis/v1/engine.pb.h"

namespace unis {

// The engine's own end. One thread sends, one receives.
class LinkEnd {
 public:
  virtual ~LinkEnd() = default;
  // What is sent is the link's; the rest stays the caller's.
  virtual std::uint16_t Send(rte_mbuf** packets, std::uint16_t count) noexcept = 0;
  virtual std::uint16_t Receive(rte_mbuf** packets, std::uint16_t count) noexcept = 0;
  // Packets that Send() takes now. Only a peer that leaves makes it smaller.
  virtual std::uint32_t Room() noexcept = 0;
  virtual std::uint32_t capacity() const noexcept = 0;
  // Whether what is received are the mbufs that were sent, with the time of their entry.
  virtual bool carries_mbufs() const noexcept = 0;
  // Frees what was sent and is still in a queue of its own; by the thread that sends. False: it
  // cannot, and may hold some.
  virtual bool FreeSent() noexcept { return true; }

  Counter sent, received;  // counted by whoever sends and receives
  // Of the packets that go there none comes out of its chain, because a function does not run.
  std::atomic<bool> closed = false;
};

class Link {
 public:
  virtual ~Link() = default;

  virtual LinkEnd* end() noexcept = 0;  // null: the engine has none
  // Valid until Take() or Forget(). Unreadable where nobody can tell: until the link is found in
  // the processes of functions, or for ever.
  virtual Occupancy occupancy(unsigned direction) const = 0;
  // Brings occupancy() up to date, where its counters do not move by themselves. One thread calls
  // it again and again: a bounded number of steps, and no system call but where only the kernel
  // knows.
  virtual void Look(unsigned /*direction*/) noexcept {}
  // Look() counts: packets are missed where more than a ring of them come between two looks.
  virtual bool counts_by_looks() const noexcept { return false; }
  // A look takes memory or a lock from the CPU on which the kernel or a function works there.
  virtual bool looks_disturb() const noexcept { return false; }
  // Finds again what is on the way and was started anew. A few system calls, now and then.
  virtual void Follow() {}
  // Packets that were put into this direction and that the link dropped, ever. May be a system
  // call: not for a tick.
  virtual std::uint64_t Dropped(unsigned /*direction*/) { return 0; }

  // What went over a wire in this direction, ever, as the function at its end counted it.
  struct Passed {
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;  // of what was sent to outside
  };
  virtual Passed passed(unsigned /*direction*/) const { return {}; }

  // What was found among the open files of a function's process.
  struct Found {
    virtual ~Found() = default;
  };
  // Looks for the link in the process that has `end`, and changes nothing. Null: what is read
  // already is still right. NotFound: it is not there yet.
  virtual absl::StatusOr<std::unique_ptr<Found>> Find(pid_t /*pid*/, unsigned /*end*/) const {
    return nullptr;
  }
  // The same where `port`, the function's, may say which sockets it has there: a foreign one's
  // does.
  virtual absl::StatusOr<std::unique_ptr<Found>> FindNamed(pid_t pid, unsigned end,
                                                           const v1::PortConfig&) const {
    return Find(pid, end);
  }
  // The same of a wire, which the process counts at its port of this number.
  virtual absl::StatusOr<std::unique_ptr<Found>> FindCounts(pid_t /*pid*/,
                                                            std::size_t /*port*/) const {
    return nullptr;
  }
  // From now on read there.
  virtual void Take(std::unique_ptr<Found>) {}
  // The process that has `end` is gone: nobody can tell how full the link is until it is found
  // again.
  virtual void Forget(unsigned /*end*/) {}
  // Nobody reads any more what was valid before Take() or Forget().
  virtual void DropReplaced() {}

  // Buffers of the engine's packet memory that it keeps while no packet is under way.
  virtual std::uint32_t held() const noexcept { return 0; }
  // Frees the packets that wait in the engine's packet memory, and says how many. Nobody else
  // receives meanwhile.
  virtual std::uint32_t Empty() noexcept { return 0; }
  // A process that died in the middle of a burst may have left the link half-way. What it had not
  // wholly taken waits as before; what it had not wholly put is not there.
  virtual void ReclaimReceiver() noexcept {}
  virtual void ReclaimSender() noexcept {}
};

// One object for each kind, in one file with its links.
class LinkKind {
 public:
  virtual ~LinkKind() = default;

  virtual std::string name() const = 0;
  // Functions of the engine's DPDK group use it, and its packets are in the engine's memory. Else
  // it has two directions, functions of groups of their own use it, and packets are copies.
  virtual bool in_group() const = 0;
  unsigned directions() const { return in_group() ? 1 : 2; }
  // Its occupancy and what it carries can be known.
  virtual bool can_be_read() const { return true; }
  // Of each packet that it drops somebody tells. Else those are known by difference alone.
  virtual bool tells_of_drops(const v1::LinkConfig&) const { return can_be_read(); }
  // The receiver sees what one call sends as a whole, so that its work on it can be timed.
  virtual bool hands_over_at_once() const { return true; }
  // Which of the contract's settings its links have.
  virtual v1::LinkConfig::SettingsCase settings() const = 0;
  virtual bool engine_has_end(const v1::LinkConfig& config) const = 0;
  // A wire: end 1 is outside the run.
  virtual bool is_wire(const v1::LinkConfig&) const { return false; }
  // Packets of the engine's memory that the link may keep in use.
  virtual std::uint32_t packets(const v1::LinkConfig& config) const = 0;

  // An error is a sentence that names the link and what is wrong with it.
  virtual absl::Status Check(const v1::LinkConfig& config, bool foreign) const = 0;
  // Whether a link can be told from another one of its kind.
  virtual absl::Status CheckBeside(const v1::LinkConfig&, const v1::LinkConfig&) const {
    return absl::OkStatus();
  }
  // A foreign link is looked up, and has no end here. `pool` is for what the engine receives.
  virtual absl::StatusOr<std::unique_ptr<Link>> Make(const v1::LinkConfig& config, bool foreign,
                                                     rte_mempool* pool) const = 0;
};

// The one list of kinds. Null: there is none of that number.
const LinkKind* FindLinkKind(v1::LinkKind kind);

}  // namespace unis
