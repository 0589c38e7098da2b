// The driver in a secondary process, as functions have it. The test is the primary, with hugepages
// that others can map; secondaries are this program again, each with one of the tests that are
// disabled in the primary.
#include <gtest/gtest.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_memzone.h>
#include <rte_ring.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/machine_for_test.h"
#include "engine/base/private_copy_for_test.h"
#include "net_unis/port_shm.h"

namespace unis {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDevice = "net_unis0,rx=in,tx=out,shm=counters";
constexpr const char* kPages = "/dev/hugepages";
constexpr unsigned kReady = 5, kConfigured = 3;  // packets

std::string Setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool StartEal(std::vector<std::string> more) {
  std::vector<std::string> words{"test",
                                 "--file-prefix",
                                 Setting("UNIS_TEST_GROUP"),
                                 "--huge-dir",
                                 kPages,
                                 "--iova-mode=va",
                                 "--no-pci",
                                 "--no-telemetry",
                                 "--log-level=error",
                                 "-d",
                                 Setting("UNIS_TEST_DRIVER")};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return rte_eal_init(static_cast<int>(words.size()), arguments.data()) >= 0;
}

// ------------------------------------------------------------------ what secondaries do

// Forwards until it has seen `count` packets, or no more come.
unsigned Forward(std::uint16_t port, unsigned count) {
  unsigned sent = 0;
  std::array<rte_mbuf*, 8> packets;
  for (int look = 0; look < 100 && sent < count; ++look) {
    const auto burst =
        static_cast<std::uint16_t>(std::min<std::size_t>(packets.size(), count - sent));
    const std::uint16_t received = rte_eth_rx_burst(port, 0, packets.data(), burst);
    sent += rte_eth_tx_burst(port, 0, packets.data(), received);
  }
  return sent;
}

class Secondary : public testing::Test {};

// As testpmd, which leaves configuring to the primary; and as most, which do it themselves.
TEST_F(Secondary, DISABLED_Forwards) {
  ASSERT_TRUE(StartEal({"--proc-type=secondary", "--lcores", "1@0", "--vdev", kDevice}));
  std::uint16_t port = 0;
  ASSERT_EQ(rte_eth_dev_get_port_by_name("net_unis0", &port), 0);
  rte_eth_link link;
  ASSERT_EQ(rte_eth_link_get_nowait(port, &link), 0);
  EXPECT_EQ(link.link_status, RTE_ETH_LINK_UP);
  rte_eth_dev_info info;
  ASSERT_EQ(rte_eth_dev_info_get(port, &info), 0);
  EXPECT_EQ(info.nb_rx_queues, 1);
  EXPECT_EQ(info.nb_tx_queues, 1);
  EXPECT_EQ(Forward(port, kReady), kReady);

  const rte_eth_conf conf{};
  ASSERT_EQ(rte_eth_dev_configure(port, 1, 1, &conf), 0);
  ASSERT_EQ(rte_eth_rx_queue_setup(port, 0, 512, 0, nullptr, rte_mempool_lookup("pool")), 0);
  ASSERT_EQ(rte_eth_tx_queue_setup(port, 0, 512, 0, nullptr), 0);
  ASSERT_EQ(rte_eth_dev_start(port), 0);
  EXPECT_EQ(Forward(port, kConfigured), kConfigured);
  EXPECT_EQ(rte_eal_cleanup(), 0);
}

TEST_F(Secondary, DISABLED_HasNoPort) {
  ASSERT_TRUE(StartEal({"--proc-type=secondary", "--lcores", "1@0"}));
  EXPECT_EQ(rte_eal_cleanup(), 0);
}

TEST_F(Secondary, DISABLED_HasAPort) {
  ASSERT_TRUE(StartEal({"--proc-type=secondary", "--lcores", "1@0", "--vdev", kDevice}));
  EXPECT_EQ(rte_eth_dev_count_avail(), 1);
  EXPECT_EQ(rte_eal_cleanup(), 0);
}

// ------------------------------------------------------------------ the primary

// Whether all went well in a secondary with that test.
bool WentWell(const std::string& test) {
  const std::string filter = "--gtest_filter=Secondary.DISABLED_" + test;
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "secondary", filter.c_str(), "--gtest_also_run_disabled_tests",
          "--gtest_brief=1", nullptr);
    _exit(127);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class NetUnisSecondaryTest : public testing::Test {
 protected:
  void SetUp() override {
    UNIS_NEED_ROOT();
    UNIS_NEED(FreePages() >= 32, "this test needs 32 free hugepages of 2 MB: make setup");
    const std::string driver = Setting("NET_UNIS");
    ASSERT_NE(driver, "") << "NET_UNIS must name librte_net_unis.so; run `meson test`";
    static const Primary primary(driver.c_str());
    ASSERT_TRUE(primary.started);
  }

  static unsigned FreePages() {
    unsigned pages = 0;
    std::ifstream("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") >> pages;
    return pages;
  }
  static unsigned Allocations() {
    rte_malloc_socket_stats stats{};
    EXPECT_EQ(rte_malloc_get_socket_stats(static_cast<int>(rte_socket_id()), &stats), 0);
    return stats.alloc_count;
  }

 private:
  // Goes with the process, and its files with it.
  struct Primary {
    explicit Primary(const char* driver) : copy(driver) {
      setenv("UNIS_TEST_GROUP", group.c_str(), 1);
      setenv("UNIS_TEST_DRIVER", copy.path().c_str(), 1);
      // Where the others have room for it too: DPDK's own place is the address sanitizer's, and
      // what the kernel gives instead one of them may have taken.
      started = StartEal({"--lcores", "0@0", "-m", "32", "--base-virtaddr=0x200000000000"});
      if (!started) return;
      std::uint64_t owner = 0;  // whoever asks for one makes what ethdev shares
      started = rte_eth_dev_owner_new(&owner) == 0;
      const auto ring = [](const char* name) {
        return rte_ring_create(name, 64, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
      };
      const rte_memzone* const zone = rte_memzone_reserve_aligned(
          "counters", sizeof(unis_port_shm), SOCKET_ID_ANY, 0, RTE_CACHE_LINE_SIZE);
      started = started && ring("in") != nullptr && ring("out") != nullptr && zone != nullptr &&
                rte_pktmbuf_pool_create("pool", 511, 0, 0, 2176, SOCKET_ID_ANY) != nullptr;
      if (zone != nullptr) *static_cast<unis_port_shm*>(zone->addr) = {};
    }
    ~Primary() {
      rte_eal_cleanup();
      std::error_code error;
      fs::remove_all("/var/run/dpdk/" + group, error);
      for (const auto& page : fs::directory_iterator(kPages, error))
        if (page.path().filename().string().starts_with(group + "map_")) fs::remove(page, error);
    }
    Primary(const Primary&) = delete;
    Primary& operator=(const Primary&) = delete;

    const std::string group = "unis-driver-test-" + std::to_string(getpid());
    const PrivateCopy copy;
    bool started = false;
  };
};

TEST_F(NetUnisSecondaryTest, ThePortIsReadyWhenItIsThereAndMayBeConfiguredStill) {
  rte_ring* const in = rte_ring_lookup("in");
  rte_ring* const out = rte_ring_lookup("out");
  rte_mempool* const pool = rte_mempool_lookup("pool");
  for (unsigned i = 0; i < kReady + kConfigured; ++i) {
    rte_mbuf* const packet = rte_pktmbuf_alloc(pool);
    rte_pktmbuf_append(packet, 60);
    ASSERT_EQ(rte_ring_sp_enqueue(in, packet), 0);
  }
  EXPECT_TRUE(WentWell("Forwards"));
  const auto* const counted =
      static_cast<const unis_port_shm*>(rte_memzone_lookup("counters")->addr);
  EXPECT_EQ(counted->tx_packets, kReady + kConfigured);
  EXPECT_EQ(rte_ring_count(out), kReady + kConfigured);
  for (void* packet = nullptr; rte_ring_sc_dequeue(out, &packet) == 0;)
    rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
}

// ethdev itself frees nothing in a secondary, and a group has few ports.
TEST_F(NetUnisSecondaryTest, NothingIsLeftOfItsPort) {
  ASSERT_TRUE(WentWell("HasNoPort"));
  const unsigned first = Allocations();
  ASSERT_TRUE(WentWell("HasNoPort"));
  const unsigned without = Allocations() - first;
  ASSERT_TRUE(WentWell("HasAPort"));
  EXPECT_EQ(Allocations(), first + 2 * without);
  ASSERT_EQ(rte_dev_probe(kDevice), 0) << "its name is taken";
  std::uint16_t port = 0;
  ASSERT_EQ(rte_eth_dev_get_port_by_name("net_unis0", &port), 0);
  EXPECT_EQ(port, 0) << "its slot is taken";
  rte_eth_dev_info info;
  ASSERT_EQ(rte_eth_dev_info_get(port, &info), 0);
  EXPECT_EQ(rte_dev_remove(info.device), 0);
}

}  // namespace
}  // namespace unis
