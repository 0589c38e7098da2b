// A pair of kernel devices that sends nothing by itself, for the tests of this folder.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "unis/v1/engine.pb.h"

namespace unis {

inline bool Shell(const std::string& command) { return std::system(command.c_str()) == 0; }

inline void MakeDevicePair(const std::string& near, const std::string& far) {
  ASSERT_TRUE(Shell(fmt::format("ip link add {} type veth peer name {}", near, far)));
  for (const std::string& device : {near, far}) {
    (void)Shell(fmt::format("echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/{}/disable_ipv6", device));
    ASSERT_TRUE(Shell(fmt::format("ip link set {} mtu 1504 arp off multicast off up", device)));
  }
}

inline v1::LinkConfig OnDevicePair(v1::LinkKind kind, std::uint32_t slots, const std::string& near,
                                   const std::string& far, bool engine_end) {
  v1::LinkConfig config;
  config.set_name("link");
  config.set_kind(kind);
  config.set_slots(slots);
  config.mutable_veth()->set_device0(near);
  config.mutable_veth()->set_device1(far);
  config.mutable_veth()->set_engine_end(engine_end);
  config.mutable_veth()->set_queues(1);
  return config;
}

// With the other one.
inline void RemoveDevicePair(const std::string& near) {
  (void)Shell(fmt::format("ip link delete {} 2>/dev/null", near));
}

}  // namespace unis
