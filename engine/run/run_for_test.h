// A run for tests: functions are child processes that forward from ring to ring, on the last CPU.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rte_memzone.h>
#include <rte_ring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/eal_for_test.h"
#include "engine/base/eventually_for_test.h"
#include "engine/base/process_for_test.h"
#include "engine/controller/scheduling_for_test.h"
#include "engine/run/deployments_for_test.h"
#include "engine/run/run.h"
#include "ports/net_unis/port_shm.h"

namespace unis {

// What a net_unis port and a function behind it do, in a process that shares our memory. `pause`
// stretches the moments in which a burst is taken or put and not counted yet.
inline void Forward(rte_ring* from, rte_ring* to, unis_port_shm* shm,
                    std::chrono::microseconds pause = {}) {
  __atomic_store_n(&shm->polling_tid, static_cast<std::int32_t>(syscall(SYS_gettid)),
                   __ATOMIC_RELEASE);
  const auto add = [](std::uint64_t& counter, std::uint64_t n) {
    __atomic_store_n(&counter, counter + n, __ATOMIC_RELEASE);
  };
  const auto linger = [pause] {
    const auto end = std::chrono::steady_clock::now() + pause;
    while (pause.count() > 0 && std::chrono::steady_clock::now() < end) {
    }
  };
  void* packets[64];
  alarm(60);  // whatever happens
  for (;;) {
    const unsigned taken = rte_ring_sc_dequeue_burst(from, packets, 64, nullptr);
    add(shm->polls, 1);
    if (taken == 0) continue;
    linger();
    add(shm->rx_packets, taken);
    unsigned sent = 0;
    while (sent < taken)  // loses nothing: it has no packet memory to give it back to
      sent += rte_ring_sp_enqueue_burst(to, packets + sent, taken - sent, nullptr);
    linger();
    add(shm->tx_packets, sent);
  }
}

inline bool Says(const absl::Status& status, const std::string& words) {
  return status.message().find(words) != std::string::npos;
}

class RunTest : public testing::Test {
 protected:
  void SetUp() override {
    UNIS_NEED_ROOT();
    UNIS_NEED_TWO_CPUS();
    ASSERT_TRUE(StartTestEal());
    LeaveLastCpu();
    auto held = HeldFile::Create(held_);
    ASSERT_TRUE(held.ok()) << held.status();
    run_ = std::make_unique<unis::Run>(unis::Run::Options{.service_lcores = service_lcores_,
                                                          .function_cpus = function_cpus_,
                                                          .end = {},
                                                          .held = *std::move(held),
                                                          .late_look_every = 20ms});
  }
  // The run first: it puts back the processes that go then.
  void TearDown() override {
    if (run_) run_->Release();
    for (const ChildProcess& function : functions_) function.Kill();
    functions_.clear();
    run_.reset();
    std::filesystem::remove(held_);
  }

  v1::DeployRequest Chain(const std::vector<std::string>& names) {
    auto request = RingChain(names);
    for (auto& function : *request.mutable_functions()) function.set_cpu(LastCpu());
    return request;
  }
  static auto* PortOf(const std::string& function) {
    return static_cast<unis_port_shm*>(rte_memzone_lookup((function + ".0").c_str())->addr);
  }
  // The i-th function of Chain().
  pid_t Spawn(const std::string& name, std::size_t i, const std::string& chain = "chain",
              std::chrono::microseconds pause = {}) {
    rte_ring* from = rte_ring_lookup((chain + "." + std::to_string(i)).c_str());
    rte_ring* to = rte_ring_lookup((chain + "." + std::to_string(i + 1)).c_str());
    unis_port_shm* shm = PortOf(name);
    functions_.emplace_back([=] { Forward(from, to, shm, pause); });
    return functions_.back().pid();
  }
  absl::Status Detach(const std::string& name) {
    v1::DetachRequest request;
    request.set_function(name);
    return run_->Detach(request);
  }
  absl::Status Attach(const std::string& name, pid_t pid) {
    v1::AttachRequest request;
    request.set_function(name);
    request.set_pid(pid);
    request.set_timeout_ns(20'000'000'000);
    return run_->Attach(request).status();
  }
  absl::Status Start(v1::Policy policy = v1::POLICY_UNIS) {
    v1::PolicyRequest request;
    request.set_policy(policy);
    return run_->Start(request);
  }
  absl::Status SetPolicy(v1::Policy policy,
                         v1::ControllerKind controller = v1::CONTROLLER_UNSPECIFIED) {
    v1::PolicyRequest request;
    request.set_policy(policy);
    request.set_controller(controller);
    return run_->SetPolicy(request);
  }
  absl::StatusOr<v1::MeasureReply> Measure(std::uint64_t ms,
                                           v1::Policy policy = v1::POLICY_UNSPECIFIED) {
    v1::MeasureRequest request;
    request.set_window_ns(ms * 1'000'000);
    request.set_policy(policy);
    return run_->Measure(request);
  }
  // A window in which packets come through: `ms` long, or as often as that takes on a busy machine.
  absl::StatusOr<v1::MeasureReply> MeasureTraffic(std::uint64_t ms,
                                                  v1::Policy policy = v1::POLICY_UNSPECIFIED) {
    absl::StatusOr<v1::MeasureReply> window;
    Eventually([&] {
      window = Measure(ms, policy);
      return !window.ok() || window->delivered() > 0;
    });
    return window;
  }
  // A thread in which `call` has begun, and keeps others out.
  std::thread UnderWay(std::function<absl::Status()> call) {
    std::thread thread([call = std::move(call)] {
      while (call().message().find("the engine is") != std::string::npos) {  // looking, as below
      }
    });
    const bool begun = Eventually([&] {
      v1::SwitchCostRequest nothing;  // refused, at once, whatever the run does
      nothing.set_cpu(0);
      return run_->MeasureSwitchCost(nothing).status().message().find("the engine is") !=
             std::string::npos;
    });
    EXPECT_TRUE(begun) << "the call was not seen under way";
    return thread;
  }
  v1::Stats Stats() { return *run_->GetStats({}); }
  // Two functions that run under policy unis.
  void BringUp(std::chrono::microseconds pause = {}) {
    ASSERT_TRUE(run_->Deploy(Chain({"a", "b"})).ok());
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string name = i == 0 ? "a" : "b";
      ASSERT_TRUE(Attach(name, Spawn(name, i, "chain", pause)).ok());
    }
    ASSERT_TRUE(Start().ok());
  }

