// Threads that begin to poll while the chain runs, and those that only seem to.
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>

#include "engine/base/proc.h"
#include "engine/controller/turn_takers_for_test.h"
#include "engine/run/run_for_test.h"

namespace unis {
namespace {

// What the other thread of function b is told through a pipe: to wait for the next word, to poll
// till it comes, or to end.
enum Word : char { kNap = 'n', kPoll = 'p', kEnd = 'e' };

class RunPollersTest : public RunTest {
 protected:
  void SetUp() override {
    RunTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(pipe(words_), 0);
    ASSERT_EQ(pipe(said_), 0);
    ASSERT_TRUE(run_->Deploy(Request()).ok());
    ASSERT_TRUE(Attach("a", SpawnFirst()).ok());
    ASSERT_TRUE(Attach("b", SpawnWithAnother("b", 1)).ok());
    ASSERT_EQ(read(said_[0], &other_, sizeof(other_)), ssize_t{sizeof(other_)});
    ASSERT_TRUE(Start().ok());
    // Some kernels lend starved threads some of a CPU: another one takes it all.
    starver_ = std::make_unique<ChildProcess>([] {
      KeepToLast();
      setpriority(PRIO_PROCESS, 0, -20);
      for (std::atomic<unsigned> turns = 0;; ++turns) {
      }
    });
    const auto starver = static_cast<id_t>(starver_->pid());
    ASSERT_TRUE(Eventually([&] { return getpriority(PRIO_PROCESS, starver) == -20; }));
  }
  void TearDown() override {
    starver_.reset();
    RunTest::TearDown();
    for (const int end : {words_[0], words_[1], said_[0], said_[1]}) close(end);
  }

  virtual v1::DeployRequest Request() { return Chain({"a", "b"}); }
  // In a thread of a function.
  virtual void TakePlace(const std::string& /*function*/) {}

  static void KeepToLast() {
    cpu_set_t last;
    CPU_ZERO(&last);
    CPU_SET(LastCpu(), &last);
    sched_setaffinity(0, sizeof(last), &last);
  }
  void Tell(Word word) { ASSERT_EQ(write(words_[1], &word, 1), 1); }
  // What unisd does all the time. The other thread is nice: beside load it gets little of a CPU.
  bool EventuallyLooking(const std::function<bool()>& there) {
    return Eventually(
        [&] {
          run_->Look();
          return there();
        },
        60s);
  }
  pid_t SpawnFirst() {
    rte_ring* from = rte_ring_lookup("chain.0");
    rte_ring* to = rte_ring_lookup("chain.1");
    functions_.emplace_back([this, from, to, shm = PortOf("a")] {
      TakePlace("a");
      Forward(from, to, shm);
    });
    return functions_.back().pid();
  }
  // The thread is bound to the CPU of the functions, as those of DPDK are.
  pid_t SpawnWithAnother(const std::string& name, std::size_t i) {
    rte_ring* from = rte_ring_lookup(("chain." + std::to_string(i)).c_str());
    rte_ring* to = rte_ring_lookup(("chain." + std::to_string(i + 1)).c_str());
    unis_port_shm* shm = PortOf(name);
    functions_.emplace_back([this, name, from, to, shm] {
      std::thread other([this, name] {
        KeepToLast();
        setpriority(PRIO_PROCESS, 0, 19);
        TakePlace(name);
        const auto tid = static_cast<pid_t>(syscall(SYS_gettid));
        (void)!write(said_[1], &tid, sizeof(tid));
        for (char word = kNap; word != kEnd;) {
          // Nobody wakes up one that polls.
          fcntl(words_[0], F_SETFL, word == kPoll ? O_NONBLOCK : 0);
          (void)!read(words_[0], &word, 1);
        }
      });
      TakePlace(name);
      Forward(from, to, shm);
    });
    return functions_.back().pid();
  }
  std::uint64_t NapsOfOther() const {
    const UniqueFd task = OpenTask(functions_.back().pid(), other_);
    return ContextSwitchesOf(task).voluntary;
  }
  bool OtherMayRunOn(unsigned cpu) const {
    cpu_set_t cpus;
    return sched_getaffinity(other_, sizeof(cpus), &cpus) == 0 && CPU_ISSET(cpu, &cpus);
  }
  bool EventuallyTakesTurns(unsigned threads) {
    return EventuallyLooking([&] { return Stats().functions(1).threads() == threads; });
  }
  // It polls, gets nothing of its CPU, and has its turn on ours; nobody looks any more. Where the
  // kernel owes it some of a CPU it is known to poll before: it has that with its nap, or once
  // more.
  void TryOther() {
    for (int more = 5;; --more) {
      const auto naps = NapsOfOther();
      Tell(kNap);
      ASSERT_TRUE(EventuallyLooking([&] { return NapsOfOther() > naps && ThreadsNoted() == 2; }));
      Tell(kPoll);
      ASSERT_TRUE(EventuallyLooking([&] { return ThreadsNoted() == 3; }));
      if (Stats().functions(1).threads() == 1) break;
      ASSERT_GT(more, 0) << "it is never tried";
    }
    ASSERT_TRUE(OtherMayRunOn(0));
  }

