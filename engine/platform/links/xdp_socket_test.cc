// Links to functions that have AF_XDP sockets: one of this process, or of one that it has started.
#include "engine/platform/links/xdp_socket.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/machine_for_test.h"
#include "engine/monitor/link_progress.h"
#include "engine/platform/links/device_pair_for_test.h"
#include "engine/platform/links/kinds.h"
#include "engine/platform/links/veth.h"
#include "engine/platform/links/xdp_program_for_test.h"
#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

class XdpSocketTest : public MemoryTest {
 protected:
  static constexpr std::uint32_t kSlots = 256;

  void SetUp() override {
    UNIS_NEED_ROOT();
    MemoryTest::SetUp();
    ASSERT_NO_FATAL_FAILURE(MakeDevicePair(near_, far_));
  }
  void TearDown() override {
    RemoveDevicePair(near_);
    MemoryTest::TearDown();
  }

  v1::LinkConfig Config(bool engine_end) const {
    return OnDevicePair(v1::LINK_XDP, kSlots, near_, far_, engine_end);
  }
  std::unique_ptr<VethLink> Make(bool engine_end) const {
    auto link = VethLink::Create(Config(engine_end), memory_->pool());
    EXPECT_TRUE(link.ok()) << link.status();
    return link.ok() ? *std::move(link) : nullptr;
  }
  // As a function's port is told; the one that was made last unless `inode` says which.
  static v1::PortConfig Port(pid_t pid = getpid(), ino_t inode = 0) {
    v1::PortConfig port;
    const auto sockets = XdpSocketsOf(pid);
    EXPECT_FALSE(sockets.empty());
    port.add_sockets()->set_inode(inode != 0 ? inode : *sockets.rbegin());
    port.mutable_sockets(0)->set_xdp(true);
    return port;
  }
  static void Find(VethLink& link, unsigned end, pid_t pid = getpid(), ino_t inode = 0) {
    auto found = link.FindNamed(pid, end, Port(pid, inode));
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_NE(*found, nullptr);
    link.Take(*std::move(found));
  }
  // One by one, as long as there is room.
  std::uint32_t Send(LinkEnd& end, std::uint32_t most, std::size_t bytes = 60) {
    const std::vector<std::uint8_t> frame(bytes, 0x5a);
    std::uint32_t sent = 0;
    for (; sent < most && end.Room() > 0; ++sent) {
      rte_mbuf* packet = Packet(frame);
      if (end.Send(&packet, 1) == 1) continue;
      rte_pktmbuf_free(packet);
      break;
    }
    return sent;
  }
  static std::uint32_t Receive(LinkEnd& end) {
    std::array<rte_mbuf*, kBurst> packets;
    std::uint32_t received = 0;
    while (const std::uint16_t count = end.Receive(packets.data(), kBurst)) {
      rte_pktmbuf_free_bulk(packets.data(), count);
      received += count;
    }
    return received;
  }
  // By somebody who looks at no room.
  void Flood(std::uint32_t count, std::size_t bytes = 60) const {
    const UniqueFd socket(::socket(AF_PACKET, SOCK_RAW, 0));
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(if_nametoindex(near_.c_str()));
    const std::vector<std::uint8_t> frame(bytes, 0x5a);
    for (std::uint32_t i = 0; i < count; ++i)
      ASSERT_EQ(sendto(socket.get(), frame.data(), bytes, 0, reinterpret_cast<const sockaddr*>(&to),
                       sizeof(to)),
                static_cast<ssize_t>(bytes));
  }
  static std::uint32_t Waiting(VethLink& link, unsigned direction) {
    link.Look(direction);
    return link.occupancy(direction).Packets();
  }
  static bool Wait(VethLink& link, unsigned direction, std::uint32_t packets) {
    return Eventually([&] { return Waiting(link, direction) == packets; });
  }

  const std::string near_ = fmt::format("ux{}a", getpid()), far_ = fmt::format("ux{}b", getpid());
};

TEST_F(XdpSocketTest, CountsWhatWasPutAndWhatWasTaken) {
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  EXPECT_TRUE(link->counts_by_looks()) << "what comes to the engine";
  EXPECT_FALSE(Make(false)->counts_by_looks()) << "the kernel and the functions count";
  EXPECT_EQ(link->Find(getpid(), 1).status().code(), absl::StatusCode::kNotFound);
  XdpProgramForTest program(far_, kSlots, 2 * kSlots);
  ASSERT_TRUE(program.works());
  EXPECT_FALSE(link->occupancy(1).readable());
  Find(*link, 1);
  EXPECT_EQ(link->occupancy(1).capacity(), kSlots);
  LinkProgress there(link->occupancy(1)), back(link->occupancy(0));
  for (std::uint32_t round = 1; round <= 50; ++round) {
    ASSERT_EQ(Send(*link->end(), 100), 100U);
    ASSERT_TRUE(Wait(*link, 1, 100));
    ASSERT_EQ(program.Receive(64), 64U);
    ASSERT_EQ(Waiting(*link, 1), 36U);
    there.Sample();
    ASSERT_EQ(there.sent(), round * 100);
    ASSERT_EQ(there.received(), (round - 1) * 100 + 64);
    ASSERT_EQ(program.Receive(1000), 36U);
    ASSERT_EQ(program.Send(40), 40U);
    ASSERT_TRUE(Wait(*link, 0, 40));
    ASSERT_EQ(Receive(*link->end()), 40U);
  }
  back.Sample();
  EXPECT_EQ(link->Dropped(0) + link->Dropped(1), 0U);
}

