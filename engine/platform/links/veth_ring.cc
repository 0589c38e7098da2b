#include "engine/platform/links/veth_ring.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

namespace unis {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kBlockBytes = 4096;
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

std::size_t BytesOf(std::uint32_t slots) {
  return std::size_t{2} * slots * PacketRings::kFrameBytes;
}

absl::Status Failed(const std::string& what) { return absl::ErrnoToStatus(errno, what); }

template <typename Value>
bool Set(const UniqueFd& socket, int option, const Value& value) {
  return setsockopt(socket.get(), SOL_PACKET, option, &value, sizeof(value)) == 0;
}

// The packet sockets that are bound to a device, in the network namespace of a process.
std::set<ino_t> SocketsOn(pid_t pid, unsigned device) {
  std::set<ino_t> inodes;
  std::ifstream table(fmt::format("/proc/{}/net/packet", pid));
  std::string line;
  std::getline(table, line);  // sk RefCnt Type Proto Iface R Rmem User Inode
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string skipped;
    unsigned bound = 0;
    ino_t inode = 0;
    for (int i = 0; i < 4; ++i) words >> skipped;
    words >> bound >> skipped >> skipped >> skipped >> inode;
    if (words && bound == device) inodes.insert(inode);
  }
  return inodes;
}

// Calls visit(descriptor, inode) for each open socket of a process, until it returns false.
template <typename Visit>
void ForEachSocket(pid_t pid, Visit visit) {
  constexpr std::string_view kBegin = "socket:[";
  std::error_code error;
  fs::directory_iterator file(fmt::format("/proc/{}/fd", pid), error);
  for (; !error && file != fs::directory_iterator(); file.increment(error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(file->path(), gone);
    if (gone || !target.starts_with(kBegin)) continue;
    const ino_t inode = std::strtoull(target.c_str() + kBegin.size(), nullptr, 10);
    if (!visit(std::atoi(file->path().filename().c_str()), inode)) return;
  }
}

UniqueFd Duplicate(const UniqueFd& process, int descriptor) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), descriptor, 0)));
}

std::uint64_t CameAt(const tpacket2_hdr& slot) {
  return __atomic_load_n(&slot.tp_sec, __ATOMIC_RELAXED) * kNsPerSecond +
         __atomic_load_n(&slot.tp_nsec, __ATOMIC_RELAXED);
}

}  // namespace

absl::StatusOr<PacketRings> PacketRings::Open(const std::string& device, std::uint32_t slots) {
  // Of no protocol until it is bound: else it receives from every device meanwhile.
  UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Failed("cannot make a packet socket, for which unisd needs net_raw");
  const unsigned index = if_nametoindex(device.c_str());
  if (index == 0) return Failed(fmt::format("there is no device {}", device));
  const tpacket_req request{.tp_block_size = kBlockBytes,
                            .tp_block_nr = slots / (kBlockBytes / kFrameBytes),
                            .tp_frame_size = kFrameBytes,
                            .tp_frame_nr = slots};
  if (!Set(socket, PACKET_VERSION, int{TPACKET_V2}) || !Set(socket, PACKET_LOSS, 1) ||
      !Set(socket, PACKET_QDISC_BYPASS, 1) || !Set(socket, PACKET_RX_RING, request) ||
      !Set(socket, PACKET_TX_RING, request))
    return Failed(
        fmt::format("cannot give a packet socket on {} rings of {} slots", device, slots));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(index);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Failed(fmt::format("cannot bind a packet socket to {}", device));
  return Map(std::move(socket), slots, PROT_READ | PROT_WRITE);
}

absl::StatusOr<std::vector<PacketRings>> PacketRings::Find(pid_t pid, const std::string& device,
                                                           std::uint32_t slots,
                                                           std::uint32_t sockets) {
  const std::set<ino_t> inodes = SocketsOn(pid, if_nametoindex(device.c_str()));
  std::map<int, ino_t> held;  // by descriptor
  ForEachSocket(pid, [&](int descriptor, ino_t inode) {
    if (inodes.contains(inode)) held.emplace(descriptor, inode);
    return true;
  });
  if (held.size() != sockets)
    return absl::NotFoundError(fmt::format("process {} has {} packet sockets on {}, and {} are due",
                                           pid, held.size(), device, sockets));
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  std::vector<PacketRings> found;
  for (const auto& [descriptor, inode] : held) {
    UniqueFd socket = Duplicate(process, descriptor);
    if (!socket.valid())
      return Failed(fmt::format("cannot duplicate descriptor {} of process {}", descriptor, pid));
    auto rings = Map(std::move(socket), slots, PROT_READ);
    // It may be another file's descriptor by now.
    if (!rings.ok() || rings->inode_ != inode)
      return absl::NotFoundError(fmt::format(
          "process {} has a packet socket on {} without rings of {} slots", pid, device, slots));
    found.push_back(*std::move(rings));
  }
  return found;
}

