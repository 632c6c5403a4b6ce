#include "transport/base/mpsc_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace verbena::base {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Item : MpscNode {
  explicit Item(int value) : value(value) {}
  int value;
};

std::vector<int> Take(MpscQueue<Item>& queue) {
  std::vector<int> values;
  queue.TakeAll([&](Item* item) { values.push_back(item->value); });
  return values;
}

TEST(MpscQueueTest, BeginsEmpty) {
  MpscQueue<Item> queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_THAT(Take(queue), IsEmpty());
}

TEST(MpscQueueTest, TakesInTheOrderOfPushes) {
  MpscQueue<Item> queue;
  Item one(1), two(2), three(3);
  queue.Push(&one);
  queue.Push(&two);
  queue.Push(&three);
  EXPECT_FALSE(queue.empty());
  EXPECT_THAT(Take(queue), ElementsAre(1, 2, 3));
  EXPECT_TRUE(queue.empty());
  EXPECT_THAT(Take(queue), IsEmpty());
}

TEST(MpscQueueTest, SaysWhetherItWasEmpty) {
  MpscQueue<Item> queue;
  Item one(1), two(2);
  EXPECT_TRUE(queue.Push(&one));
  EXPECT_FALSE(queue.Push(&two));
  Take(queue);
  EXPECT_TRUE(queue.Push(&one));
}

TEST(MpscQueueTest, LetsTheConsumerDestroyWhatItTook) {
  MpscQueue<Item> queue;
  for (int i = 0; i < 10; ++i) queue.Push(std::make_unique<Item>(i).release());
  int sum = 0;
  queue.TakeAll([&](Item* item) {
    sum += item->value;
    delete item;
  });
  EXPECT_EQ(sum, 45);
}

TEST(MpscQueueTest, KeepsWhatIsPushedAgainForTheNextTime) {
  MpscQueue<Item> queue;
  Item one(1), two(2);
  queue.Push(&one);
  queue.Push(&two);
  std::vector<int> values;
  queue.TakeAll([&](Item* item) {
    values.push_back(item->value);
    queue.Push(item);
  });
  EXPECT_THAT(values, ElementsAre(1, 2));
  EXPECT_THAT(Take(queue), ElementsAre(1, 2));
}

TEST(MpscQueueTest, LosesNothingOfManyProducers) {
  constexpr int kProducers = 3;
  constexpr int kItems = 5000;
  MpscQueue<Item> queue;
  std::vector<Item> items;
  for (int i = 0; i < kProducers * kItems; ++i) items.emplace_back(i);

  std::atomic<int> wakes = 0;
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kItems; ++i) {
        if (queue.Push(&items[p * kItems + i])) ++wakes;
      }
    });
  }

  // Ends, because every item arrives once.
  std::vector<int> next(kProducers, 0);
  int batches = 0;
  for (int taken = 0; taken < kProducers * kItems;) {
    const int before = taken;
    queue.TakeAll([&](Item* item) {
      EXPECT_EQ(item->value % kItems, next[item->value / kItems]++);
      ++taken;
    });
    if (taken > before) {
      ++batches;
    } else {
      std::this_thread::yield();
    }
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_TRUE(queue.empty());
  // For each batch exactly one push found the queue empty and said so.
  EXPECT_EQ(wakes, batches);
}

}  // namespace
}  // namespace verbena::base
