// The program itself: exit codes, and what goes to which stream. Its path is in $UNIS_CACHE.
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

#include "models/cache/recording.h"

namespace unis::cache {
namespace {

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

class UnisCacheTest : public testing::Test {
 protected:
  UnisCacheTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "unis-cache-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
    folder_ = pattern;
    RecordingWriter writer;
    for (int packet = 0; packet < 100; ++packet) {
      writer.Arrival(1 << 20, 4, 1);
      writer.Load(static_cast<Line>(packet));
      writer.BurstEnd(1, 10, 1);
    }
    recording_ = (folder_ / "a.refs").string();
    std::ofstream(recording_, std::ios::binary)
        .write(reinterpret_cast<const char*>(writer.bytes().data()),
               static_cast<std::streamsize>(writer.bytes().size()));
  }
  ~UnisCacheTest() override { std::filesystem::remove_all(folder_); }

  static std::string Read(const std::filesystem::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  Outcome Execute(const std::string& arguments) const {
    const char* program = std::getenv("UNIS_CACHE");
    const std::string out = (folder_ / "out").string(), err = (folder_ / "err").string();
    const std::string command = std::string("'") + (program == nullptr ? "" : program) + "' " +
                                arguments + " >" + out + " 2>" + err;
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Read(out), Read(err)};
  }

  std::filesystem::path folder_;
  std::string recording_;
};

TEST_F(UnisCacheTest, TellsMissesByWaysAndThatTheyAreModelled) {
  const Outcome outcome = Execute("ways --llc 128x3 --io-ways 1 --warm-up 50 " + recording_);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\"modelled\": true"), std::string::npos);
  EXPECT_NE(outcome.out.find("\"packets\": 50"), std::string::npos);
  EXPECT_NE(outcome.out.find("\"misses\": [50, 50, 50]"), std::string::npos) << outcome.out;
}

TEST_F(UnisCacheTest, TellsWhatNeighboursMissAndHave) {
  const Outcome outcome = Execute("neighbours --llc 128x4 --warm-up 0 --packets 10 " + recording_ +
                                  ",1.5,3 " + recording_ + ",1,c");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  // A line for each packet that was never there before; frames are where the device wrote them.
  // The faster one has passed the packets due before the slower one's tenth, which is due at 9 us.
  // Each has the mbuf's line besides, which the port missed once; none was dirty and pushed out.
  for (const char* counts :
       {"{\"packets\": 14, \"instructions\": 140, \"llc_references\": 14, \"misses\": 14, "
        "\"driver_misses\": 1, \"written_back\": 0, \"device_spills\": 0, \"occupancy\": 15},\n",
        "{\"packets\": 10, \"instructions\": 100, \"llc_references\": 10, \"misses\": 10, "
        "\"driver_misses\": 1, \"written_back\": 0, \"device_spills\": 0, \"occupancy\": 11}\n"}) {
    EXPECT_NE(outcome.out.find(counts), std::string::npos) << outcome.out;
  }
}

TEST_F(UnisCacheTest, MeasuresALatency) {
  const Outcome outcome = Execute("latency 4096");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\"bytes\": 4096, \"ns\": "), std::string::npos) << outcome.out;
}

TEST_F(UnisCacheTest, HelpIsNoError) {
  const Outcome help = Execute("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("usage: unis-cache"), std::string::npos);
}

TEST_F(UnisCacheTest, BadInputIsOneSentenceAndExitCode2) {
  for (const std::string& arguments :
       {std::string(""),
        std::string("frobnicate"),
        std::string("ways"),
        "ways --llc 100x4 " + recording_,
        "ways --llc 128x65 " + recording_,
        "ways --llc 128 " + recording_,
        "ways --l1 " + recording_,
        "ways --frob 1 " + recording_,
        "ways --warm-up 100 " + recording_,
        "ways --warm-up 10,20 " + recording_,
        "neighbours --warm-up 10,100 " + recording_ + ",1,1 " + recording_ + ",1,2",
        "neighbours --warm-up 1,2,3 " + recording_ + ",1,1 " + recording_ + ",1,2",
        "neighbours --warm-up 1, " + recording_ + ",1,1",
        "ways --io-ways 99 " + recording_,
        "ways " + recording_ + ".absent",
        std::string("ways /"),
        std::string("neighbours"),
        "neighbours " + recording_,
        "neighbours " + recording_ + ",0,1",
        "neighbours " + recording_ + ",nan,1",
        "neighbours " + recording_ + ",1e-309,1",
        "neighbours " + recording_ + ",0.0009,1",
        "neighbours " + recording_ + ",10001,1",
        "neighbours " + recording_ + ",0.9,1 " + recording_ + ",901,1",
        "neighbours " + recording_ + ",1,0",
        "neighbours --llc 64x4 " + recording_ + ",1,1f",
        "neighbours " + recording_ + ",1,xyz",
        std::string("latency"),
        std::string("latency 1")}) {
    const Outcome outcome = Execute(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

}  // namespace
}  // namespace unis::cache
