// A run that changes while it lives: functions die and come back, chains come and go.
#include <fmt/format.h>
#include <rte_bus_vdev.h>
#include <rte_ethdev.h>
#include <rte_service_component.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>

#include "engine/base/proc.h"
#include "engine/base/random.h"
#include "engine/controller/fair_slice.h"
#include "engine/controller/kernel_setting.h"
#include "engine/run/deployment.h"
#include "engine/run/run_for_test.h"

namespace unis {
namespace {

class RunApplyTest : public RunTest {
 protected:
  // "chain" through a, and "other", UDP to port 53, through c.
  v1::DeployRequest Both() {
    v1::DeployRequest request = Empty();
    AddRingChain(request, "other", {"c"})->add_match()->set_dst_port(53);
    AddRingChain(request, "chain", {"a"});
    for (auto& function : *request.mutable_functions()) function.set_cpu(LastCpu());
    return request;
  }
  void BringUpBoth() {
    ASSERT_TRUE(run_->Deploy(Both()).ok());
    ASSERT_TRUE(Attach("c", Spawn("c", 0, "other")).ok());
    ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
    ASSERT_TRUE(Start().ok());
  }
};

TEST_F(RunApplyTest, ADeadFunctionTakesItsChainDownAndNoOther) {
  BringUpBoth();
  ASSERT_TRUE(Delivers("chain"));
  functions_[0].End();  // c
  run_->Look();
  EXPECT_EQ(ChainNamed("other").down(), "c");
  EXPECT_EQ(ChainNamed("chain").down(), "");
  const auto dropped = ChainNamed("other").dropped_down();
  EXPECT_TRUE(Eventually([&] { return ChainNamed("other").dropped_down() > dropped + 1000; }));
  EXPECT_TRUE(Delivers("chain"));
  EXPECT_EQ(ChainNamed("chain").dropped_down(), 0U);
  EXPECT_EQ(Stats().policy(), v1::POLICY_UNIS);
  EXPECT_EQ(Stats().functions(0).state(), v1::FUNCTION_STATE_EXITED);
  EXPECT_TRUE(SetPolicy(v1::POLICY_RR).ok()) << "of those who live";
  EXPECT_TRUE(Delivers("chain"));
  EveryPacketIsAccountedFor();
}

TEST_F(RunApplyTest, AFunctionThatComesBackRaisesItsChain) {
  BringUp();
  ASSERT_TRUE(Delivers("chain"));
  functions_[1].End();  // b
  EXPECT_TRUE(Says(Attach("b", getpid()), "detach it first"));
  ASSERT_TRUE(Detach("b").ok());
  EXPECT_EQ(ChainNamed("chain").down(), "b");
  const auto before = ChainNamed("chain");
  ASSERT_TRUE(Attach("b", Spawn("b", 1)).ok());
  EXPECT_EQ(ChainNamed("chain").down(), "");
  EXPECT_TRUE(Delivers("chain"));
  EXPECT_GE(ChainNamed("chain").dropped_down(), before.dropped_down());
  EXPECT_EQ(Stats().policy(), v1::POLICY_UNIS);
  EXPECT_EQ(ThreadsNoted(), 2U);
  EveryPacketIsAccountedFor();
  EXPECT_TRUE(Delivers("chain"));
}

// Wherever in a burst it was: mostly between taking or putting it and counting it.
TEST_F(RunApplyTest, ThePacketsOfFunctionsThatDieAtAnyMomentAreAccountedFor) {
  constexpr auto kPause = std::chrono::microseconds(5);
  ASSERT_TRUE(run_->Deploy(Chain({"a", "b"})).ok());
  const std::array<std::string, 2> names = {"a", "b"};
  std::array<std::size_t, 2> at = {0, 1};  // in functions_
  for (const std::size_t i : at)
    ASSERT_TRUE(Attach(names[i], Spawn(names[i], i, "chain", kPause)).ok());
  ASSERT_TRUE(Start().ok());
  Random random(7);
  for (std::size_t round = 0; round < 8; ++round) {
    const std::size_t victim = round % 2;
    ASSERT_TRUE(Delivers("chain"));
    std::this_thread::sleep_for(std::chrono::microseconds(random.Next() % 3000));
    functions_[at[victim]].End();
    run_->Look();
    ASSERT_TRUE(Detach(names[victim]).ok());
    at[victim] = functions_.size();
    ASSERT_TRUE(Attach(names[victim], Spawn(names[victim], victim, "chain", kPause)).ok());
    EveryPacketIsAccountedFor();
  }
}

TEST_F(RunApplyTest, TheTimeSliceOfTheKernelChangesWithTheRest) {
  const auto found = RrTimeslice().Read();
  ASSERT_TRUE(found.ok());
  BringUp();
  auto request = Chain({"a", "b"});
  for (const long ms : {*found + 20, *found + 40}) {
    request.set_rr_timeslice_ms(static_cast<std::uint32_t>(ms));
    ASSERT_TRUE(run_->Apply(request).ok());
    EXPECT_EQ(RrTimeslice().Read().value(), ms);
  }
  request.clear_rr_timeslice_ms();
  ASSERT_TRUE(run_->Apply(request).ok());
  EXPECT_EQ(RrTimeslice().Read().value(), *found);
}

// No slice of a fair class is so short: that shows when what runs has changed already.
TEST_F(RunApplyTest, TheTimeSliceOfTheKernelFollowsAChangeThatFailed) {
  UNIS_NEED(KnowsFairSlices().ok(), KnowsFairSlices().message());
  const long found = RrTimeslice().Read().value();
  BringUp();
  ASSERT_TRUE(SetPolicy(v1::POLICY_OTHER).ok());
  auto request = Chain({"a", "b"});
  request.set_rr_timeslice_ms(static_cast<std::uint32_t>(found + 20));
  request.set_fair_slice_ns(1);
  EXPECT_FALSE(run_->Apply(request).ok());
  request.clear_fair_slice_ns();
  EXPECT_TRUE(run_->Apply(request).ok());
  EXPECT_EQ(RrTimeslice().Read().value(), found + 20);
  run_->Release();
  EXPECT_EQ(RrTimeslice().Read().value(), found);
}

// It takes it in the moment in which this run has given up its own.
TEST_F(RunApplyTest, ATimeSliceThatAnotherRunTookIsTakenAgainOnceThatHasEnded) {
  const auto ledger = std::filesystem::temp_directory_path() / fmt::format("slice{}", getpid());
  setenv("UNIS_MACHINE_DIR", ledger.c_str(), 1);
  const KernelSetting slice = RrTimeslice();
  const long found = slice.Read().value();
  BringUp();
  auto before = Chain({"a", "b"});
  before.set_rr_timeslice_ms(static_cast<std::uint32_t>(found + 20));
  ASSERT_TRUE(run_->Apply(before).ok());
  ChildProcess other;
  std::ofstream(ledger / slice.name)
      << fmt::format("path {}\nbefore {}\nvalue {}\nholder {} {}\n", slice.path.string(), found,
                     found + 60, other.pid(), StatOfProcess(other.pid())->start_time);
  std::ofstream(slice.path) << found + 60;
  auto after = before;
  after.set_rr_timeslice_ms(static_cast<std::uint32_t>(found + 40));
  EXPECT_TRUE(Says(run_->Apply(after), "another run"));
  EXPECT_TRUE(Says(run_->Apply(before), "another run")) << "it is not there";
  other.End();
  EXPECT_TRUE(run_->Apply(before).ok());
  EXPECT_EQ(slice.Read().value(), found + 20);
  run_->Release();
  EXPECT_EQ(slice.Read().value(), found);
  unsetenv("UNIS_MACHINE_DIR");
  std::filesystem::remove_all(ledger);
}

TEST_F(RunApplyTest, FunctionsHaveTheirOwnTimeSliceUnderTheFairPoliciesAlone) {
  const std::uint64_t base = SliceOf(0);
  UNIS_NEED(base > 0, "this test needs a kernel that knows slices of threads, Linux 6.12");
  const auto all_have = [this](std::uint64_t ns, int policy) {
    for (const ChildProcess& function : functions_) {
      EXPECT_EQ(SliceOf(function.pid()), ns);
      EXPECT_EQ(sched_getscheduler(function.pid()) & ~SCHED_RESET_ON_FORK, policy);
    }
  };
  BringUp();
  auto request = Chain({"a", "b"});
  ASSERT_TRUE(SetPolicy(v1::POLICY_OTHER).ok());
  all_have(base, SCHED_OTHER);
  request.set_fair_slice_ns(100'000'000);
  ASSERT_TRUE(run_->Apply(request).ok());
  all_have(100'000'000, SCHED_OTHER);
  ASSERT_TRUE(SetPolicy(v1::POLICY_RR).ok());
  request.set_fair_slice_ns(20'000'000);
  ASSERT_TRUE(run_->Apply(request).ok());
  const auto window = MeasureTraffic(100, v1::POLICY_BATCH);
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_GT(window->delivered(), 0U);
  all_have(20'000'000, SCHED_BATCH);
  PutBackAsTheGuard();
  all_have(base, SCHED_OTHER);
  run_->Look();
  all_have(20'000'000, SCHED_BATCH);
  ASSERT_TRUE(SetPolicy(v1::POLICY_UNIS, v1::CONTROLLER_SIGNAL).ok());
  all_have(base, SCHED_OTHER);
  ASSERT_TRUE(SetPolicy(v1::POLICY_OTHER).ok());
  all_have(20'000'000, SCHED_OTHER);
  request.clear_fair_slice_ns();
  ASSERT_TRUE(run_->Apply(request).ok());
  all_have(base, SCHED_OTHER);
  request.set_fair_slice_ns(20'000'000);
  ASSERT_TRUE(run_->Apply(request).ok());
  run_->Release();
  all_have(base, SCHED_OTHER);
}

// Where the kernel decides each function has the class that it states; the engine has its own
// means.
TEST_F(RunApplyTest, FunctionsHaveTheKernelsClassThatTheyState) {
  const auto class_of = [this](const std::string& name) {
    const v1::Stats stats = Stats();
    for (const auto& function : stats.functions())
      if (function.name() == name) return function.scheduling();
    return std::string();
  };
  BringUp();
  auto request = Chain({"a", "b"});
  auto& first = *request.mutable_functions(0)->mutable_kernel();
  first.set_policy(v1::POLICY_COOPERATIVE);
  EXPECT_EQ(run_->Apply(request).code(), absl::StatusCode::kInvalidArgument);
  first.set_policy(v1::POLICY_BATCH);
  first.set_nice(-3);
  ASSERT_TRUE(run_->Apply(request).ok());
  EXPECT_TRUE(class_of("a").starts_with("rr ")) << "while the engine decides";
  ASSERT_TRUE(SetPolicy(v1::POLICY_OTHER).ok());
  EXPECT_EQ(class_of("a"), "batch, nice -3");
  EXPECT_EQ(class_of("b"), "other");
  first.Clear();
  first.set_priority(7);
  ASSERT_TRUE(run_->Apply(request).ok());
  EXPECT_EQ(class_of("a"), "other");
  ASSERT_TRUE(SetPolicy(v1::POLICY_RR).ok());
  EXPECT_EQ(class_of("a"), "rr 7");
  EXPECT_EQ(class_of("b"), "rr 1");
  ASSERT_TRUE(SetPolicy(v1::POLICY_IDLE).ok());
  EXPECT_EQ(class_of("b"), "idle");
  // While they are drained nobody may keep the CPU from the others.
  first.set_policy(v1::POLICY_FIFO);
  ASSERT_TRUE(run_->Apply(request).ok());
  EXPECT_EQ(class_of("a"), "fifo 7");
  v1::SettleRequest settle;
  settle.set_timeout_ns(10'000'000'000);
  ASSERT_TRUE(run_->Stop(settle).ok());
  EXPECT_EQ(class_of("a"), "other");
  run_->Release();
}

// Descriptors are as asked, told with the statistics, and stay while the run lives.
TEST_F(RunApplyTest, TheQueuesOfPortsAreAsLongAsAskedAndStaySo) {
  auto request = Chain({"a"});
  request.mutable_traffic()->mutable_port()->set_device("net_null_in");
  request.mutable_traffic()->mutable_port()->set_descriptors(256);
  request.mutable_traffic()->set_sink_device("net_null_out");
  request.mutable_traffic()->set_sink_descriptors(128);
  const auto status = run_->Deploy(request);
  ASSERT_TRUE(status.ok()) << status;
  const v1::Stats stats = Stats();
  ASSERT_EQ(stats.devices_size(), 2);
  EXPECT_EQ(stats.devices(0).device(), "net_null_in");
  EXPECT_EQ(stats.devices(0).rx_descriptors(), 256U);
  EXPECT_EQ(stats.devices(1).device(), "net_null_out");
  EXPECT_EQ(stats.devices(1).tx_descriptors(), 128U);
  EXPECT_TRUE(run_->Apply(request).ok());

  auto longer = request;
  longer.mutable_traffic()->mutable_port()->set_descriptors(512);
  EXPECT_TRUE(Says(run_->Apply(longer), "source and sink stay"));
  longer = request;
  longer.mutable_traffic()->set_sink_descriptors(256);
  EXPECT_TRUE(Says(run_->Apply(longer), "source and sink stay"));
}

// Each descriptor may hold a packet buffer, so there are as many more of them.
TEST_F(RunApplyTest, LongerQueuesHaveMorePacketBuffers) {
  std::map<std::uint32_t, std::uint64_t> size;
  for (const std::uint32_t descriptors : {64U, 8192U}) {
    auto request = Chain({"a"});
    request.mutable_traffic()->mutable_port()->set_device("net_null_both");
    request.mutable_traffic()->mutable_port()->set_descriptors(descriptors);
    request.mutable_traffic()->set_sink_device("net_null_both");
    request.mutable_traffic()->set_sink_descriptors(descriptors);
    auto deployment =
        Deployment::Create(request, {.cpus = {LastCpu()}, .service_lcores = {kPlatformLcore}});
    ASSERT_TRUE(deployment.ok()) << deployment.status();
    size[descriptors] = (*deployment)->memory().size();
  }
  EXPECT_GE(size[8192], size[64] + 2 * (8192 - 64));
}

// Only the proof that a process is dead makes its ports free for the next.
TEST_F(RunApplyTest, AFunctionThatWasNeverAttachedGivesItsPortsUpOnlyWhenItIsDead) {
  const std::string device = "net_null_never";  // stands for the port of a process of the group
  ASSERT_EQ(rte_vdev_init(device.c_str(), ""), 0);
  const auto is_there = [&device] {
    std::uint16_t port = 0;
    return rte_eth_dev_get_port_by_name(device.c_str(), &port) == 0;
  };
  auto request = Chain({"a"});
  request.mutable_functions(0)->mutable_ports(0)->set_device(device);
  ASSERT_TRUE(run_->Deploy(request).ok());
  const ChildProcess living;
  v1::DetachRequest detach;
  detach.set_function("a");
  EXPECT_TRUE(run_->Detach(detach).ok());
  EXPECT_TRUE(is_there()) << "nobody says that a process was started";
  detach.set_pid(living.pid());
  detach.set_start_time(StatOfProcess(living.pid())->start_time);
  EXPECT_TRUE(run_->Detach(detach).ok());
  EXPECT_TRUE(is_there()) << "it lives";
  living.Kill();
  ASSERT_TRUE(Eventually([&] { return StateOf(living.pid()) == 'Z'; }));
  EXPECT_TRUE(run_->Detach(detach).ok());
  EXPECT_FALSE(is_there());
}

TEST_F(RunApplyTest, AFunctionThatIsLetGoIsAsItWasFoundAndItsChainIsDown) {
  BringUpBoth();
  ASSERT_TRUE(Delivers("other"));
  ASSERT_TRUE(Detach("c").ok());
  EXPECT_EQ(sched_getscheduler(functions_[0].pid()), SCHED_OTHER);
  EXPECT_EQ(ChainNamed("other").down(), "c");
  EXPECT_EQ(ThreadsNoted(), 1U);
  EXPECT_TRUE(Says(Detach("c"), "not attached"));
  EXPECT_TRUE(Delivers("chain"));
  ASSERT_TRUE(Attach("c", functions_[0].pid()).ok()) << "again";
  EXPECT_TRUE(Delivers("other"));
  ASSERT_TRUE(Detach("c").ok());
  functions_[0].End();
  run_->Look();
  EXPECT_TRUE(Detach("c").ok()) << "it was let go, and has died since";
  EXPECT_TRUE(Detach("c").ok()) << "nobody is there";
  ASSERT_TRUE(Attach("c", Spawn("c", 0, "other")).ok());
  EXPECT_TRUE(Delivers("other"));
  EveryPacketIsAccountedFor();
}

// The process before it was let go, and polls till it ends.
TEST_F(RunApplyTest, TheProcessBeforeMayEndWhileAnotherIsAttached) {
  BringUpBoth();
  ASSERT_TRUE(Delivers("other"));
  ASSERT_TRUE(Detach("c").ok());
  int words[2];
  ASSERT_EQ(pipe(words), 0);
  functions_.emplace_back([from = rte_ring_lookup("other.0"), to = rte_ring_lookup("other.1"),
                           shm = PortOf("c"), word = words[0]] {
    char said = 0;
    if (read(word, &said, 1) == 1) Forward(from, to, shm);
  });
  absl::Status attached;
  std::thread attaching = UnderWay([&] { return attached = Attach("c", functions_.back().pid()); });
  functions_[0].End();
  run_->Look();
  EXPECT_EQ(write(words[1], "x", 1), 1);
  attaching.join();
  EXPECT_TRUE(attached.ok()) << attached;
  EXPECT_TRUE(Delivers("other"));
  EveryPacketIsAccountedFor();
  for (const int end : words) close(end);
}

TEST_F(RunApplyTest, AnAttachNamesTheStrangerThatPolls) {
  ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
  const pid_t polls = Spawn("a", 0);
  const ChildProcess other;
  v1::AttachRequest request;
  request.set_function("a");
  request.set_pid(other.pid());
  request.set_timeout_ns(50'000'000);
  EXPECT_TRUE(Says(run_->Attach(request).status(), fmt::format("thread {} polls", polls)));
  ASSERT_TRUE(Attach("a", polls).ok());
}

TEST_F(RunApplyTest, ChainsComeAndGoWhileOthersRun) {
  v1::DeployRequest alone = Both();
  alone.mutable_chains()->DeleteSubrange(0, 1);
  alone.mutable_functions()->DeleteSubrange(0, 1);
  alone.mutable_links()->DeleteSubrange(0, 2);
  ASSERT_TRUE(run_->Deploy(alone).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Delivers("chain"));
  for (int round = 0; round < 2; ++round) {
    const auto before = Stats();
    ASSERT_TRUE(run_->Apply(Both()).ok());
    EXPECT_EQ(ChainNamed("other").down(), "c");
    EXPECT_EQ(Stats().policy(), v1::POLICY_UNIS);
    EXPECT_GE(Stats().cores(0).switches(), before.cores(0).switches());
    ASSERT_TRUE(Attach("c", Spawn("c", 0, "other")).ok());
    EXPECT_TRUE(Delivers("other"));
    EXPECT_TRUE(Delivers("chain"));
    EXPECT_TRUE(Says(run_->Apply(alone), "function c runs and polls its links"));
    EXPECT_TRUE(Delivers("other")) << "as before";
    v1::DeployRequest without = Both();
    without.mutable_chains()->DeleteSubrange(0, 1);
    ASSERT_TRUE(run_->Apply(without).ok()) << "first the chain, then the function";
    functions_.back().End();
    ASSERT_TRUE(Detach("c").ok());
    ASSERT_TRUE(run_->Apply(alone).ok());
    EXPECT_EQ(rte_ring_lookup("other.0"), nullptr);
    EXPECT_EQ(Stats().chains_size(), 1);
    EXPECT_TRUE(Delivers("chain"));
  }
  EXPECT_EQ(ChainNamed("chain").dropped_ingress_full() + ChainNamed("chain").dropped_down(), 0U);
  EveryPacketIsAccountedFor();
}

TEST_F(RunApplyTest, WhatARunCannotTakeOnIsRefusedAndChangesNothing) {
  BringUpBoth();
  const auto refused = [this](const auto& change, const std::string& words) {
    v1::DeployRequest request = Both();
    change(request);
    const auto status = run_->Apply(request);
    EXPECT_TRUE(Says(status, words)) << status;
  };
  refused([](auto& request) { request.set_run("other"); }, "this engine runs test");
  refused([](auto& request) { request.mutable_links(0)->set_slots(64); }, "another name");
  refused([](auto& request) { request.clear_traffic(); }, "source and sink stay");
  refused([](auto& request) { request.mutable_chains(0)->set_egress("no"); }, "no");
  refused([](auto& request) { request.clear_scheduler(); }, "settings of the scheduler");
  refused([](auto& request) { request.mutable_traffic()->mutable_synthetic()->set_size(0); },
          "frame size 0");
  EXPECT_TRUE(Delivers("chain"));
  EXPECT_TRUE(Delivers("other"));
}

// The capture has gone, so whatever looks at the traffic again fails.
TEST_F(RunApplyTest, TheSameAgainTouchesNothing) {
  const auto capture =
      std::filesystem::temp_directory_path() / fmt::format("apply{}.pcap", getpid());
  std::array<std::uint32_t, 25> words{0xa1b2c3d4, 0x00040002, 0, 0, 65535, 1, 0, 0, 60, 60};
  std::ofstream(capture, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()), sizeof(words));
  v1::DeployRequest request = Chain({"a"});
  request.mutable_traffic()->mutable_replay()->set_file(capture);
  ASSERT_TRUE(run_->Deploy(request).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  ASSERT_TRUE(Start().ok());
  std::filesystem::remove(capture);
  EXPECT_TRUE(run_->Apply(request).ok());
  EXPECT_TRUE(Delivers("chain"));
  request.mutable_functions(0)->set_cost_ns(77);
  EXPECT_FALSE(run_->Apply(request).ok());
  EveryPacketIsAccountedFor();
}

TEST_F(RunApplyTest, SettingsAndMatchesChangeWhileChainsRun) {
  BringUpBoth();
  v1::DeployRequest request = Both();
  request.mutable_scheduler()->set_gamma(0.5);
  request.mutable_functions(0)->set_cost_ns(77);
  request.mutable_chains(0)->mutable_match(0)->set_dst_port(54);
  ASSERT_TRUE(run_->Apply(request).ok());
  EXPECT_EQ(Stats().functions(0).cost_ns(), 77);
  EXPECT_TRUE(Delivers("other"));
  EveryPacketIsAccountedFor();
}

TEST_F(RunApplyTest, BeforeTheStartPartsComeAndGoOneByOne) {
  ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
  ASSERT_TRUE(run_->Apply(Both()).ok());
  EXPECT_EQ(Stats().chains_size(), 2);
  v1::DeployRequest wrong = Both();
  wrong.mutable_functions()->DeleteSubrange(0, 1);
  EXPECT_TRUE(Says(run_->Apply(wrong), "passes through c")) << "a chain needs it";
  EXPECT_EQ(Stats().functions_size(), 2);
  ASSERT_TRUE(run_->Apply(Chain({"a"})).ok());
  EXPECT_EQ(rte_ring_lookup("other.0"), nullptr);
  const pid_t a = Spawn("a", 0);
  ASSERT_TRUE(Eventually([&] { return PortOf("a")->polling_tid == a; }));
  v1::DeployRequest none = Empty();
  EXPECT_TRUE(Says(run_->Apply(none), "thread " + std::to_string(a) + " still polls"));
  EXPECT_NE(rte_ring_lookup("chain.0"), nullptr);
  functions_[0].End();
  EXPECT_TRUE(run_->Apply(none).ok());
  EXPECT_EQ(rte_ring_lookup("chain.0"), nullptr);
}

// Somebody else's ring has the name: DPDK says so when the first of the two is made already.
TEST_F(RunApplyTest, WhatCannotBeMadeChangesNothing) {
  ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
  rte_ring* const foreign = rte_ring_create("foreign", 64, SOCKET_ID_ANY, 0);
  ASSERT_NE(foreign, nullptr);
  v1::DeployRequest request = Chain({"a"});
  for (const char* name : {"fresh", "foreign"}) AddRing(request, name);
  EXPECT_TRUE(Says(run_->Apply(request), "cannot make ring foreign"));
  EXPECT_EQ(rte_ring_lookup("fresh"), nullptr);
  EXPECT_EQ(Stats().chains_size(), 1);
  rte_ring_free(foreign);
  EXPECT_TRUE(run_->Apply(request).ok());
  EXPECT_NE(rte_ring_lookup("fresh"), nullptr);
}

// A service that has no slot left is the last thing that can fail.
TEST_F(RunApplyTest, AComponentThatCannotRunChangesNothing) {
  ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
  std::vector<std::uint32_t> services;
  rte_service_spec spec = {};
  snprintf(spec.name, sizeof(spec.name), "filler");
  spec.callback = [](void*) { return 0; };
  for (std::uint32_t id = 0; rte_service_component_register(&spec, &id) == 0;)
    services.push_back(id);
  EXPECT_FALSE(run_->Apply(MemifChain()).ok());
  EXPECT_NE(rte_ring_lookup("chain.0"), nullptr);
  EXPECT_EQ(rte_ring_lookup("r0"), nullptr);
  EXPECT_EQ(Stats().chains(0).functions_size(), 1);
  for (const std::uint32_t id : services) rte_service_component_unregister(id);
  v1::DeployRequest memif = MemifChain();
  for (auto& function : *memif.mutable_functions()) function.set_cpu(LastCpu());
  EXPECT_TRUE(run_->Apply(memif).ok()) << run_->Apply(memif);
}

TEST_F(RunApplyTest, ACostThatIsStatedNoMoreIsWhatItWasAndAssumed) {
  auto request = Chain({"a"});
  const auto apply = [&](double cost_ns) {
    request.mutable_functions(0)->set_cost_ns(cost_ns);
    EXPECT_TRUE(run_->Apply(request).ok());
    return Stats().functions(0);
  };
  request.mutable_functions(0)->set_cost_ns(70);
  ASSERT_TRUE(run_->Deploy(request).ok());
  EXPECT_EQ(Stats().functions(0).cost_source(), v1::COST_SOURCE_STATED);
  const auto assumed = apply(0);
  EXPECT_EQ(assumed.cost_ns(), 70);
  EXPECT_EQ(assumed.cost_source(), v1::COST_SOURCE_ASSUMED);
  const auto stated = apply(90);
  EXPECT_EQ(stated.cost_ns(), 90);
  EXPECT_EQ(stated.cost_source(), v1::COST_SOURCE_STATED);
}

// A window with its own settings puts the costs from before it back. A cost that was stated after
// the window stays.
TEST_F(RunApplyTest, ACostThatIsStatedAfterAWindowStays) {
  BringUp();
  auto request = Chain({"a", "b"});
  v1::MeasureRequest window;
  window.set_window_ns(50'000'000);
  *window.mutable_scheduler() = request.scheduler();
  window.mutable_scheduler()->set_gamma(0.5);
  ASSERT_TRUE(run_->Measure(window).ok());
  request.mutable_functions(0)->set_cost_ns(500);
  ASSERT_TRUE(run_->Apply(request).ok());
  ASSERT_TRUE(SetPolicy(v1::POLICY_OTHER).ok());
  EXPECT_EQ(Stats().functions(0).cost_ns(), 500);
  EXPECT_EQ(Stats().functions(0).cost_source(), v1::COST_SOURCE_STATED);
}

// It is started anew with one port, and what it had kept of the other chain stays counted.
TEST_F(RunApplyTest, TheAccountIsExactAfterOneOfTwoChainsThroughAFunctionIsRemoved) {
  constexpr unsigned kKept = 40;
  v1::DeployRequest one = Empty();
  AddRingChain(one, "chain", {"a"});
  one.mutable_functions(0)->set_cpu(LastCpu());
  v1::DeployRequest both = one;
  for (const char* link : {"second.0", "second.1"}) AddRing(both, link);
  AddPort(*both.mutable_functions(0), "second.0", "second.1");
  auto* second = AddChain(both, "second", "second.0", "second.1");
  second->add_match()->set_dst_port(53);
  AddHop(*second, "a", 1, 1);
  both.mutable_chains()->SwapElements(0, 1);  // the first that matches gets a packet
  ASSERT_TRUE(run_->Deploy(both).ok());
  functions_.emplace_back([from = rte_ring_lookup("second.0"), first = rte_ring_lookup("chain.0"),
                           to = rte_ring_lookup("chain.1"), shm = PortOf("a"),
                           other = static_cast<unis_port_shm*>(rte_memzone_lookup("a.1")->addr)] {
    __atomic_store_n(&shm->polling_tid, getpid(), __ATOMIC_RELEASE);
    void* kept[kKept];
    for (unsigned count = 0; count < kKept;) {
      const unsigned taken = rte_ring_sc_dequeue_burst(from, kept, kKept - count, nullptr);
      __atomic_fetch_add(&other->rx_packets, taken, __ATOMIC_RELEASE);
      count += taken;
    }
    Forward(first, to, shm);
  });
  ASSERT_TRUE(Attach("a", functions_.back().pid()).ok());
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Delivers("chain"));
  functions_.back().End();
  run_->Look();
  ASSERT_TRUE(Detach("a").ok());
  EveryPacketIsAccountedFor();
  ASSERT_TRUE(run_->Apply(one).ok());
  EXPECT_EQ(rte_ring_lookup("second.0"), nullptr);
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  EXPECT_TRUE(Delivers("chain"));
  EveryPacketIsAccountedFor();
  EXPECT_EQ(Settled().dropped_by_function(), kKept) << "while packets move, nobody can tell";
}

}  // namespace
}  // namespace unis
