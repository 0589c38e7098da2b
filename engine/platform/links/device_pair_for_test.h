// A pair of kernel devices that sends nothing by itself, for the tests of this folder.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace unis {

inline bool Shell(const std::string& command) { return std::system(command.c_str()) == 0; }

inline void MakeDevicePair(const std::string& near, const std::string& far) {
  ASSERT_TRUE(Shell(fmt::format("ip link add {} type veth peer name {}", near, far)));
  for (const std::string& device : {near, far}) {
    (void)Shell(fmt::format("echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/{}/disable_ipv6", device));
    ASSERT_TRUE(Shell(fmt::format("ip link set {} mtu 1504 arp off multicast off up", device)));
  }
}

// With the other one.
inline void RemoveDevicePair(const std::string& near) {
  (void)Shell(fmt::format("ip link delete {} 2>/dev/null", near));
}

}  // namespace unis
