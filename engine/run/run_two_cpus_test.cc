// Functions on two CPUs: what a change concerns, and what it leaves alone. The engine's own lcores
// share CPU 0 with some, so nobody is in a real-time class there.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "engine/platform/links/memif_region.h"
#include "engine/run/run_for_test.h"

namespace unis {
namespace {

class RunTwoCpusTest : public RunTest {
 protected:
  RunTwoCpusTest() { function_cpus_.insert(0); }
  pid_t Pid(std::size_t i) const { return functions_[i].pid(); }
  // Put into another class behind the engine's back: so it is until its core is scheduled anew.
  void Mark() const {
    const sched_param none{};
    for (const ChildProcess& function : functions_)
      ASSERT_EQ(sched_setscheduler(function.pid(), SCHED_BATCH, &none), 0);
  }
  bool IsMarked(std::size_t i) const {
    return (sched_getscheduler(Pid(i)) & ~SCHED_RESET_ON_FORK) == SCHED_BATCH;
  }
};

TEST_F(RunTwoCpusTest, AChangeConcernsTheCoresAroundItAndNoOther) {
  v1::DeployRequest request = Empty();
  AddRingChain(request, "other", {"c"})->add_match()->set_dst_port(53);
  AddRingChain(request, "chain", {"a"});
  request.mutable_functions(0)->set_cpu(LastCpu());
  request.mutable_functions(1)->set_cpu(0);
  ASSERT_TRUE(run_->Deploy(request).ok());
  ASSERT_TRUE(Attach("c", Spawn("c", 0, "other")).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  const auto started = Start(v1::POLICY_OTHER);
  ASSERT_TRUE(started.ok()) << started;

  Mark();
  request.mutable_functions(1)->set_cost_ns(77);
  ASSERT_TRUE(run_->Apply(request).ok());
  EXPECT_TRUE(IsMarked(0)) << "of another core";
  EXPECT_FALSE(IsMarked(1));

  Mark();
  ASSERT_TRUE(Detach("c").ok());
  EXPECT_FALSE(IsMarked(0)) << "it was let go";
  EXPECT_TRUE(IsMarked(1));
  ASSERT_TRUE(Attach("c", Pid(0)).ok());
  EXPECT_TRUE(IsMarked(1));

  functions_[0].End();
  run_->Look();
  EXPECT_EQ(ChainNamed("other").down(), "c");
  EXPECT_TRUE(IsMarked(1));
  EXPECT_TRUE(Delivers("chain"));

  request.mutable_scheduler()->set_gamma(0.5);
  ASSERT_TRUE(run_->Apply(request).ok());
  EXPECT_FALSE(IsMarked(1)) << "the settings are of all";
}

// Both cores read the same memory, and that of a process that has died goes.
TEST_F(RunTwoCpusTest, AMemifBetweenTwoCpusIsReadByBothAsLongAsItIsThere) {
  constexpr MemifShape kShape{.slots = 1024, .buffer_bytes = 2048, .to_server = 1, .to_client = 1};
  constexpr std::uint32_t kCookie = 0x3E31F20;
  constexpr std::uint16_t kWaiting = 5;
  v1::DeployRequest request = ForeignChain();
  std::vector<UniqueFd> files;  // all functions have all of them
  for (int link = 0; link < 2; ++link) {
    const UniqueFd& file = files.emplace_back(memfd_create("memif", MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(file.get(), static_cast<off_t>(kShape.RegionBytes())), 0);
    ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    for (std::uint32_t ring = 0; ring < kShape.Rings(); ++ring)
      ASSERT_EQ(pwrite(file.get(), &kCookie, sizeof(kCookie),
                       static_cast<off_t>(ring * kShape.RingBytes())),
                ssize_t{sizeof(kCookie)});
    ASSERT_EQ(pwrite(file.get(), &kWaiting, sizeof(kWaiting), 6), ssize_t{sizeof(kWaiting)});
    struct stat status {};
    ASSERT_EQ(fstat(file.get(), &status), 0);
    request.mutable_links(link)->mutable_memif()->set_inode(status.st_ino);
  }
  rte_ring* const out = rte_ring_create("out", 1024, SOCKET_ID_ANY, 0);
  ASSERT_NE(out, nullptr);
  request.mutable_functions(0)->set_cpu(LastCpu());
  request.mutable_functions(1)->set_cpu(0);
  ASSERT_TRUE(run_->Deploy(request).ok());
  const auto spin = [this](unsigned cpu) {
    functions_.emplace_back([cpu] {
      alarm(60);
      cpu_set_t cpus;
      CPU_ZERO(&cpus);
      CPU_SET(cpu, &cpus);
      sched_setaffinity(0, sizeof(cpus), &cpus);
      for (std::atomic<unsigned> turns = 0;; ++turns) {
      }
    });
    return functions_.back().pid();
  };
  const auto waiting = [this] {  // for both ends the same
    const v1::Stats stats = Stats();
    const std::uint64_t packets = stats.functions(0).paths(0).egress().packets();
    EXPECT_EQ(stats.functions(1).paths(0).ingress().packets(), packets);
    return packets;
  };
  auto attached = Attach("first", spin(LastCpu()));
  ASSERT_TRUE(attached.ok()) << attached;
  attached = Attach("second", spin(0));
  ASSERT_TRUE(attached.ok()) << attached;
  v1::PolicyRequest policy;
  policy.set_policy(v1::POLICY_UNIS);
  policy.set_controller(v1::CONTROLLER_SIGNAL);
  const auto started = run_->Start(policy);
  ASSERT_TRUE(started.ok()) << started;
  EXPECT_EQ(waiting(), std::uint64_t{kWaiting});

  for (int round = 0; round < 3; ++round) {
    functions_.back().End();
    run_->Look();
    EXPECT_EQ(ChainNamed("chain").down(), "second");
    // Longer than many decisions: whoever read what is gone would not come so far.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(Stats().policy(), v1::POLICY_UNIS);
    ASSERT_TRUE(Detach("second").ok());
    attached = Attach("second", spin(0));
    ASSERT_TRUE(attached.ok()) << attached;
    EXPECT_EQ(ChainNamed("chain").down(), "");
    EXPECT_EQ(waiting(), std::uint64_t{kWaiting});
  }
  run_->Release();
  run_.reset();
  rte_ring_free(out);
}

}  // namespace
}  // namespace unis
