// A chain on links that nobody can look into. The virtual functions are stand-ins: pairs of kernel
// devices, the engine's ends driven by net_af_packet.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>

#include "engine/platform/links/device_pair_for_test.h"
#include "engine/run/run_for_test.h"

namespace unis {
namespace {

constexpr std::uint32_t kDropEvery = 10;  // packets

UniqueFd SocketOn(const std::string& device) {
  UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(device.c_str()));
  const int bytes = 8 << 20;
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

// What a function that owns two ports does, in a process of its own. As with a driver in user space
// little of its time is the kernel's.
void ForwardAllButSome(int from, int to) {
  std::array<char, 2048> frame;
  alarm(60);  // whatever happens
  for (std::uint32_t count = 0;;) {
    sockaddr_ll origin{};
    socklen_t length = sizeof(origin);
    for (volatile int work = 0; work < 5'000;) work = work + 1;
    const ssize_t bytes = recvfrom(from, frame.data(), frame.size(), MSG_DONTWAIT,
                                   reinterpret_cast<sockaddr*>(&origin), &length);
    if (bytes <= 0 || origin.sll_pkttype == PACKET_OUTGOING) continue;
    if (++count % kDropEvery != 0) (void)send(to, frame.data(), static_cast<std::size_t>(bytes), 0);
  }
}

class RunUnseenTest : public RunTest {
 protected:
  void SetUp() override {
    RunTest::SetUp();
    if (run_ == nullptr) return;
    // Until net_af_packet has bound its socket, that takes frames of any device there is.
    ASSERT_TRUE(before_.valid());
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    for (int pair = 0; pair < 2; ++pair)
      ASSERT_NO_FATAL_FAILURE(MakeDevicePair(Name("n", pair), Name("f", pair)));
  }
  void TearDown() override {
    RunTest::TearDown();
    for (int pair = 0; pair < 2; ++pair) RemoveDevicePair(Name("n", pair));
    EXPECT_EQ(setns(before_.get(), CLONE_NEWNET), 0);
  }
  static std::string Name(const std::string& end, int pair) {
    return fmt::format("u{}{}-{}", end, pair, getpid());
  }

  // The engine ⇒ v0 → function → v1 ⇒ the engine.
  v1::DeployRequest OnStandIns() {
    v1::DeployRequest request = Empty();
    request.mutable_scheduler()->set_idle_ns(500'000);
    request.mutable_traffic()->set_pps(5'000);
    for (int pair = 0; pair < 2; ++pair) {
      auto* link = request.add_links();
      link->set_name(fmt::format("v{}", pair));
      link->set_kind(v1::LINK_SRIOV);
      link->set_slots(1024);
      const std::string device = Name("n", pair);
      link->mutable_sriov()->set_address0(fmt::format(
          "net_af_packet_{},iface={},blocksz=4096,framesz=2048,framecnt=1024", device, device));
      link->mutable_sriov()->set_address1(fmt::format("0000:01:10.{}", pair));
      link->mutable_sriov()->set_engine_end(true);
      link->mutable_sriov()->set_next_mac("\x02\x00\x00\x00\x00\x01", 6);
    }
    auto* function = AddFunction(request, "f", v1::GROUP_OWN);
    function->set_cpu(LastCpu());
    AddPort(*function, "v0", "v0");
    AddPort(*function, "v1", "v1");
    AddHop(*AddChain(request, "chain", "v0", "v1"), "f", 0, 1);
    return request;
  }
  void BringUpOnStandIns() {
    const auto deployed = run_->Deploy(OnStandIns());
    ASSERT_TRUE(deployed.ok()) << deployed;
    const int from = sockets_.emplace_back(SocketOn(Name("f", 0))).get();
    const int to = sockets_.emplace_back(SocketOn(Name("f", 1))).get();
    functions_.emplace_back([=] { ForwardAllButSome(from, to); });
    const auto attached = Attach("f", functions_.back().pid());
    ASSERT_TRUE(attached.ok()) << attached;
    const auto started = Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  const UniqueFd before_{open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)};
  std::vector<UniqueFd> sockets_;
};

TEST_F(RunUnseenTest, WhatIsLostIsKnownByDifferenceAndNotWhoLostIt) {
  BringUpOnStandIns();
  ASSERT_TRUE(Delivers("chain"));
  const v1::Account account = Settled();
  EXPECT_TRUE(account.exact()) << account.doubt();
  EXPECT_EQ(account.unaccounted(), 0) << account.ShortDebugString();
  EXPECT_EQ(account.in_flight(), 0U) << account.ShortDebugString();
  EXPECT_EQ(account.dropped_by_function(), 0U) << "a link may have lost them as well";
  EXPECT_EQ(account.offered(), account.delivered() + account.lost_unseen() +
                                   account.dropped_ingress_full() + account.dropped_on_links() +
                                   account.dropped_down());
  EXPECT_GE(account.lost_unseen(), account.delivered() / kDropEvery);
}

TEST_F(RunUnseenTest, NothingIsSaidOfWhatNobodySees) {
  BringUpOnStandIns();
  ASSERT_TRUE(Delivers("chain"));
  const v1::Stats stats = Stats();
  ASSERT_EQ(stats.functions_size(), 1);
  const v1::FunctionStats& function = stats.functions(0);
  EXPECT_FALSE(function.time().has_busy_ns());
  EXPECT_GT(function.time().spinning_ns(), 0U);
  ASSERT_EQ(function.paths_size(), 1);
  const v1::PathStats& path = function.paths(0);
  for (const v1::LinkStats* link : {&path.ingress(), &path.egress()}) {
    EXPECT_EQ(link->kind(), v1::LINK_SRIOV);
    EXPECT_FALSE(link->has_packets());
    EXPECT_EQ(link->capacity(), 1024U);
  }
  EXPECT_FALSE(path.received_known());
  EXPECT_FALSE(path.sent_known());
  ASSERT_EQ(stats.cores_size(), 1);
  EXPECT_EQ(stats.cores(0).cannot_rest(), "f") << "it may have packets at any time";
  EXPECT_EQ(stats.cores(0).rests(), 0U);
}

TEST_F(RunUnseenTest, WhileItsFunctionIsDeadPacketsAreDroppedBeforeItsChain) {
  BringUpOnStandIns();
  ASSERT_TRUE(Delivers("chain"));
  functions_.front().Kill();
  ASSERT_TRUE(Eventually([this] {
    run_->Look();
    return ChainNamed("chain").dropped_down() > 100;
  }));
  const v1::Account account = Settled();
  EXPECT_TRUE(account.exact()) << account.doubt();
  EXPECT_EQ(account.unaccounted(), 0) << account.ShortDebugString();
}

}  // namespace
}  // namespace unis
