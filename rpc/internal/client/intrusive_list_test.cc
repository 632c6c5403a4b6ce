#include "rpc/internal/client/intrusive_list.h"

#include <vector>

#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

struct Item {
  int number = 0;
  Item* next = nullptr;
  Item* previous = nullptr;
};

class IntrusiveListTest : public testing::Test {
 protected:
  IntrusiveListTest() {
    for (int i = 0; i < 3; ++i) {
      items_[i].number = i;
      list_.PushBack(&items_[i]);
    }
  }

  std::vector<int> Drain() {
    std::vector<int> numbers;
    while (Item* item = list_.PopFront()) numbers.push_back(item->number);
    return numbers;
  }

  Item items_[3];
  IntrusiveList<Item> list_;
};

TEST_F(IntrusiveListTest, ComesOutInOrder) {
  EXPECT_EQ(Drain(), (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(list_.empty());
}

TEST_F(IntrusiveListTest, TheFirstCanBeRemoved) {
  list_.Remove(&items_[0]);
  EXPECT_EQ(Drain(), (std::vector<int>{1, 2}));
}

TEST_F(IntrusiveListTest, TheMiddleCanBeRemoved) {
  list_.Remove(&items_[1]);
  EXPECT_EQ(Drain(), (std::vector<int>{0, 2}));
}

TEST_F(IntrusiveListTest, TheLastCanBeRemovedAndAddedAgain) {
  list_.Remove(&items_[2]);
  list_.Remove(&items_[1]);
  list_.PushBack(&items_[2]);
  EXPECT_EQ(Drain(), (std::vector<int>{0, 2}));
}

}  // namespace
}  // namespace verbena::internal
