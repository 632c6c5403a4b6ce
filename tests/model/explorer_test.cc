#include "tests/model/explorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace verbena::model {
namespace {

using testing::HasSubstr;

// Two philosophers, who take the fork on either hand in turn, eat, and lay both
// down. With `swaps` one of them begins with the other hand.
struct Table {
  bool swaps = false;
  uint8_t meals[2] = {1, 1};
  uint8_t forks[2] = {0, 0};   // Each philosopher's.
  uint8_t holder[2] = {0, 0};  // Each fork's: philosopher and one.
  bool both_eat = false;

  uint8_t Wanted(uint8_t who) const {
    const uint8_t first = swaps ? 0 : who;
    return forks[who] == 0 ? first : 1 - first;
  }
  template <typename Visit>
  void VisitSteps(Visit visit) const {
    for (uint8_t who = 0; who < 2; ++who) {
      if (forks[who] == 2) {
        visit(Step{"eats", who});
      } else if (meals[who] > 0 && holder[Wanted(who)] == 0) {
        visit(Step{"takes", who});
      }
    }
  }
  void Take(const Step& step) {
    const uint8_t who = step.a;
    if (step.name == std::string("takes")) {
      holder[Wanted(who)] = who + 1;
      ++forks[who];
    } else {
      forks[who] = holder[0] = holder[1] = 0;
      --meals[who];
    }
    both_eat = forks[0] + forks[1] > 2;
  }
  const char* wrong() const { return both_eat ? "three forks" : nullptr; }
  bool done() const { return meals[0] + meals[1] == 0; }
  std::string Words(const Step& step) const {
    return absl::StrCat(int{step.a}, " ", step.name);
  }
  std::string ToString() const {
    return absl::StrCat("forks: ", int{holder[0]}, int{holder[1]});
  }
};

TEST(ExplorerTest, FindsTheShortestWayToADeadlock) {
  const Exploration found = Explore(Table());
  EXPECT_THAT(found.wrong, HasSubstr("nothing can be done"));
  EXPECT_EQ(found.trace.size(), 3u);
  EXPECT_THAT(found.trace[2], HasSubstr("forks: 12"));
}

TEST(ExplorerTest, SeesEachStateOnce) {
  const Exploration found = Explore(Table{.swaps = true});
  EXPECT_EQ(found.wrong, "");
  EXPECT_TRUE(found.whole);
  // A philosopher with one fork or two, while the other has not eaten or has,
  // and four with none.
  EXPECT_EQ(found.states, 12u);
}

TEST(ExplorerTest, SaysIfStatesWereLeftOut) {
  const Exploration found = Explore(Table{.swaps = true}, {.max_states = 5});
  EXPECT_EQ(found.wrong, "");
  EXPECT_FALSE(found.whole);
}

// Counts to three, unless it goes astray: then it can go round for ever.
struct Counter {
  uint8_t count = 0;
  bool astray = false;
  uint8_t round = 0;

  template <typename Visit>
  void VisitSteps(Visit visit) const {
    if (astray) {
      visit(Step{"goes round"});
    } else if (count < 3) {
      visit(Step{"counts"});
      if (count == 2) visit(Step{"goes astray"});
    }
  }
  void Take(const Step& step) {
    if (step.name == std::string("counts")) ++count;
    if (step.name == std::string("goes astray")) astray = true;
    if (astray) round = 1 - round;
  }
  const char* wrong() const { return nullptr; }
  bool done() const { return count == 3; }
  std::string Words(const Step& step) const { return step.name; }
  std::string ToString() const { return absl::StrCat(int{count}); }
};

TEST(ExplorerTest, FindsWhereTheEndCannotBeReached) {
  const Exploration found = Explore(Counter());
  EXPECT_THAT(found.wrong, HasSubstr("never be finished"));
  EXPECT_EQ(found.trace.size(), 4u);
  EXPECT_EQ(Explore(Counter(), {.seeks_ends = false}).wrong, "");
}

// Counts on without an end, and breaks a rule at 100.
struct Endless {
  uint8_t count = 0;

  template <typename Visit>
  void VisitSteps(Visit visit) const {
    visit(Step{"adds", 1});
    visit(Step{"adds", 10});
  }
  void Take(const Step& step) { count += step.a; }
  const char* wrong() const { return count == 100 ? "it is 100" : nullptr; }
  bool done() const { return false; }
  std::string Words(const Step& step) const {
    return absl::StrCat(step.name, " ", int{step.a});
  }
  std::string ToString() const { return absl::StrCat(int{count}); }
};

TEST(ExplorerTest, FindsTheShortestWayToABrokenRule) {
  const Exploration found = Explore(Endless());
  EXPECT_EQ(found.wrong, "it is 100");
  EXPECT_EQ(found.trace.size(), 11u);
  EXPECT_EQ(found.trace[10], "10. adds 10\n      100");
}

}  // namespace
}  // namespace verbena::model