  // Of BringUp(): packets wait for it, and keep the chain from draining.
  void StopSecond() {
    kill(functions_[1].pid(), SIGSTOP);
    EXPECT_TRUE(Eventually([] { return rte_ring_count(rte_ring_lookup("chain.1")) > 0; }));
  }

  // Brings up two functions without a stated cost.
  void BringUpUnknown(bool follow) {
    v1::DeployRequest request = Chain({"a", "b"});
    for (auto& function : *request.mutable_functions()) function.set_cost_ns(0);
    request.mutable_scheduler()->set_online_cost(follow);
    ASSERT_TRUE(run_->Deploy(request).ok());
    ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
    ASSERT_TRUE(Attach("b", Spawn("b", 1)).ok());
    ASSERT_TRUE(Start().ok());
  }

  v1::ChainStats ChainNamed(const std::string& name) {
    const v1::Stats stats = Stats();
    for (const auto& chain : stats.chains())
      if (chain.name() == name) return chain;
    return {};
  }
  bool Delivers(const std::string& chain) {
    const std::uint64_t before = ChainNamed(chain).delivered();
    return Eventually([&] {
      run_->Look();
      return ChainNamed(chain).delivered() > before + 1000;
    });
  }
  v1::Account Settled() {
    v1::SettleRequest request;
    request.set_timeout_ns(20'000'000'000);
    const auto account = run_->Settle(request);
    EXPECT_TRUE(account.ok()) << account.status();
    return account.ok() ? *account : v1::Account();
  }
  void EveryPacketIsAccountedFor() {
    const v1::Account account = Settled();
    EXPECT_TRUE(account.exact()) << account.doubt();
    EXPECT_EQ(account.unaccounted(), 0) << account.ShortDebugString();
    EXPECT_EQ(account.in_flight(), 0U) << account.ShortDebugString();
  }

  // As a guard does that saw the scheduler stand still.
  void PutBackAsTheGuard() {
    for (const ChildProcess& function : functions_) SetSlice(function.pid(), 0);  // SCHED_OTHER
    const std::uint32_t yes = 1;
    const UniqueFd file(open(held_.c_str(), O_WRONLY));
    ASSERT_EQ(pwrite(file.get(), &yes, sizeof(yes), offsetof(HeldLayout, returned)), sizeof(yes));
  }
  std::size_t ThreadsNoted() const {
    HeldLayout layout;
    const UniqueFd file(open(held_.c_str(), O_RDONLY));
    EXPECT_EQ(pread(file.get(), static_cast<void*>(&layout), sizeof(layout), 0), sizeof(layout));
    return static_cast<std::size_t>(std::ranges::count_if(
        layout.threads, [](const auto& thread) { return thread.tid.load() > 0; }));
  }

  const std::filesystem::path held_ =
      std::filesystem::temp_directory_path() / ("held" + std::to_string(getpid()));
  std::vector<unsigned> service_lcores_{kPlatformLcore};
  std::set<unsigned> function_cpus_{LastCpu()};
  std::vector<ChildProcess> functions_;
  std::unique_ptr<unis::Run> run_;
};

}  // namespace unis