absl::StatusOr<PacketRings> PacketRings::Map(UniqueFd socket, std::uint32_t slots, int access) {
  // An ordinary file could become shorter under the mapping.
  struct stat status {};
  int domain = 0;
  socklen_t bytes = sizeof(domain);
  if (fstat(socket.get(), &status) != 0 || !S_ISSOCK(status.st_mode) ||
      getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || domain != AF_PACKET)
    return absl::NotFoundError("a descriptor is no packet socket any more");
  void* const memory = mmap(nullptr, BytesOf(slots), access, MAP_SHARED, socket.get(), 0);
  if (memory == MAP_FAILED) return Failed("cannot map the rings of a packet socket");
  return PacketRings(std::move(socket), memory, slots, status.st_ino);
}

PacketRings::~PacketRings() {
  if (memory_ != nullptr) munmap(memory_, BytesOf(slots_));
}

PacketRings::PacketRings(PacketRings&& other) noexcept
    : socket_(std::move(other.socket_)),
      memory_(std::exchange(other.memory_, nullptr)),
      slots_(other.slots_),
      inode_(other.inode_) {}

std::uint32_t PacketRings::TakeDrops() const noexcept {
  tpacket_stats counted{};
  socklen_t bytes = sizeof(counted);
  const int status = getsockopt(socket(), SOL_PACKET, PACKET_STATISTICS, &counted, &bytes);
  return status == 0 ? counted.tp_drops : 0;
}

bool PacketRings::HeldBy(pid_t pid) const {
  bool held = false;
  ForEachSocket(pid, [&](int, ino_t inode) {
    held = inode == inode_;
    return !held;
  });
  return held;
}

FollowedRings::FollowedRings(std::vector<PacketRings> rings)
    : rings_(std::move(rings)), counters_(rings_.size()), positions_(rings_.size()) {
  for (std::size_t ring = 0; ring < rings_.size(); ++ring) Begin(ring);
}

// The position behind the newest packet. Packets that wait in front of it were not taken yet.
void FollowedRings::Begin(std::size_t ring) noexcept {
  const PacketRings& in = rings_[ring];
  Position& at = positions_[ring];
  std::uint32_t head = 0;
  for (std::uint32_t slot = 0; slot < in.slots(); ++slot) {
    if (const std::uint64_t came = CameAt(*in.received(slot)); came > at.newest) {
      at.newest = came;
      head = slot + 1;
    }
  }
  std::uint32_t waiting = 0;
  while (waiting < in.slots() && Waits(*in.received(head - waiting - 1))) ++waiting;
  at.first = head - waiting;
  at.seen = waiting;
  counters_[ring].put = waiting;
}

void FollowedRings::Look() noexcept {
  const std::uint32_t sent = sent_ == nullptr ? 0 : __atomic_load_n(sent_, __ATOMIC_ACQUIRE);
  for (std::size_t ring = 0; ring < rings_.size(); ++ring) {
    Follow(ring);
    const std::uint32_t head = positions_[ring].first + counters_[ring].put;
    __atomic_store_n(&positions_[ring].head, std::uint64_t{head} << 32 | sent, __ATOMIC_RELEASE);
  }
}

void FollowedRings::Follow(std::size_t ring) noexcept {
  const PacketRings& in = rings_[ring];
  Position& at = positions_[ring];
  std::uint32_t put = counters_[ring].put, taken = counters_[ring].taken;
  for (std::uint32_t steps = 0; steps < in.slots(); ++steps, ++put) {
    const tpacket2_hdr& slot = *in.received(at.first + put);
    const bool waits = Waits(slot);
    const std::uint64_t came = CameAt(slot);
    if (!waits && CameAt(slot) != came) break;  // the kernel is at it
    // A packet that waits where none was is a new one, even if the clock was set back.
    if (came <= at.newest && !(waits && put - taken < in.slots())) break;
    at.newest = came;
  }
  // The kernel dates a packet before it says that it waits: what came since the last look may look
  // as if it had been taken.
  while (taken != at.seen && !Waits(*in.received(at.first + taken))) ++taken;
  if (put - taken > in.slots()) taken = put - in.slots();
  at.seen = put;
  __atomic_store_n(&counters_[ring].put, put, __ATOMIC_RELEASE);
  __atomic_store_n(&counters_[ring].taken, taken, __ATOMIC_RELEASE);
}

Occupancy FollowedRings::occupancy() const {
  return Occupancy::Filled({.ahead = &counters_[0].put,
                            .behind = &counters_[0].taken,
                            .queues = static_cast<std::uint32_t>(rings_.size()),
                            .stride = sizeof(Counters)},
                           rings_[0].slots());
}

std::uint64_t FollowedRings::TakeDrops() const noexcept {
  std::uint64_t drops = 0;
  for (const PacketRings& in : rings_) drops += in.TakeDrops();
  return drops;
}

}  // namespace unis
