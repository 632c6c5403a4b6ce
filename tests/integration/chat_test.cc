// examples/chat.

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/example_fixture.h"
#include "tests/testing/child_process.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing_support::ChildProcess;

// Somebody with a keyboard.
class Talker {
 public:
  Talker(const ExampleServer& server, const std::string& name)
      : client_({ExamplePath("chat/client"), "--target=" + server.target(),
                 "--name=" + name}) {}

  void Type(const std::string& line) {
    EXPECT_TRUE(client_.Write(line + "\n"));
  }
  void EndInput() { client_.CloseInput(); }
  std::string Hear() { return client_.ReadLine(); }
  ChildProcess& client() { return client_; }

 private:
  ChildProcess client_;
};

TEST(ChatTest, EverybodyHearsWhatEverybodySays) {
  ExampleServer server("chat/server");
  std::vector<std::unique_ptr<Talker>> talkers;
  const std::vector<std::string> names = {"Ada", "Grace", "Barbara", "Karen"};
  for (const std::string& name : names) {
    talkers.push_back(std::make_unique<Talker>(server, name));
    // Also the one who comes.
    for (const auto& talker : talkers) {
      ASSERT_EQ(talker->Hear(), name + " has come");
    }
  }
  for (size_t i = 0; i < names.size(); ++i) {
    talkers[i]->Type("hello");
    for (const auto& talker : talkers) {
      ASSERT_EQ(talker->Hear(), names[i] + ": hello");
    }
  }
  talkers[0]->EndInput();
  for (const auto& talker : talkers) ASSERT_EQ(talker->Hear(), "Ada has left");
  EXPECT_EQ(talkers[0]->client().Wait(), 0) << talkers[0]->client().errors();
  // Others may go without a word.
  talkers[1]->client().Kill();
  ASSERT_EQ(talkers[2]->Hear(), "Grace has left");
  ASSERT_EQ(talkers[3]->Hear(), "Grace has left");
  talkers[2]->Type("still here");
  ASSERT_EQ(talkers[3]->Hear(), "Barbara: still here");
  for (const auto& talker : talkers) talker->EndInput();
  EXPECT_EQ(talkers[3]->client().Wait(), 0) << talkers[3]->client().errors();
  EXPECT_EQ(server.Stop(), 0) << server.errors();
}

TEST(ChatTest, WhatATerminalWouldObeyIsShownAsText) {
  ExampleServer server("chat/server");
  Talker talker(server, "Eve");
  ASSERT_EQ(talker.Hear(), "Eve has come");
  talker.Type("\x1b[2J");
  EXPECT_EQ(talker.Hear(), "Eve: \\x1b[2J");
  talker.EndInput();
  EXPECT_EQ(talker.client().Wait(), 0) << talker.client().errors();
  EXPECT_EQ(server.Stop(), 0) << server.errors();
}

TEST(ChatTest, WhoeverSaysNoNameIsNotLetIn) {
  ExampleServer server("chat/server");
  Talker talker(server, "");
  EXPECT_EQ(talker.client().Wait(), 1);
  EXPECT_THAT(talker.client().errors(),
              HasSubstr("the chat is over: INVALID_ARGUMENT: who is it?"));
  EXPECT_EQ(server.Stop(), 0) << server.errors();
}

}  // namespace
}  // namespace verbena
