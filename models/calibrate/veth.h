// A pair of kernel devices in a network namespace of their own, and packet sockets on them.
#pragma once

#include <absl/status/statusor.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/unique_fd.h"

namespace unis {

// The calling thread is in a namespace with the devices u0 and u1 while this lives. The kernel
// removes both when the thread has left it, or has ended, however it ended.
class VethPair {
 public:
  static absl::StatusOr<VethPair> Make();
  ~VethPair();
  VethPair(VethPair&&) = default;
  VethPair& operator=(VethPair&&) = delete;

  unsigned first() const { return first_; }  // interface numbers
  unsigned second() const { return second_; }

 private:
  explicit VethPair(UniqueFd before) : before_(std::move(before)) {}

  UniqueFd before_;  // the namespace of before
  unsigned first_ = 0, second_ = 0;
};

// Frames from one device to the other, through packet sockets.
class FrameWay {
 public:
  // `bypass`: past the queueing discipline of the sending device, as UNiS's ports send.
  static absl::StatusOr<FrameWay> Open(const VethPair& pair, bool bypass);

  int sender() const { return sender_.get(); }
  int receiver() const { return receiver_.get(); }

 private:
  FrameWay(UniqueFd sender, UniqueFd receiver)
      : sender_(std::move(sender)), receiver_(std::move(receiver)) {}

  UniqueFd sender_, receiver_;
};

// So many frames, sent and received in calls of a batch each. Batch 0: send() and recv().
class Batches {
 public:
  Batches(std::size_t frames, std::size_t frame_bytes, unsigned batch);

  // How many went.
  std::size_t Send(int socket);
  std::size_t Receive(int socket);

 private:
  std::size_t frames_;
  unsigned batch_;
  std::vector<std::uint8_t> bytes_;  // of one frame to send, then of those received
  std::vector<iovec> sent_, received_;
  std::vector<mmsghdr> headers_;
};

}  // namespace unis
