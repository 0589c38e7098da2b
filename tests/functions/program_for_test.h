// A function as a process of its own, on the last CPU, until the test has done with it.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace unis {

class Program {
 public:
  // FUNCTIONS names the folder of the programs.
  Program(const std::string& name, std::vector<std::string> words)
      : output_(std::filesystem::temp_directory_path() /
                ("unis-" + name + "-" + std::to_string(getpid()) + ".out")) {
    words.insert(words.begin(), std::string(std::getenv("FUNCTIONS")) + "/" + name);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      const int output = open(output_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
      dup2(output, STDOUT_FILENO);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
  }
  ~Program() {
    if (pid_ > 0) {
      Signal(SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::error_code error;
    std::filesystem::remove(output_, error);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number) const { kill(pid_, number); }
  // Stands still when this returns.
  void Stop() const {
    int status = 0;
    Signal(SIGSTOP);
    waitpid(pid_, &status, WUNTRACED);
  }
  void Continue() const { Signal(SIGCONT); }
  bool Polls() const { return Output().find(": polling ") != std::string::npos; }

  // Ends it; its exit code.
  int End() {
    int status = -1;
    Signal(SIGTERM);
    Signal(SIGCONT);
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string Output() const {
    std::ifstream file(output_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // From the report at its end; -1: there is no such counter.
  std::int64_t Counter(const std::string& name) const {
    std::istringstream words(Output());
    for (std::string word; words >> word;) {
      if (word != name) continue;
      std::int64_t value = -1;
      words >> value;
      return value;
    }
    return -1;
  }

 private:
  std::filesystem::path output_;
  pid_t pid_ = -1;
};

}  // namespace unis
