#include "transport/base/intrusive_list.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::base {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Item : ListLink<Item> {};

class IntrusiveListTest : public testing::Test {
 protected:
  std::vector<const Item*> Items() const {
    std::vector<const Item*> items;
    for (const Item* item = list_.front(); item != nullptr;
         item = list_.Next(item)) {
      items.push_back(item);
    }
    EXPECT_EQ(list_.size(), items.size());
    EXPECT_EQ(list_.empty(), items.empty());
    return items;
  }

  IntrusiveList<Item> list_;
  Item a_, b_, c_;
};

TEST_F(IntrusiveListTest, KeepsTheOrderOfArrival) {
  EXPECT_THAT(Items(), IsEmpty());
  for (Item* item : {&a_, &b_, &c_}) list_.PushBack(item);
  EXPECT_THAT(Items(), ElementsAre(&a_, &b_, &c_));
  EXPECT_EQ(list_.PopFront(), &a_);
  EXPECT_EQ(list_.PopFront(), &b_);
  EXPECT_EQ(list_.PopFront(), &c_);
  EXPECT_EQ(list_.PopFront(), nullptr);
}

TEST_F(IntrusiveListTest, PutsAnElementBeforeAllOthers) {
  list_.PushFront(&b_);
  list_.PushFront(&a_);
  list_.PushBack(&c_);
  EXPECT_THAT(Items(), ElementsAre(&a_, &b_, &c_));
}

TEST_F(IntrusiveListTest, RemovesAnyElement) {
  for (Item* item : {&a_, &b_, &c_}) list_.PushBack(item);
  list_.Remove(&b_);
  EXPECT_THAT(Items(), ElementsAre(&a_, &c_));
  list_.Remove(&c_);
  EXPECT_THAT(Items(), ElementsAre(&a_));
  list_.Remove(&a_);
  EXPECT_THAT(Items(), IsEmpty());
}

TEST_F(IntrusiveListTest, TakesAnElementAgainAfterItWasRemoved) {
  list_.PushBack(&a_);
  list_.PushBack(&b_);
  list_.Remove(&a_);
  list_.PushBack(&a_);
  EXPECT_THAT(Items(), ElementsAre(&b_, &a_));
  list_.Remove(&b_);
  list_.PushFront(&b_);
  EXPECT_THAT(Items(), ElementsAre(&b_, &a_));
}

TEST_F(IntrusiveListTest, KnowsWhichElementsItHas) {
  list_.PushBack(&a_);
  list_.PushBack(&b_);
  EXPECT_TRUE(list_.Contains(&a_));
  EXPECT_TRUE(list_.Contains(&b_));
  EXPECT_FALSE(list_.Contains(&c_));
  list_.Clear();
  EXPECT_FALSE(list_.Contains(&a_));
  EXPECT_THAT(Items(), IsEmpty());
}

TEST_F(IntrusiveListTest, AnElementKnowsWhetherItStandsInAList) {
  EXPECT_FALSE(a_.is_linked());
  list_.PushBack(&a_);
  EXPECT_TRUE(a_.is_linked());
  list_.Remove(&a_);
  EXPECT_FALSE(a_.is_linked());
}

}  // namespace
}  // namespace verbena::base
