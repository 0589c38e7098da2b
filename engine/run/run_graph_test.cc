// Chains that branch, with packets: splits and merges of the engine's, and a function that chooses.
#include <map>
#include <utility>

#include "engine/run/run_for_test.h"

namespace unis {
namespace {

// What a port of a function is on.
struct Side {
  rte_ring* ring;
  unis_port_shm* shm;
};

// Bursts of all that comes in go out by one port after the other.
void ForwardInTurns(const std::vector<Side>& in, const std::vector<Side>& out) {
  const auto add = [](std::uint64_t& counter, std::uint64_t n) {
    __atomic_store_n(&counter, counter + n, __ATOMIC_RELEASE);
  };
  for (const auto* sides : {&in, &out})
    for (const Side& side : *sides)
      __atomic_store_n(&side.shm->polling_tid, static_cast<std::int32_t>(syscall(SYS_gettid)),
                       __ATOMIC_RELEASE);
  void* packets[64];
  alarm(60);  // whatever happens
  for (std::size_t turn = 0;; ++turn) {
    const Side& from = in[turn % in.size()];
    const Side& to = out[turn % out.size()];
    const unsigned taken = rte_ring_sc_dequeue_burst(from.ring, packets, 64, nullptr);
    add(from.shm->polls, 1);
    if (taken == 0) continue;
    add(from.shm->rx_packets, taken);
    unsigned sent = 0;
    while (sent < taken)
      sent += rte_ring_sp_enqueue_burst(to.ring, packets + sent, taken - sent, nullptr);
    add(to.shm->tx_packets, sent);
  }
}

class RunGraphTest : public RunTest {
 protected:
  absl::Status Deploy(v1::DeployRequest request) {
    for (auto& function : *request.mutable_functions()) function.set_cpu(LastCpu());
    request_ = request;
    return run_->Deploy(request);
  }
  void Add(const std::string& name) {
    std::vector<Side> in, out;
    for (const auto& function : request_.functions()) {
      if (function.name() != name) continue;
      for (const auto& port : function.ports()) {
        auto* shm = static_cast<unis_port_shm*>(rte_memzone_lookup(port.name().c_str())->addr);
        if (!port.rx().empty()) in.push_back({rte_ring_lookup(port.rx().c_str()), shm});
        if (!port.tx().empty()) out.push_back({rte_ring_lookup(port.tx().c_str()), shm});
      }
    }
    functions_.emplace_back([=] { ForwardInTurns(in, out); });
    ASSERT_TRUE(Attach(name, functions_.back().pid()).ok());
  }
  void BringUp(const v1::DeployRequest& request) {
    ASSERT_TRUE(Deploy(request).ok());
    for (const auto& function : request_.functions()) Add(function.name());
    ASSERT_TRUE(Start().ok());
  }
  bool DeliversMore(std::uint64_t packets = 20'000) {
    const auto before = Stats().account().delivered();
    return Eventually([&] {
      run_->Look();
      return Stats().account().delivered() > before + packets;
    });
  }
  v1::Account Settled() {
    v1::SettleRequest request;
    request.set_timeout_ns(20'000'000'000);
    const auto account = run_->Settle(request);
    EXPECT_TRUE(account.ok()) << account.status();
    if (!account.ok()) return {};
    EXPECT_TRUE(account->exact()) << account->doubt();
    EXPECT_EQ(account->unaccounted(), 0) << account->ShortDebugString();
    EXPECT_EQ(account->in_flight(), 0U) << account->ShortDebugString();
    return *account;
  }
  // From now on there is next to no traffic.
  void Quieten() {
    request_.mutable_traffic()->set_pps(0.001);
    ASSERT_TRUE(run_->Apply(request_).ok());
  }
  // By from and to.
  std::map<std::pair<std::string, std::string>, v1::EdgeStats> Edges() {
    std::map<std::pair<std::string, std::string>, v1::EdgeStats> edges;
    const v1::Stats stats = Stats();
    for (const auto& edge : stats.chains(0).edges()) {
      EXPECT_EQ(edge.offered(), edge.taken() + edge.dropped() + edge.waiting());
      edges[{edge.from(), edge.to()}] = edge;
    }
    return edges;
  }

  v1::DeployRequest request_;
};

// All flows are to one port: by weight both branches get some.
v1::DeployRequest Weighed() {
  auto request = Diamond();
  auto* branch = request.mutable_chains(0)->mutable_splits(0);
  for (int i = 0; i < 2; ++i) {
    branch->mutable_branches(i)->clear_match();
    branch->mutable_branches(i)->set_weight(1);
  }
  return request;
}

TEST_F(RunGraphTest, WhatTheEngineSplitsMergesAndCopiesIsAccountedFor) {
  BringUp(Weighed());
  ASSERT_TRUE(DeliversMore());
  Quieten();
  const v1::Account account = Settled();
  EXPECT_GT(account.copied(), 0U);
  EXPECT_EQ(account.copied(), account.copies_ended());
  EXPECT_EQ(account.copied() + account.copies_dropped(), account.delivered());
  EXPECT_EQ(account.delivered(), account.offered()) << "nothing is lost inside";
  auto edges = Edges();
  const auto nat = edges[{"fw", "nat"}], dpi = edges[{"fw", "dpi"}];
  EXPECT_GT(nat.taken(), 0U);
  EXPECT_GT(dpi.taken(), 0U);
  // A packet may have come since.
  const auto as_many = [](std::uint64_t packets, std::uint64_t others) {
    EXPECT_NEAR(static_cast<double>(packets), static_cast<double>(others), 1);
  };
  as_many(nat.taken() + dpi.taken(), account.offered());
  as_many(edges[{"nat", "monitor"}].taken(), nat.taken());
  as_many(edges[{"monitor", ""}].taken(), account.delivered());
  as_many(edges[{"monitor", "watch"}].taken(), account.copied());
  EXPECT_EQ((edges[{"monitor", "watch"}].dropped()), account.copies_dropped());
  as_many(edges[{"", "fw"}].offered(), account.offered());
}

TEST_F(RunGraphTest, AFunctionThatChoosesAPortNeedsNoSplitOfTheEngine) {
  BringUp(PortDiamond());
  ASSERT_TRUE(DeliversMore());
  Quieten();
  const v1::Account account = Settled();
  EXPECT_EQ(account.copied(), 0U);
  auto edges = Edges();
  EXPECT_GT((edges[{"fw", "nat"}].taken()), 0U);
  EXPECT_NEAR(static_cast<double>(edges[{"fw", "nat"}].taken() + edges[{"fw", "dpi"}].taken()),
              static_cast<double>(account.delivered()), 1);
  EXPECT_EQ((edges[{"fw", "dpi"}].port()), 1U);
  request_.mutable_traffic()->clear_pps();
  ASSERT_TRUE(run_->Apply(request_).ok());
  for (const v1::Policy policy : {v1::POLICY_RR, v1::POLICY_OTHER, v1::POLICY_UNIS}) {
    ASSERT_TRUE(SetPolicy(policy).ok());
    EXPECT_TRUE(DeliversMore());
    Settled();
  }
}

TEST_F(RunGraphTest, WhileAFunctionOfABranchIsDeadTheOtherBranchGoesOn) {
  BringUp(Weighed());
  ASSERT_TRUE(DeliversMore());
  functions_[2].End();  // dpi
  run_->Look();
  EXPECT_TRUE(DeliversMore());
  EXPECT_EQ(Stats().chains(0).down(), "");
  ASSERT_TRUE(Detach("dpi").ok());
  EXPECT_TRUE(DeliversMore());
  const auto before = Edges()[{"fw", "dpi"}];
  EXPECT_GT(before.dropped(), 0U);
  const std::uint64_t dropped = Stats().chains(0).dropped_down();
  const v1::Account account = Settled();  // then traffic goes on
  EXPECT_GT(account.dropped_down(), before.dropped() / 2) << "among others those of the edge";
  EXPECT_LE(dropped, account.dropped_down());
  EXPECT_GE(Stats().chains(0).dropped_down(), account.dropped_down());
  EXPECT_EQ((Edges()[{"fw", "dpi"}].taken()), Stats().functions(2).paths(0).rx_packets())
      << "what waited for it was not taken";
  Add("dpi");
  EXPECT_TRUE(DeliversMore());
  EXPECT_GT((Edges()[{"fw", "dpi"}].taken()), before.taken() + 1000);
  functions_[0].End();  // fw, whom all packets pass
  run_->Look();
  EXPECT_EQ(Stats().chains(0).down(), "fw");
  Settled();
}

TEST_F(RunGraphTest, ADeadTapTakesNoPacketOfItsChain) {
  BringUp(Weighed());
  ASSERT_TRUE(DeliversMore());
  functions_[4].End();  // watch
  run_->Look();
  EXPECT_EQ(Stats().chains(0).down(), "");
  const v1::Account before = Settled();
  EXPECT_TRUE(DeliversMore());
  ASSERT_TRUE(Detach("watch").ok());
  const v1::Account dead = Settled();
  EXPECT_EQ(dead.copied(), before.copied());
  EXPECT_EQ(dead.copied() + dead.copies_dropped(), dead.delivered());
  EXPECT_EQ(dead.dropped_down(), 0U);
  EXPECT_EQ(dead.delivered(), dead.offered());
  Add("watch");
  EXPECT_TRUE(DeliversMore());
  EXPECT_GT(Settled().copies_ended(), dead.copies_ended());
}

TEST_F(RunGraphTest, AFunctionThatChoosesADeadPortGoesOnWithTheOthers) {
  BringUp(PortDiamond());
  ASSERT_TRUE(DeliversMore());
  functions_[2].End();  // dpi
  run_->Look();
  const auto taken = Edges()[{"fw", "nat"}].taken();
  EXPECT_TRUE(DeliversMore());
  EXPECT_GT((Edges()[{"fw", "nat"}].taken()), taken);
  EXPECT_EQ(Stats().chains(0).down(), "");
  EXPECT_GT(Settled().dropped_down(), 0U);
}

TEST_F(RunGraphTest, CountersOfEdgesGoOnWhenTheGraphChanges) {
  BringUp(Diamond());
  ASSERT_TRUE(DeliversMore());
  Settled();
  const auto before = Edges()[{"fw", "dpi"}];
  auto* branches = request_.mutable_chains(0)->mutable_splits(0);
  branches->mutable_branches(1)->mutable_match(0)->set_dst_port(53);
  ASSERT_TRUE(run_->Apply(request_).ok());
  ASSERT_TRUE(DeliversMore());
  Settled();
  EXPECT_GT((Edges()[{"fw", "dpi"}].taken()), before.taken());
}

}  // namespace
}  // namespace unis