// The child opens its socket and stops, again and again; what it is sent to takes is read of it.
class StoppedProgram {
 public:
  StoppedProgram(const std::string& device, std::uint32_t slots, std::uint32_t takes) {
    pid_ = fork();
    if (pid_ != 0) {
      Await();
      return;
    }
    XdpProgramForTest program(device, slots, 2 * slots);
    if (!program.works()) _exit(1);
    for (;;) {
      raise(SIGSTOP);
      program.Receive(takes);
    }
  }
  ~StoppedProgram() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  bool stopped() const { return stopped_; }
  pid_t pid() const { return pid_; }
  void GoOn() {
    kill(pid_, SIGCONT);
    Await();
  }

 private:
  void Await() {
    int status = 0;
    stopped_ = waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status);
  }

  pid_t pid_ = 0;
  bool stopped_ = false;
};

TEST_F(XdpSocketTest, AStoppedProgramIsAsFullAsItWasMade) {
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  std::optional<StoppedProgram> program(std::in_place, far_, kSlots, 40);
  ASSERT_TRUE(program->stopped());
  Find(*link, 1, program->pid());
  const auto again = link->FindNamed(program->pid(), 1, Port(program->pid()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, nullptr) << "it is found already";
  for (const std::uint32_t fill : {1U, 99U, 100U}) ASSERT_EQ(Send(*link->end(), fill), fill);
  EXPECT_TRUE(Wait(*link, 1, 200));
  program->GoOn();
  EXPECT_EQ(Waiting(*link, 1), 160U);
  EXPECT_EQ(Send(*link->end(), 1000), kSlots - 160);
  EXPECT_TRUE(Wait(*link, 1, kSlots));
  EXPECT_EQ(link->end()->Room(), 0U);
  EXPECT_EQ(link->Dropped(1), 0U) << "the engine sends no more than there is room for";
  Flood(77);
  EXPECT_TRUE(Eventually([&] { return link->Dropped(1) == 77; }));
  program->GoOn();
  EXPECT_EQ(Waiting(*link, 1), kSlots - 40);
  program.reset();
  link->Forget(1);
  EXPECT_FALSE(link->occupancy(1).readable());
  EXPECT_EQ(link->Dropped(1), 77 + kSlots - 40) << "what waited there is lost too";
  EXPECT_FALSE(XdpProgramForTest(far_, kSlots, kSlots).works()) << "it is held, though it is dead";
  link->DropReplaced();
  EXPECT_TRUE(Eventually([&] { return StoppedProgram(far_, kSlots, 1).stopped(); }))
      << "it is let go";
}

// Offered = delivered + dropped + waiting, whichever of both rings is short.
TEST_F(XdpSocketTest, TheAccountClosesWhereTheKernelDrops) {
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  for (const auto& [buffers, waiting] : {std::pair{2 * kSlots, kSlots}, std::pair{100U, 100U}}) {
    std::optional<XdpProgramForTest> opened;
    ASSERT_TRUE(Eventually([&, offered = buffers] {  // the kernel lets a device go later
      return opened.emplace(far_, kSlots, offered).works();
    }));
    XdpProgramForTest& program = *opened;
    Find(*link, 1);
    const std::uint64_t before = link->Dropped(1);
    Flood(300);
    EXPECT_TRUE(Eventually([&] { return Waiting(*link, 1) + link->Dropped(1) - before == 300; }));
    EXPECT_EQ(Waiting(*link, 1), waiting);
    EXPECT_EQ(link->end()->Room(), 0U) << "there is no slot, or no buffer";
    std::uint32_t delivered = program.Receive(30, true);
    Flood(300);
    EXPECT_TRUE(Eventually(
        [&] { return delivered + Waiting(*link, 1) + link->Dropped(1) - before == 600; }));
    delivered += program.Receive(1000);
    EXPECT_EQ(delivered + link->Dropped(1) - before, 600U);
    EXPECT_EQ(link->Dropped(1), link->Dropped(1)) << "each is told once";
    link->Forget(1);
    link->DropReplaced();
  }
}

TEST_F(XdpSocketTest, WhatIsTooLongIsDroppedAndCounted) {
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  ASSERT_TRUE(
      Shell(fmt::format("ip link set {} mtu 2000 && ip link set {} mtu 2000", near_, far_)));
  XdpProgramForTest program(far_, kSlots, kSlots);
  ASSERT_TRUE(program.works());
  Find(*link, 1);
  Flood(3, 1900);  // of a buffer the kernel keeps 256 bytes
  Flood(2, 1518);
  EXPECT_TRUE(Wait(*link, 1, 2));
  EXPECT_EQ(link->Dropped(1), 3U);
  EXPECT_EQ(program.Receive(10), 2U);
}

TEST_F(XdpSocketTest, OfSeveralSocketsEachIsTheOneThatWasTold) {
  const auto link = Make(false);
  ASSERT_NE(link, nullptr);
  XdpProgramForTest second(far_, 512, 64), first(near_, kSlots, kSlots);
  ASSERT_TRUE(first.works() && second.works());
  const ino_t of_second = *XdpSocketsOf(getpid()).begin();
  ASSERT_EQ(first.Send(5), 5U);
  Find(*link, 0);
  Find(*link, 1, getpid(), of_second);
  EXPECT_EQ(link->occupancy(0).capacity(), kSlots);
  EXPECT_EQ(link->occupancy(1).capacity(), 512U) << "as long as the function made it";
  EXPECT_TRUE(Wait(*link, 1, 5));
  EXPECT_EQ(Waiting(*link, 0), 0U);
  EXPECT_EQ(second.Receive(1000), 5U);
  ASSERT_EQ(second.Send(7), 7U);
  EXPECT_TRUE(Wait(*link, 0, 7));
  v1::PortConfig packets = Port();
  packets.mutable_sockets(0)->set_inode(1);
  link->Forget(0);
  EXPECT_EQ(link->FindNamed(getpid(), 0, packets).status().code(), absl::StatusCode::kNotFound);
}

// As a program with several queues has them, which somebody else started.
TEST_F(XdpSocketTest, OfAForeignEndAllSocketsCount) {
  v1::LinkConfig config;
  config.set_name("link");
  config.set_kind(v1::LINK_VETH);
  config.mutable_veth()->set_queues(1);
  auto link = VethLink::Create(config, nullptr);
  ASSERT_TRUE(link.ok()) << link.status();
  // Two sockets, each on a device of its own: a device that is made here has one queue.
  XdpProgramForTest one(far_, kSlots, kSlots), other(near_, kSlots, kSlots);
  ASSERT_TRUE(one.works() && other.works());
  v1::PortConfig port = Port();
  *port.add_sockets() = Port(getpid(), *XdpSocketsOf(getpid()).begin()).sockets(0);
  auto found = (*link)->FindNamed(getpid(), 1, port);
  ASSERT_TRUE(found.ok()) << found.status();
  (*link)->Take(*std::move(found));
  EXPECT_EQ((*link)->occupancy(1).queues(), 2U);
  EXPECT_TRUE((*link)->counts_by_looks());
  ASSERT_EQ(one.Send(20), 20U);
  ASSERT_EQ(other.Send(30), 30U);
  EXPECT_TRUE(Wait(**link, 1, 50));
  EXPECT_EQ(one.Receive(1000), 30U);
  EXPECT_TRUE(Wait(**link, 1, 20));
  EXPECT_EQ((*link)->occupancy(1).Received(), 30U);
  port.mutable_sockets(1)->set_xdp(false);
  (*link)->Forget(1);
  EXPECT_EQ((*link)->FindNamed(getpid(), 1, port).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(XdpSocketTest, NothingThatAFunctionWritesIsBelieved) {
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  XdpProgramForTest program(far_, kSlots, kSlots);
  ASSERT_TRUE(program.works());
  Find(*link, 1);
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
  for (const std::uint32_t produced : {0U, 1U, kSlots, kSlots + 1, kMost / 2, kMost})
    for (const std::uint32_t consumed : {0U, 1U, kSlots + 1, kMost}) {
      *program.rx.producer = produced;
      *program.rx.consumer = consumed;
      *program.fill.producer = consumed;
      EXPECT_LE(Waiting(*link, 1), kSlots);
      EXPECT_LE(link->end()->Room(), kBurst);
    }
  *program.rx.producer = 5;
  *program.rx.consumer = 0;
  *program.fill.producer = *program.fill.consumer + 3;
  EXPECT_EQ(Waiting(*link, 1), 5U);
  EXPECT_EQ(link->end()->Room(), 3U);
}

TEST_F(XdpSocketTest, SaysWhatItCannotDo) {
  const LinkKind& kind = *FindLinkKind(v1::LINK_XDP);
  EXPECT_EQ(kind.name(), "xdp");
  EXPECT_TRUE(kind.Check(Config(true), false).ok());
  v1::LinkConfig config = Config(true);
  config.mutable_veth()->set_queues(2);
  EXPECT_NE(kind.Check(config, false).message().find("one queue"), std::string::npos);
  EXPECT_NE(kind.Check(Config(true), true).message().find("foreign"), std::string::npos);
}

}  // namespace
}  // namespace unis