  int words_[2] = {-1, -1}, said_[2] = {-1, -1};
  pid_t other_ = 0;
  std::unique_ptr<ChildProcess> starver_;
};

TEST_F(RunPollersTest, AThreadThatPollsLateIsScheduledAndLetGoWhenItEnds) {
  EXPECT_EQ(ThreadsNoted(), 2U);
  const auto before = Stats();
  Tell(kPoll);
  EXPECT_TRUE(EventuallyTakesTurns(2));
  EXPECT_EQ(ThreadsNoted(), 3U);
  EXPECT_EQ(sched_getscheduler(other_) & ~SCHED_RESET_ON_FORK, SCHED_RR);
  EXPECT_TRUE(OtherMayRunOn(LastCpu()));
  const auto window = MeasureTraffic(300);
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_GT(window->delivered(), 0U);
  EXPECT_GE(Stats().cores(0).switches(), before.cores(0).switches() + window->switches());
  Tell(kEnd);
  EXPECT_TRUE(EventuallyLooking([&] { return ThreadsNoted() == 2; }));
  EXPECT_EQ(Stats().functions(1).threads(), 1);
  const auto after = MeasureTraffic(200);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_GT(after->delivered(), 0U) << "the other one polls on";
}

// As a program that is configured anew does: its process goes on, and so may hold packets.
TEST_F(RunPollersTest, AFunctionWhosePollingThreadEndsIsNotDeadAndItsNextOneIsTaken) {
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  ASSERT_TRUE(Detach("a").ok());
  functions_.front().End();
  run_->Look();
  ASSERT_TRUE(Detach("a").ok());
  rte_ring* const from = rte_ring_lookup("chain.0");
  rte_ring* const to = rte_ring_lookup("chain.1");
  functions_.emplace_back([=, shm = PortOf("a")] {
    const auto poll = [=](bool until_told) {
      KeepToLast();
      __atomic_store_n(&shm->polling_tid, gettid(), __ATOMIC_RELEASE);
      if (!until_told) Forward(from, to, shm);
      for (char word = 0; read(go[0], &word, 1) != 1;) __atomic_fetch_add(&shm->polls, 1, 0);
    };
    fcntl(go[0], F_SETFL, O_NONBLOCK);
    std::thread([&] { poll(true); }).join();
    fcntl(go[0], F_SETFL, 0);
    char word = 0;
    (void)!read(go[0], &word, 1);
    std::thread([&] { poll(false); }).join();
  });
  const pid_t pid = functions_.back().pid();
  ASSERT_TRUE(Attach("a", pid).ok());
  EXPECT_NE(Stats().functions(0).tid(), pid);
  ASSERT_EQ(write(go[1], "x", 1), 1);
  ASSERT_TRUE(EventuallyLooking([&] { return Stats().chains(0).down() == "a"; }));
  EXPECT_EQ(Stats().functions(0).state(), v1::FUNCTION_STATE_NOT_POLLING);
  EXPECT_EQ(Stats().functions(0).pid(), pid);
  EXPECT_GT(rte_ring_count(from), 0U) << "what waits for a living process is its own to take";
  EXPECT_TRUE(Says(Attach("a", pid), "attached already"));
  ASSERT_EQ(write(go[1], "x", 1), 1);
  EXPECT_TRUE(EventuallyLooking([&] { return Stats().chains(0).down().empty(); }));
  const auto after = MeasureTraffic(200);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_GT(after->delivered(), 0U);
  functions_.back().End();
  run_->Look();
  EXPECT_EQ(Stats().functions(0).state(), v1::FUNCTION_STATE_EXITED);
  for (const int end : go) close(end);
}

TEST_F(RunPollersTest, AThreadThatWokeUpAndGetsNoCpuIsLetDoItsWorkAndStaysWithTheKernel) {
  const auto naps = NapsOfOther();
  Tell(kNap);
  EXPECT_TRUE(EventuallyLooking([&] { return NapsOfOther() > naps; }));
  EXPECT_TRUE(EventuallyLooking([&] { return ThreadsNoted() == 2 && OtherMayRunOn(LastCpu()); }));
  EXPECT_EQ(Stats().functions(1).threads(), 1);
  EXPECT_EQ(sched_getscheduler(other_), SCHED_OTHER);
}

// As one at a console that computed what it was asked.
TEST_F(RunPollersTest, AThreadThatSleepsAgainForLongIsGivenBackAndTheOneThatPollsStays) {
  Tell(kPoll);
  ASSERT_TRUE(EventuallyTakesTurns(2));
  Tell(kNap);
  EXPECT_TRUE(EventuallyTakesTurns(1));
  EXPECT_EQ(Stats().functions(1).tid(), functions_.back().pid());
  EXPECT_EQ(ThreadsNoted(), 2U);
  EXPECT_EQ(sched_getscheduler(other_), SCHED_OTHER);
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(other_)), 19);
  const auto after = MeasureTraffic(200);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_GT(after->delivered(), 0U);
}

