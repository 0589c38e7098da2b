// Ports for tests, opened as any program opens one.
#pragma once

#include <gtest/gtest.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>

#include <cstdint>
#include <string>

namespace unis {

// Makes the device `name`, with EAL's `arguments` ("" or ",KEY=VALUE"), and starts its port.
inline std::uint16_t OpenPort(const std::string& name, const std::string& arguments,
                              rte_mempool* pool) {
  EXPECT_EQ(rte_dev_probe((name + arguments).c_str()), 0);
  std::uint16_t port = 0;
  EXPECT_EQ(rte_eth_dev_get_port_by_name(name.c_str(), &port), 0);
  const rte_eth_conf conf{};
  EXPECT_EQ(rte_eth_dev_configure(port, 1, 1, &conf), 0);
  EXPECT_EQ(rte_eth_rx_queue_setup(port, 0, 128, 0, nullptr, pool), 0);
  EXPECT_EQ(rte_eth_tx_queue_setup(port, 0, 128, 0, nullptr), 0);
  EXPECT_EQ(rte_eth_dev_start(port), 0);
  return port;
}

}  // namespace unis
