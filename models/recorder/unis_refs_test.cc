// The recorder itself, on a program of its own ($SUBJECT). Its path is in $UNIS_REFS, and
// Valgrind's folder in $VALGRIND_LIB.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

#include "models/cache/recording.h"

namespace unis::cache {
namespace {

struct Outcome {
  int code;
  std::vector<Event> arrivals;
};

Outcome Record(const std::string& where) {
  const std::string out = testing::TempDir() + "unis_refs_test_" + where + ".refs";
  const std::string command =
      "VALGRIND_LAUNCHER=\"$UNIS_REFS\" \"$UNIS_REFS\" "
      "--command-line-only=yes --tool=unis-refs -q --out='" +
      out + "' '--entry=*::Process(*' \"$SUBJECT\" " + where;
  const int status = std::system(command.c_str());
  Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, {}};
  const auto read = Recording::Read(out);
  if (const auto* recording = std::get_if<Recording>(&read)) {
    for (auto place = recording->begin(); !recording->AtEnd(place);) {
      const Event event = recording->Next(place);
      if (event.kind == Event::Kind::kArrival) outcome.arrivals.push_back(event);
    }
  }
  std::remove(out.c_str());
  return outcome;
}

TEST(UnisRefsTest, TellsWhereFramesLie) {
  const Outcome outcome = Record("inside");
  EXPECT_EQ(outcome.code, 0);
  ASSERT_EQ(outcome.arrivals.size(), 2u);
  for (const Event& arrival : outcome.arrivals) {
    EXPECT_EQ(arrival.frame_at, 4u);  // behind 128 bytes of mbuf and 128 of headroom
    EXPECT_EQ(arrival.frame_lines, 2u);
  }
}

TEST(UnisRefsTest, DataInExternalMemoryHasNoLinesInTheBuffer) {
  const Outcome outcome = Record("outside");
  EXPECT_EQ(outcome.code, 0);
  ASSERT_EQ(outcome.arrivals.size(), 2u);
  EXPECT_EQ(outcome.arrivals[0].frame_lines, 2u);
  EXPECT_EQ(outcome.arrivals[1].frame_lines, 0u);
}

TEST(UnisRefsTest, BuffersDoNotOverlap) { EXPECT_EQ(Record("larger").code, 1); }

}  // namespace
}  // namespace unis::cache