TEST_F(RunPollersTest, AThreadThatIsTriedGoesBackToItsCpuWithItsFunction) {
  TryOther();
  ASSERT_TRUE(Detach("b").ok());
  EXPECT_EQ(ThreadsNoted(), 1U);
  EXPECT_TRUE(OtherMayRunOn(LastCpu()));
  EXPECT_FALSE(OtherMayRunOn(0));
  EXPECT_EQ(sched_getscheduler(other_), SCHED_OTHER);
}

TEST_F(RunPollersTest, AFunctionMayBeKilledWhileAThreadOfItIsTried) {
  TryOther();
  functions_.back().Kill();
  EXPECT_TRUE(EventuallyLooking([&] { return ThreadsNoted() == 1; }));
  EXPECT_TRUE(EventuallyLooking([&] { return !ProcessRuns(functions_.back().pid()); }));
  EXPECT_EQ(Stats().chains(0).down(), "b");
  EXPECT_TRUE(Detach("b").ok());
}

// Their threads have the memory of the plug-in, where they do not look.
class RunWithPluginTest : public RunPollersTest {
 protected:
  void TakePlace(const std::string& function) override {
    if (function == without_) return;
    static unis_turns* const turns = MakeTurnsFile();
    static std::atomic<std::size_t> places = 0;
    __atomic_store_n(&turns->threads[places++].tid, gettid(), __ATOMIC_RELEASE);
  }
  std::string without_;
};

TEST_F(RunWithPluginTest, OneThatPollsLateIsFoundAlsoWhereTheCpuIsHandedOver) {
  const auto set = SetPolicy(v1::POLICY_UNIS, v1::CONTROLLER_HANDOVER);
  ASSERT_TRUE(set.ok()) << set;
  Tell(kPoll);
  EXPECT_TRUE(EventuallyTakesTurns(2));
}

// Nearly without traffic: the other thread of b naps when the test says so.
class RunRestTest : public RunWithPluginTest {
 protected:
  v1::DeployRequest Request() override {
    v1::DeployRequest request = Chain({"a", "b"});
    request.mutable_traffic()->set_pps(20);
    request.mutable_scheduler()->set_idle_ns(500'000);
    return request;
  }
  bool EventuallyRests() {
    return EventuallyLooking([this] { return Stats().cores(0).rests() > 0; });
  }
};

TEST_F(RunRestTest, AThreadThatSleepsBecauseItWasToldToIsNotGivenBack) {
  Tell(kPoll);
  ASSERT_TRUE(EventuallyTakesTurns(2));
  ASSERT_TRUE(EventuallyRests());
  EXPECT_EQ(Stats().cores(0).cannot_rest(), "");
  Tell(kNap);
  EXPECT_FALSE(Eventually(
      [&] {
        run_->Look();
        return Stats().functions(1).threads() == 1;
      },
      1s))
      << "in fifty looks";
}

class RunOneWithoutPluginTest : public RunRestTest {
 protected:
  RunOneWithoutPluginTest() { without_ = "b"; }
};

TEST_F(RunOneWithoutPluginTest, OneFunctionWithoutItKeepsTheCpuAwake) {
  EXPECT_EQ(Stats().cores(0).cannot_rest(), "b");
  ASSERT_TRUE(Measure(200).ok());
  EXPECT_EQ(Stats().cores(0).rests(), 0U);
  ASSERT_TRUE(SetPolicy(v1::POLICY_OTHER).ok());
  EXPECT_EQ(Stats().cores(0).cannot_rest(), "");
}

// The one that passes the CPU on dies: the other one is switched by priority, and not by the
// kernel.
TEST_F(RunOneWithoutPluginTest, HandOverHoldsWhenTheLastThatPassesTheCpuOnDies) {
  ASSERT_TRUE(SetPolicy(v1::POLICY_UNIS, v1::CONTROLLER_HANDOVER).ok());
  EXPECT_EQ(Stats().controller(), v1::CONTROLLER_HANDOVER);
  functions_.front().End();
  run_->Look();
  const auto holds = [this] {
    const v1::Stats stats = Stats();
    return stats.policy() == v1::POLICY_UNIS && stats.controller() == v1::CONTROLLER_PRIORITY;
  };
  EXPECT_EQ(Stats().chains(0).down(), "a");
  EXPECT_TRUE(holds());
  (void)Settled();  // under another policy
  EXPECT_TRUE(holds());
}

}  // namespace
}  // namespace unis
