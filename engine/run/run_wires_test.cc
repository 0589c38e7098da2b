// Chains whose ends are wires: what comes in and goes out the functions' plug-in counts, of which a
// process here does what the engine sees of it.
#include <sched.h>

#include <limits>

#include "engine/controller/turn_takers_for_test.h"
#include "engine/run/run_for_test.h"

namespace unis {
namespace {

using std::chrono::steady_clock;

constexpr std::uint64_t kPackets = 5'000;  // packets that a process receives
constexpr std::uint64_t kLostOf = 10;
constexpr std::uint64_t kBytes = 60;
constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();
constexpr std::chrono::microseconds kGap{100};

// Receives on its port 0 a packet each `gap`, and sends by its port 1 all but some.
void CountTill(std::uint64_t most, std::chrono::microseconds gap) {
  unis_turns* const turns = MakeTurnsFile();
  const auto store = [](std::uint64_t& count, std::uint64_t value) {
    __atomic_store_n(&count, value, __ATOMIC_RELEASE);
  };
  alarm(60);  // whatever happens
  for (std::uint64_t received = 0;;) {
    if (received == most) continue;
    for (const auto end = steady_clock::now() + gap; steady_clock::now() < end;) {
    }
    ++received;
    const std::uint64_t sent = received - received / kLostOf;
    store(turns->ports[0].received, received);
    store(turns->ports[1].sent_bytes, sent * kBytes);
    store(turns->ports[1].sent, sent);
  }
}

class RunWiresTest : public RunTest {
 protected:
  static v1::LinkConfig* AddWire(v1::DeployRequest& request, const std::string& name) {
    auto* link = request.add_links();
    link->set_name(name);
    link->set_kind(v1::LINK_SRIOV);
    link->set_slots(1024);
    link->mutable_sriov()->set_address0("0000:01:10." + std::to_string(request.links_size()));
    return link;
  }
  v1::DeployRequest AtWires() {
    v1::DeployRequest request = Empty();
    request.mutable_traffic()->Clear();
    request.mutable_traffic()->mutable_wire();
    AddWire(request, "in");
    AddWire(request, "out");
    auto* function = AddFunction(request, "f", v1::GROUP_OWN);
    function->set_cpu(LastCpu());
    for (const char* wire : {"in", "out"}) {
      AddPort(*function, wire, wire);
      function->mutable_ports(function->ports_size() - 1)->set_end(0);
    }
    AddHop(*AddChain(request, "chain", "in", "out"), "f", 0, 1);
    return request;
  }
  void BringUpAtWires(std::uint64_t packets = kPackets, std::chrono::microseconds gap = {}) {
    const auto deployed = run_->Deploy(AtWires());
    ASSERT_TRUE(deployed.ok()) << deployed;
    SpawnCounting(packets, gap);
    const auto started = Start(v1::POLICY_OTHER);
    ASSERT_TRUE(started.ok()) << started;
  }
  void SpawnCounting(std::uint64_t packets = kPackets, std::chrono::microseconds gap = {}) {
    functions_.emplace_back([=] { CountTill(packets, gap); });
    const auto attached = Attach("f", functions_.back().pid());
    ASSERT_TRUE(attached.ok()) << attached;
  }
  void KillAndDetach() {
    functions_.back().Kill();
    EXPECT_TRUE(Eventually([this] {
      run_->Look();
      return ChainNamed("chain").down() == "f";
    }));
    EXPECT_TRUE(Detach("f").ok());
  }
  bool Offers(std::uint64_t packets) {
    return Eventually([&] {
      run_->Look();
      return ChainNamed("chain").offered() == packets;
    });
  }
  std::string Refused(const v1::DeployRequest& request) {
    const absl::Status status = run_->Deploy(request);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }
};

TEST_F(RunWiresTest, WhatTheFirstReceivesIsOfferedAndWhatTheLastSendsIsDelivered) {
  ASSERT_NO_FATAL_FAILURE(BringUpAtWires());
  ASSERT_TRUE(Offers(kPackets));
  const v1::ChainStats chain = ChainNamed("chain");
  EXPECT_EQ(chain.delivered(), kPackets - kPackets / kLostOf);
  EXPECT_EQ(chain.delivered_bytes(), chain.delivered() * kBytes);
  const v1::Account account = Settled();
  EXPECT_TRUE(account.exact()) << account.doubt();
  EXPECT_EQ(account.offered(), kPackets);
  EXPECT_EQ(account.delivered(), chain.delivered());
  EXPECT_EQ(account.lost_unseen(), kPackets / kLostOf) << "a link may have lost them as well";
  EXPECT_EQ(account.unaccounted(), 0) << account.ShortDebugString();
}

TEST_F(RunWiresTest, TheEngineHasNeitherSourceNorSink) {
  ASSERT_NO_FATAL_FAILURE(BringUpAtWires());
  const v1::Stats stats = Stats();
  for (const auto& component : stats.components()) {
    EXPECT_NE(component.name(), "source");
    EXPECT_NE(component.name(), "sink");
  }
  for (const v1::LinkStats* link :
       {&stats.functions(0).paths(0).ingress(), &stats.functions(0).paths(0).egress()})
    EXPECT_FALSE(link->has_packets()) << "nobody can look into " << link->name();
}

TEST_F(RunWiresTest, TheProcessThatComesAfterADeadOneGoesOnCounting) {
  ASSERT_NO_FATAL_FAILURE(BringUpAtWires());
  ASSERT_TRUE(Offers(kPackets));
  KillAndDetach();
  EXPECT_EQ(ChainNamed("chain").offered(), kPackets);
  ASSERT_NO_FATAL_FAILURE(SpawnCounting());
  EXPECT_TRUE(Offers(2 * kPackets));
  EXPECT_EQ(ChainNamed("chain").delivered(), 2 * (kPackets - kPackets / kLostOf));
}

TEST_F(RunWiresTest, AWindowHasWhatPassedInIt) {
  ASSERT_NO_FATAL_FAILURE(BringUpAtWires(kEndless, kGap));
  const auto delivered = [this] {
    run_->Look();
    return ChainNamed("chain").delivered();
  };
  ASSERT_TRUE(Eventually([&] { return delivered() > 100; }));
  const std::uint64_t before = delivered();
  const auto window = Measure(20);
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_GT(window->delivered(), 0U);
  EXPECT_LE(window->delivered(), delivered() - before) << "what came before is not of the window";
}

TEST_F(RunWiresTest, AWindowInWhichNothingPassesIsEmptyAndHasNoRate) {
  ASSERT_NO_FATAL_FAILURE(BringUpAtWires());
  ASSERT_TRUE(Offers(kPackets));
  const auto window = Measure(20);
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_EQ(window->delivered(), 0U);
  v1::MeasureRequest request;
  request.set_window_ns(20'000'000);
  request.set_pps(1000);
  EXPECT_TRUE(Says(run_->Measure(request).status(), "what comes over a wire has no rate"));
}

TEST_F(RunWiresTest, AnAttachFailsAtOnceWhereWaitingDoesNotHelp) {
  ASSERT_TRUE(run_->Deploy(AtWires()).ok());
  functions_.emplace_back([] {
    MakeTurnsFile(UNIS_TURNS_VERSION + 1);
    pause();
  });
  const absl::Status attached = Attach("f", functions_.back().pid());
  EXPECT_EQ(attached.code(), absl::StatusCode::kFailedPrecondition) << attached;
  EXPECT_TRUE(Says(attached, "function f has links that cannot be read")) << attached;
}

// As `unis down` does, to a source that nobody can stop.
TEST_F(RunWiresTest, AStopDoesNotWaitForAWireToRunDry) {
  ASSERT_NO_FATAL_FAILURE(BringUpAtWires(kEndless, kGap));
  v1::SettleRequest request;
  request.set_timeout_ns(20'000'000'000);
  const auto before = steady_clock::now();
  const auto account = run_->Stop(request);
  EXPECT_LT(steady_clock::now() - before, 5s);
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_FALSE(account->exact());
  EXPECT_EQ(account->doubt(), "the chains did not drain");
}

TEST_F(RunWiresTest, NothingIsSentThroughItsFunctionsToMeasureThem) {
  ASSERT_TRUE(run_->Deploy(AtWires()).ok());
  EXPECT_TRUE(Says(run_->Estimate({}, {}).status(), "nothing is sent through functions at wires"));
}

TEST_F(RunWiresTest, WhatIsNoChainAtWiresIsRefused) {
  v1::DeployRequest request = AtWires();
  request.mutable_links(1)->mutable_sriov()->set_address1("0000:01:11.0");
  EXPECT_NE(Refused(request).find("0 of its end 1"), std::string::npos);
  request = AtWires();
  request.mutable_links(0)->mutable_sriov()->set_engine_end(true);
  EXPECT_NE(Refused(request).find("is a wire, of which a function has the end"), std::string::npos);
  request = AtWires();
  request.mutable_traffic()->set_pps(5);
  EXPECT_NE(Refused(request).find("give no rate, arrivals or sink"), std::string::npos);
  request = AtWires();
  request.mutable_traffic()->mutable_synthetic()->set_size(64);
  EXPECT_NE(Refused(request).find("needs links of which the engine has an end"), std::string::npos);
}

TEST_F(RunWiresTest, TheWiresOfAChainStay) {
  ASSERT_NO_FATAL_FAILURE(BringUpAtWires());
  KillAndDetach();
  v1::DeployRequest request = AtWires();
  request.mutable_links(0)->set_name("other");
  auto& port = *request.mutable_functions(0)->mutable_ports(0);
  port.set_rx("other");
  port.set_tx("other");
  port.set_name("f.other");
  request.mutable_chains(0)->set_ingress("other");
  const absl::Status applied = run_->Apply(request);
  EXPECT_TRUE(Says(applied, "wires cannot be changed while it runs")) << applied;
}

}  // namespace
}  // namespace unis
