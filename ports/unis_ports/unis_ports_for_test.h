// The plug-in as a program meets it: given to EAL by -d, between the program and the ports that it
// opens.
#pragma once

#include <gtest/gtest.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "engine/base/eal_for_test.h"
#include "engine/base/private_copy_for_test.h"
#include "engine/base/turns.h"
#include "ports/unis_ports/open_port_for_test.h"

namespace unis {

constexpr std::uint16_t kBurst = 32;

class UnisPortsTest : public testing::Test {
 protected:
  void SetUp() override {
    UNIS_NEED_ROOT();
    const char* plugin = std::getenv("UNIS_PORTS");
    ASSERT_NE(plugin, nullptr) << "UNIS_PORTS must name librte_unis_ports.so; run `meson test`";
    static const PrivateCopy copy(plugin);
    ASSERT_TRUE(StartTestEal({"-d", copy.path()}));
    auto found = Turns::Find(getpid());
    ASSERT_TRUE(found.ok()) << found.status();
    turns_ = *std::move(found);
    static rte_mempool* const pool =
        rte_pktmbuf_pool_create("pool", 511, 0, 0, 2176, SOCKET_ID_ANY);
    ASSERT_NE(pool, nullptr);
    pool_ = pool;
  }
  void TearDown() override {
    if (turns_) turns_->SetBudget(0);
    std::uint16_t port;
    RTE_ETH_FOREACH_DEV(port) {
      rte_eth_dev_info info{};
      ASSERT_EQ(rte_eth_dev_info_get(port, &info), 0);
      rte_eth_dev_stop(port);
      EXPECT_EQ(rte_dev_remove(info.device), 0);
    }
  }

  // A port that always has packets, or never.
  std::uint16_t Open(const std::string& name, bool full) const {
    return Open(name, full ? ",size=64" : ",no-rx=1");
  }
  std::uint16_t Open(const std::string& name, const char* arguments) const {
    return OpenPort(name, arguments, pool_);
  }
  static std::uint16_t Poll(std::uint16_t port) {
    std::array<rte_mbuf*, kBurst> packets{};
    const std::uint16_t n = rte_eth_rx_burst(port, 0, packets.data(), kBurst);
    rte_pktmbuf_free_bulk(packets.data(), n);
    return n;
  }
  // Turns that this thread has passed on.
  std::uint32_t Turns_() const { return turns_->Of(gettid())->began - first_; }
  void Begin(std::uint32_t quota) {
    turns_->SetBudget(quota);
    first_ = turns_->Of(gettid())->began;
  }

  // As the engine says it.
  static void Store(std::uint32_t& word, std::uint32_t value) {
    __atomic_store_n(&word, value, __ATOMIC_RELEASE);
  }
  static std::uint32_t Load(const std::uint32_t& word) {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
  }
  static bool Sleeps(const unis_turn& turn) { return Load(turn.passed) == Load(turn.began); }

  std::shared_ptr<Turns> turns_;
  rte_mempool* pool_ = nullptr;
  std::uint32_t first_ = 0;
};

}  // namespace unis
