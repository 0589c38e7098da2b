#include "models/calibrate/partner.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

namespace unis {
namespace {

constexpr char kGo = 'g', kEnd = 'e';
constexpr unsigned kMostSeconds =
    5;  // of a partner whose process was killed before it could end it

bool Put(int fd, char byte) { return write(fd, &byte, 1) == 1; }

char Take(int fd) {
  char byte = kEnd;
  return read(fd, &byte, 1) == 1 ? byte : kEnd;
}

}  // namespace

Beside Beside::Thread(std::function<void()> work) { return Beside(std::thread(std::move(work))); }

Beside Beside::Process(const std::function<void()>& work) {
  const pid_t parent = getpid(), child = fork();
  if (child != 0) return Beside(child);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  alarm(kMostSeconds);
  work();
  _exit(0);
}

Beside::Beside(Beside&& other) noexcept
    : thread_(std::move(other.thread_)), child_(std::exchange(other.child_, 0)) {}

Beside::~Beside() {
  if (thread_.joinable()) thread_.join();
  if (child_ <= 0) return;
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

PipePair::PipePair() {
  for (auto* ends : {there_, back_}) {
    int made[2];
    if (pipe2(made, O_CLOEXEC) != 0) return;
    ends[0] = UniqueFd(made[0]);
    ends[1] = UniqueFd(made[1]);
  }
}

bool PipePair::Round() const { return Put(there_[1].get(), kGo) && Take(back_[0].get()) == kGo; }

void PipePair::Answer() const {
  while (Take(there_[0].get()) == kGo)
    if (!Put(back_[1].get(), kGo)) return;
}

void PipePair::EndRounds() const { (void)Put(there_[1].get(), kEnd); }

}  // namespace unis
