// What is said on a socket of vhost-user.
#pragma once

#include <absl/status/status.h>

#include <span>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/platform/links/vhost_message.h"

namespace unis {

// Reads a message, of which at least a byte is there, and the descriptors that came with it. False:
// the peer is gone, sent half of one, or said something that is not of the protocol.
bool HearVhost(const UniqueFd& peer, VhostMessage& message, std::vector<UniqueFd>& files);
// False: the peer is gone, or reads nothing.
bool SayVhost(const UniqueFd& peer, const VhostMessage& message, std::span<const int> files = {});

// Logs why a peer is sent away: once, also of one that comes again and again.
class VhostLog {
 public:
  void SentAway(const std::string& path, const absl::Status& why);

 private:
  std::string last_;
};

}  // namespace unis
