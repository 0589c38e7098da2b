// The program itself: exit codes, and what goes to which stream. Its path is in $UNIS_SIM.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace {

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

class UnisSimTest : public testing::Test {
 protected:
  UnisSimTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "unis-sim-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
    folder_ = pattern;
    const char* program = std::getenv("UNIS_SIM");
    program_ = program != nullptr ? program : "";
  }
  ~UnisSimTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  static std::string Read(const std::filesystem::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static std::string Quote(const std::string& path) {
    std::string quoted = path;
    quoted.insert(quoted.begin(), '\'');
    quoted.push_back('\'');
    return quoted;
  }

  Outcome Execute(const std::string& arguments, const std::string& input = "") const {
    const std::string in = Write("in", input);
    const std::string out = (folder_ / "out").string();
    const std::string err = (folder_ / "err").string();
    const std::string command =
        Quote(program_) + " " + arguments + " <" + in + " >" + out + " 2>" + err;
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Read(out), Read(err)};
  }

  static constexpr const char* kScenario =
      R"({"policy": "POLICY_COOPERATIVE", "duration_ns": 1000000, "functions": [
          {"name": "a", "cpu": 0, "cost_ns": 100}],
          "chains": [{"name": "c", "path": ["a"], "capacity": [255]}]})";

  std::filesystem::path folder_;
  std::string program_;
};

TEST_F(UnisSimTest, ReadsAFileOrStandardInputAlike) {
  const Outcome file = Execute(Quote(Write("scenario.json", kScenario)));
  EXPECT_EQ(file.code, 0) << file.err;
  EXPECT_EQ(file.err, "");
  EXPECT_NE(file.out.find("\"policy\": \"POLICY_COOPERATIVE\""), std::string::npos);
  EXPECT_NE(file.out.find("\"duration_ns\": \"1000000\""), std::string::npos);
  EXPECT_EQ(Execute("", kScenario).out, file.out);
  EXPECT_EQ(Execute("-", kScenario).out, file.out);
}

TEST_F(UnisSimTest, HelpIsNoError) {
  const Outcome help = Execute("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("usage: unis-sim"), std::string::npos);
}

TEST_F(UnisSimTest, TheScenarioInTheHelpRuns) {
  const std::string help = Execute("--help").out;
  const std::size_t begin = help.find("  {\"policy\"");
  ASSERT_NE(begin, std::string::npos);
  const Outcome outcome = Execute("", help.substr(begin, help.find("\n\n", begin) - begin));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(UnisSimTest, BadInputIsOneSentenceAndExitCode2) {
  const std::string bad = Write("bad.json", R"({"policy": "POLICY_RR"})");
  for (const std::string& arguments :
       {Quote(bad), Quote((folder_ / "absent.json").string()), Quote(folder_.string()),
        std::string("--frobnicate"), std::string("a b")}) {
    const Outcome outcome = Execute(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  EXPECT_NE(Execute(Quote(bad)).err.find("bad.json: functions of Scenario is an empty list"),
            std::string::npos);
}

}  // namespace
