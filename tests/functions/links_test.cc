// The functions as programs at the engine's links: secondary processes of its DPDK group between
// rings, and primaries of their own between memifs.
#include <gtest/gtest.h>
#include <rte_eal.h>
#include <sched.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/machine_for_test.h"
#include "engine/base/private_copy_for_test.h"
#include "engine/estimator/cycle_estimator.h"
#include "engine/platform/memif_for_test.h"
#include "engine/platform/port_shm.h"
#include "engine/timer/tsc_timer.h"
#include "tests/functions/program_for_test.h"

namespace unis {
namespace {

const std::string& FilePrefix() {
  static const std::string prefix = "unis-links-test-" + std::to_string(getpid());
  return prefix;
}

void CleanUp() {
  rte_eal_cleanup();
  std::error_code error;
  std::filesystem::remove_all("/run/dpdk/" + FilePrefix(), error);
  for (const auto& file : std::filesystem::directory_iterator("/dev/hugepages", error)) {
    if (file.path().filename().string().starts_with(FilePrefix()))
      std::filesystem::remove(file.path(), error);
  }
}

// With hugepages and shared files, for secondary processes to join. The memory has an address where
// every process has room: the address sanitizer occupies DPDK's default.
bool StartSharedEal() {
  static const bool started = [] {
    std::vector<std::string> words{
        "test",           "-m",          "128",
        "--no-pci",       "--lcores",    "0@0",
        "--no-telemetry", "--log-level", "error",
        "--file-prefix",  FilePrefix(),  "--base-virtaddr=0x200000000000"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const bool ok = rte_eal_init(static_cast<int>(words.size()), arguments.data()) >= 0;
    if (ok) std::atexit(CleanUp);
    return ok;
  }();
  return started;
}

class LinksTest : public MemifTest {
 protected:
  void SetUp() override {
    UNIS_NEED_ROOT();
    UNIS_NEED_TWO_CPUS();
    ASSERT_TRUE(std::getenv("FUNCTIONS") && std::getenv("NET_UNIS")) << "run `meson test`";
    UNIS_NEED(StartSharedEal(), "this test needs 128 MB of hugepages; `make setup` reserves them");
    ASSERT_TRUE(NewPortOwner().ok());
    auto memory = PacketMemory::Create(kPackets);
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_.emplace(*std::move(memory));
  }

  std::unique_ptr<Program> Secondary(const std::string& name, const std::vector<std::string>& vdevs,
                                     const std::vector<std::string>& options = {}) {
    return Start(name,
                 {"-d", driver_.path(), "--proc-type=secondary", "--file-prefix", FilePrefix(),
                  "--lcores", "5@" + std::to_string(LastCpu()), "--no-pci", "--no-telemetry"},
                 vdevs, options);
  }
  std::unique_ptr<Program> Primary(const std::string& name, const std::vector<std::string>& vdevs,
                                   const std::vector<std::string>& options = {}) {
    return Start(name,
                 {"--no-huge", "-m", "128", "--no-shconf", "--lcores",
                  "0@" + std::to_string(LastCpu()), "--no-pci", "--no-telemetry"},
                 vdevs, options);
  }
  Memif MakeMemif(const std::string& name, std::uint32_t buffer_bytes, bool served) {
    auto memif = Memif::Create(Config(name, buffer_bytes), served, memory_->pool());
    EXPECT_TRUE(memif.ok()) << memif.status();
    return *std::move(memif);
  }
  // What a ring gives within a while.
  static std::uint32_t Take(rte_ring* ring, std::uint32_t count) {
    std::uint32_t taken = 0;
    Eventually([&] { return (taken += Discard(ring)) >= count; });
    return taken;
  }
  static std::uint32_t Take(MemifServer& port, std::uint32_t count) {
    std::uint32_t taken = 0;
    Eventually([&] { return (taken += Receive(port)) >= count; });
    return taken;
  }
  void Put(rte_ring* ring, std::uint32_t count) {
    const std::array<std::uint8_t, 60> bytes{};
    while (count-- > 0) ASSERT_EQ(rte_ring_sp_enqueue(ring, Packet(bytes)), 0);
  }

  PrivateCopy driver_{std::getenv("NET_UNIS")};

 private:
  std::unique_ptr<Program> Start(const std::string& name, std::vector<std::string> words,
                                 const std::vector<std::string>& vdevs,
                                 const std::vector<std::string>& options) {
    for (const std::string& vdev : vdevs) words.insert(words.end(), {"--vdev", vdev});
    words.push_back("--");
    words.insert(words.end(), options.begin(), options.end());
    return std::make_unique<Program>(name, std::move(words));
  }
};

TEST_F(LinksTest, ASecondaryProcessForwardsBetweenRings) {
  rte_ring* const in = MakeRing("in", 1024);
  rte_ring* const out = MakeRing("out", 1024);
  for (int round = 0; round < 3; ++round) {  // what it leaves behind serves the next
    const auto port = PortShm::Create("port");
    ASSERT_TRUE(port.ok()) << port.status();
    const auto nf = Secondary("macswap", {"net_unis0,rx=in,tx=out,shm=port"});
    Put(in, 1000);
    EXPECT_EQ(Take(out, 1000), 1000U);
    EXPECT_TRUE(Eventually([&] { return port->Read().tx_packets == 1000; }));
    const PortCounters counters = port->Read();
    EXPECT_EQ(counters.rx_packets, 1000U);
    EXPECT_EQ(counters.polling_tid, nf->pid()) << "its main thread polls";
    EXPECT_TRUE(Eventually([&] { return port->Polls() > counters.polls; }));
    EXPECT_EQ(nf->End(), 0);
    EXPECT_EQ(nf->Counter("tx_packets"), 1000);
    EXPECT_EQ(memory_->InUse(), 0U);
  }
}

// What they need beside DPDK's common libraries does not keep them from the engine's group.
TEST_F(LinksTest, FunctionsWithLibrariesOfTheirOwnAreSecondaries) {
  const std::string rules = folder_.file("rules"), policy = folder_.file("policy");
  std::ofstream(rules) << "1 alert - \\x00{8}\n";
  std::ofstream(policy) << "protect 0.0.0.0/0 256 192.0.2.1 198.51.100.1 aes-128-gcm "
                           "000102030405060708090a0b0c0d0e0f10111213\n";
  struct Case {
    const char* name;
    std::vector<std::string> options;
    const char* counter;
    std::uint32_t length;  // of what leaves, bytes
  };
  const std::array<Case, 3> cases = {{
      {"dpi", {"--rules", rules}, "rule_1", 214},
      {"ipsec", {"--policy", policy}, "protected", 14 + 36 + 200 + 20},
      {"wanopt", {}, "compressed", 0},
  }};
  std::array<std::uint8_t, 214> frame{};
  frame[12] = 0x08;  // IPv4, UDP, 200 bytes
  frame[14] = 0x45;
  frame[17] = 200;
  frame[22] = 64;
  frame[23] = 17;
  rte_ring* const in = MakeRing("in", 1024);
  rte_ring* const out = MakeRing("out", 1024);
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const auto port = PortShm::Create("port");
    const auto nf = Secondary(one.name, {"net_unis0,rx=in,tx=out,shm=port"}, one.options);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(rte_ring_sp_enqueue(in, Packet(frame)), 0);
    std::uint32_t taken = 0;
    Eventually([&] {
      for (void* packet = nullptr; rte_ring_sc_dequeue(out, &packet) == 0; ++taken) {
        const auto length = static_cast<rte_mbuf*>(packet)->pkt_len;
        EXPECT_TRUE(one.length == 0 ? length < 100 : length == one.length) << length;
        rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
      }
      return taken == 100;
    });
    EXPECT_EQ(taken, 100U);
    EXPECT_EQ(nf->End(), 0) << nf->Output();
    EXPECT_EQ(nf->Counter(one.counter), 100);
    EXPECT_EQ(memory_->InUse(), 0U);
  }
}

TEST_F(LinksTest, ASecondaryWithAPortForEachDirection) {
  rte_ring* const in = MakeRing("in", 1024);
  rte_ring* const out = MakeRing("out", 1024);
  const auto left = PortShm::Create("left"), right = PortShm::Create("right");
  const auto nf = Secondary("monitor", {"net_unis0,rx=in,shm=left", "net_unis1,tx=out,shm=right"});
  Put(in, 500);
  EXPECT_EQ(Take(out, 500), 500U);
  EXPECT_EQ(right->Read().polling_tid, nf->pid());
  EXPECT_EQ(nf->End(), 0);
  EXPECT_EQ(left->Read().rx_packets, 500U);
  EXPECT_EQ(left->Read().tx_packets, 0U);
  EXPECT_EQ(right->Read().rx_packets, 0U);
  EXPECT_EQ(right->Read().tx_packets, 500U);
}

// One task, two paths: rings both ways between it and its neighbours.
TEST_F(LinksTest, ASecondaryThatForwardsBothWays) {
  rte_ring* const left_in = MakeRing("left_in", 1024);
  rte_ring* const left_out = MakeRing("left_out", 1024);
  rte_ring* const right_in = MakeRing("right_in", 1024);
  rte_ring* const right_out = MakeRing("right_out", 1024);
  const auto left = PortShm::Create("left"), right = PortShm::Create("right");
  const auto nf = Secondary("macswap", {"net_unis0,rx=left_in,tx=left_out,shm=left",
                                        "net_unis1,rx=right_in,tx=right_out,shm=right"});
  Put(left_in, 300);
  Put(right_in, 200);
  EXPECT_EQ(Take(right_out, 300), 300U);
  EXPECT_EQ(Take(left_out, 200), 200U);
  EXPECT_EQ(nf->End(), 0);
  EXPECT_EQ(nf->Counter("tx_packets_0"), 300);
  EXPECT_EQ(nf->Counter("tx_packets_1"), 200);
}

// engine = macswap = monitor = engine, each = a memif, each program in a DPDK group of its own.
TEST_F(LinksTest, OccupancyOfMemifsBetweenProgramsIsReadFromOutside) {
  Memif first = MakeMemif("first", 2048, true);
  Memif between = MakeMemif("between", 2112, false);
  Memif last = MakeMemif("last", 2176, true);
  // The client is started before its server: it waits.
  const auto monitor = Primary(
      "monitor", {DeviceOf(between.config(), "net_memif0"), DeviceOf(last.config(), "net_memif1")});
  const auto macswap = Primary("macswap", {DeviceOf(first.config(), "net_memif0"),
                                           DeviceOf(between.config(), "net_memif1", "server")});
  ASSERT_TRUE(Eventually([&] { return macswap->Polls() && monitor->Polls(); }));
  ASSERT_TRUE(Eventually([&] { return first.port()->LinkUp() && last.port()->LinkUp(); }));
  ASSERT_TRUE(Eventually([&] { return Locate(between, macswap->pid()); }));
  ASSERT_TRUE(Locate(between, monitor->pid())) << "either of the two will do";
  ASSERT_TRUE(Locate(first, macswap->pid()) && Locate(last, monitor->pid()));
  using enum MemifDirection;
  // In the order in which packets pass.
  const std::array<Occupancy, 3> there = {first.occupancy(kToClient), between.occupancy(kToClient),
                                          last.occupancy(kToServer)};
  const std::array<Occupancy, 3> back = {last.occupancy(kToClient), between.occupancy(kToServer),
                                         first.occupancy(kToServer)};
  const auto wait_in = [](const std::array<Occupancy, 3>& links,
                          std::array<std::uint32_t, 3> packets) {
    return Eventually([&] {
      for (std::size_t i = 0; i < 3; ++i) {
        if (links[i].Packets() != packets[i]) return false;
      }
      return true;
    });
  };
  ASSERT_TRUE(wait_in(there, {0, 0, 0}));
  ASSERT_TRUE(wait_in(back, {0, 0, 0}));
  for (int round = 0; round < 3; ++round) {
    macswap->Stop();
    monitor->Stop();
    ASSERT_EQ(Send(*first.port(), 100), 100U);
    ASSERT_EQ(Send(*last.port(), 70), 70U);
    EXPECT_TRUE(wait_in(there, {100, 0, 0}));
    EXPECT_TRUE(wait_in(back, {70, 0, 0}));
    macswap->Continue();
    EXPECT_TRUE(wait_in(there, {0, 100, 0}));
    EXPECT_TRUE(wait_in(back, {70, 0, 0}));
    monitor->Continue();
    EXPECT_TRUE(wait_in(there, {0, 0, 100}));
    EXPECT_TRUE(wait_in(back, {0, 0, 70}));
    EXPECT_EQ(Take(*last.port(), 100), 100U);
    EXPECT_EQ(Take(*first.port(), 70), 70U);
    EXPECT_TRUE(wait_in(there, {0, 0, 0}));
    EXPECT_TRUE(wait_in(back, {0, 0, 0}));
  }
  // DPDK's net_memif may take the memory from under a program that still polls when its peer goes:
  // one stands still meanwhile.
  monitor->Stop();
  EXPECT_EQ(macswap->End(), 0);
  EXPECT_FALSE(between.region().HeldBy(getpid()));
  EXPECT_TRUE(between.region().HeldBy(monitor->pid()));
  EXPECT_EQ(monitor->End(), 0);
  EXPECT_EQ(between.occupancy(kToClient).Packets(), 0U)
      << "readable when both its programs are gone";
  EXPECT_EQ(macswap->Counter("tx_packets_0"), 300);
  EXPECT_EQ(macswap->Counter("tx_packets_1"), 210);
  EXPECT_EQ(monitor->Counter("rx_packets"), 510);
}

TEST_F(LinksTest, CostsAreSampledOverMemifsAlsoOfWhatDrops) {
  const std::string rules = folder_.file("rules");
  std::ofstream(rules) << "deny * * * * *\n";
  const TscTimer timer;
  for (const auto& [name, options] :
       {std::pair<const char*, std::vector<std::string>>{"macswap", {}},
        {"firewall", {"--rules", rules}}}) {
    SCOPED_TRACE(name);
    Memif memif = MakeMemif("both", 2048, true);
    const auto nf = Primary(name, {DeviceOf(memif.config(), "net_memif0")}, options);
    ASSERT_TRUE(Eventually([&] { return nf->Polls() && memif.port()->LinkUp(); }));
    ASSERT_TRUE(Locate(memif, nf->pid()));
    const sched_param alone{.sched_priority = 1};
    ASSERT_EQ(sched_setscheduler(nf->pid(), SCHED_FIFO, &alone), 0);
    const Occupancy to_function = memif.occupancy(MemifDirection::kToClient);
    ASSERT_TRUE(Eventually([&] { return to_function.Packets() == 0; }));
    MemifInjector injector(*memif.port(), to_function, *memif.port(),
                           memif.occupancy(MemifDirection::kToServer), timer);
    CycleEstimator estimator(*memory_, injector, timer);
    CostSamples samples;
    const auto status = estimator.Run(
        MakeFrames({.mix = SizeMix::kFixed, .size = 64, .flows = 64}, {}), 20, samples);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(samples.ns.size(), 20U);
    EXPECT_TRUE(Eventually([&] { return estimator.Settle(); }));
    nf->Stop();
    EXPECT_TRUE(estimator.Finish().ok());
    EXPECT_EQ(nf->End(), 0);
  }
}

}  // namespace
}  // namespace unis
