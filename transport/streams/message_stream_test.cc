#include "transport/streams/message_stream.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/base/limits.h"
#include "transport/base/test_seed.h"
#include "transport/streams/long_message.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using testing::HasSubstr;
using Result = MessageStream::Result;

class Owner final : public MessageStream::Owner {
 public:
  void PostStream() override { ++posts; }
  void OnReadable() override { ++readable; }
  void OnWritable() override { ++writable; }
  void OnPending(bool now) override { pending = now; }

  int posts = 0;
  int readable = 0;
  int writable = 0;
  bool pending = true;
};

// Returns the bytes that a peer sends for a message and its attachment.
std::string Encode(const std::string& message,
                   const std::string& attachment = "") {
  const MessageHeader header = {static_cast<uint32_t>(message.size()),
                                static_cast<uint32_t>(attachment.size())};
  std::string bytes(sizeof(header), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes + message + attachment;
}

std::string Text(absl::Span<const uint8_t> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

class MessageStreamTest : public testing::Test {
 protected:
  static constexpr uint64_t kMaxMessageBytes = 1 << 20;

  const char* Receive(const std::string& body, bool last = false) {
    return stream_.OnData(
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(body.data()),
                            body.size()),
        last);
  }
  // "message|attachment", or what else Read() said.
  std::string Read() {
    MessageStream::Message message;
    switch (stream_.Read(&message)) {
      case Result::kDone:
        return Text(message.message) + "|" + Text(message.attachment);
      case Result::kWait:
        return "wait";
      default:
        return "over";
    }
  }
  Result Write(const std::string& message) {
    return stream_.Write(message.size(), {}, /*attachment_buffer=*/nullptr,
                         Buffer::PlainIfAny, [&](uint8_t* out) {
                           std::memcpy(out, message.data(), message.size());
                         });
  }

  Owner owner_;
  MessageStream stream_{&owner_, kMaxMessageBytes, "the test's limit",
                        /*marks_end=*/true};
};

TEST_F(MessageStreamTest, HandsOverMessagesInTheirOrderHoweverTheyAreCut) {
  std::mt19937 random(static_cast<unsigned>(base::TestSeed()));
  std::string sent;
  std::vector<std::string> expected;
  for (int i = 0; i < 200; ++i) {
    const std::string message(random() % 300, static_cast<char>('a' + i % 26));
    const std::string attachment(random() % 3 == 0 ? random() % 200 : 0, '#');
    sent += Encode(message, attachment);
    expected.push_back(absl::StrCat(message, "|", attachment));
  }
  ASSERT_LE(sent.size(), kStreamWindowBytes);
  for (size_t at = 0; at < sent.size();) {
    const size_t bytes =
        std::min<size_t>(sent.size() - at, 1 + random() % (1 << random() % 10));
    ASSERT_EQ(Receive(sent.substr(at, bytes)), nullptr);
    at += bytes;
  }
  for (const std::string& message : expected) ASSERT_EQ(Read(), message);
  EXPECT_EQ(Read(), "wait");
}

TEST_F(MessageStreamTest, TellsTheOwnerWhenThereIsSomethingForAReaderWhoWaits) {
  ASSERT_EQ(Receive(Encode("early")), nullptr);
  EXPECT_EQ(owner_.readable, 0);
  EXPECT_EQ(Read(), "early|");
  EXPECT_EQ(Read(), "wait");
  const std::string next = Encode("next");
  ASSERT_EQ(Receive(next.substr(0, 9)), nullptr);
  EXPECT_EQ(owner_.readable, 0);
  ASSERT_EQ(Receive(next.substr(9)), nullptr);
  EXPECT_EQ(owner_.readable, 1);
  EXPECT_EQ(Read(), "next|");
}

TEST_F(MessageStreamTest, EndsForTheReaderBehindTheLastMessage) {
  EXPECT_EQ(Read(), "wait");
  ASSERT_EQ(Receive(Encode("a") + Encode(""), /*last=*/true), nullptr);
  EXPECT_EQ(owner_.readable, 1);
  EXPECT_EQ(Read(), "a|");
  EXPECT_EQ(Read(), "|");
  EXPECT_EQ(Read(), "over");
  EXPECT_THAT(Receive("", /*last=*/true), HasSubstr("behind its last"));
}

TEST_F(MessageStreamTest, LetsWhatHasComeBeReadAfterTheEndOfTheCall) {
  ASSERT_EQ(Receive(Encode("a")), nullptr);
  stream_.End();
  EXPECT_EQ(Read(), "a|");
  EXPECT_EQ(Read(), "over");
  EXPECT_EQ(Write("b"), Result::kOver);
  EXPECT_FALSE(stream_.EndWrites());
}

TEST_F(MessageStreamTest, TellsThoseWhoWaitOfTheEndOfTheCall) {
  EXPECT_EQ(Read(), "wait");
  while (Write(std::string(1000, 'x')) == Result::kDone) {
  }
  stream_.End();
  EXPECT_EQ(owner_.readable, 1);
  EXPECT_EQ(owner_.writable, 1);
}

TEST_F(MessageStreamTest, RefusesMoreThanItHasAllowed) {
  const std::string message = Encode(std::string(1 << 15, 'x'));
  ASSERT_EQ(Receive(message), nullptr);
  EXPECT_THAT(Receive(message), HasSubstr("more of a stream than it may"));
}

TEST_F(MessageStreamTest, RefusesAMessageBeyondItsLimitBeforeItHasCome) {
  MessageHeader header = {kMaxMessageBytes, 1};
  std::string body(sizeof(header), '\0');
  std::memcpy(body.data(), &header, sizeof(header));
  EXPECT_EQ(Receive(body), nullptr);
  EXPECT_EQ(stream_.failure().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(stream_.failure().message()),
              HasSubstr("1048577 bytes in a stream is larger than the test's "
                        "limit, 1048576"));
}

TEST_F(MessageStreamTest, RefusesAMessageBeyondItsOtherLimit) {
  stream_.LimitReads(10, "the other limit");
  ASSERT_EQ(Receive(Encode("ten bytes!", "and an attachment")), nullptr);
  EXPECT_EQ(stream_.failure(), absl::OkStatus());
  ASSERT_EQ(Receive(Encode("eleven byte")), nullptr);
  EXPECT_EQ(stream_.failure().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(stream_.failure().message()),
              HasSubstr("11 bytes in a stream is larger than the other limit"));
}

TEST_F(MessageStreamTest, RefusesToWriteAMessageBeyondItsLimit) {
  EXPECT_EQ(Write("1234"), Result::kDone);
  EXPECT_EQ(Write(""), Result::kDone);
  EXPECT_EQ(Write("12345"), Result::kDone);
  EXPECT_EQ(Write("1"), Result::kDone);
  EXPECT_EQ(stream_.LimitWrites(5), 5u);
  EXPECT_EQ(Write("12345"), Result::kDone);
  EXPECT_EQ(Write("123456"), Result::kTooLong);
  EXPECT_EQ(Write("12"), Result::kDone);
  EXPECT_EQ(stream_.max_write_bytes(), 5u);
}

TEST_F(MessageStreamTest, FindsALongMessageThatWasWrittenBeforeItsLimit) {
  EXPECT_EQ(Write(std::string(30'000, 'x')), Result::kDone);
  EXPECT_EQ(stream_.LimitWrites(29'999), 30'000u);
}

TEST_F(MessageStreamTest, RefusesAnEndInTheMiddleOfAMessage) {
  const std::string message = Encode("message");
  EXPECT_THAT(Receive(message.substr(0, 10), /*last=*/true),
              HasSubstr("in the middle of a message"));
}

TEST_F(MessageStreamTest, RefusesAWindowThatGoesBack) {
  EXPECT_EQ(stream_.OnWindow(kStreamWindowBytes + 1), nullptr);
  EXPECT_THAT(stream_.OnWindow(kStreamWindowBytes), HasSubstr("took back"));
}

TEST_F(MessageStreamTest, AllowsMoreOnceHalfOfTheWindowWasRead) {
  const std::string message = Encode(std::string(1000, 'x'));
  uint64_t received = 0;
  while (received + message.size() <= kStreamWindowBytes) {
    ASSERT_EQ(Receive(message), nullptr);
    received += message.size();
  }
  EXPECT_FALSE(stream_.GrantDue());
  for (uint64_t read = 0; read < kStreamWindowBytes / 2;
       read += message.size()) {
    EXPECT_EQ(owner_.posts, 0);
    ASSERT_NE(Read(), "wait");
  }
  EXPECT_EQ(owner_.posts, 1);
  EXPECT_TRUE(stream_.GrantDue());
}

TEST_F(MessageStreamTest, LetsALongMessageGoOnOnlyWhenSomebodyWaitsForIt) {
  const std::string message = Encode(std::string(3 * kStreamWindowBytes, 'x'));
  ASSERT_EQ(Receive(message.substr(0, kStreamWindowBytes)), nullptr);
  EXPECT_FALSE(stream_.GrantDue());
  EXPECT_EQ(Read(), "wait");
  EXPECT_EQ(owner_.posts, 1);
  EXPECT_TRUE(stream_.GrantDue());
}

TEST_F(MessageStreamTest, TakesNoMoreFromAWriterThanTheOutboxHolds) {
  uint64_t written = 0;
  const std::string message(1000, 'x');
  while (Write(message) == Result::kDone) written += message.size();
  EXPECT_LE(written, kStreamOutboxBytes);
  EXPECT_GE(written, kStreamOutboxBytes - 2 * message.size());
  EXPECT_EQ(owner_.posts, 1);
}

// The poller keeps a stream until it has fetched all, so it need not hear of
// each message.
TEST_F(MessageStreamTest, PostsOnceForAllThatTheOutboxHolds) {
  EXPECT_EQ(Write("a"), Result::kDone);
  EXPECT_EQ(owner_.posts, 1);
  stream_.Run();
  EXPECT_EQ(Write("b"), Result::kDone);
  EXPECT_TRUE(stream_.EndWrites());
  EXPECT_EQ(owner_.posts, 1);
}

TEST_F(MessageStreamTest, TakesALongMessageOnlyIfNothingIsBeforeIt) {
  const std::string message(2 * kStreamOutboxBytes, 'x');
  EXPECT_EQ(Write(message), Result::kDone);
  EXPECT_EQ(Write(message), Result::kWait);
}

TEST_F(MessageStreamTest, TakesNothingAfterTheWriterHasEnded) {
  EXPECT_EQ(Write("a"), Result::kDone);
  EXPECT_TRUE(stream_.EndWrites());
  EXPECT_EQ(Write("b"), Result::kOver);
  EXPECT_TRUE(stream_.EndWrites());
}

// --- Streams that can be restarted -------------------------------------------

// A connection that never has room.
class FullLine final : public StreamLine, private LongMessageCarrier {
 public:
  FullLine() : StreamLine(static_cast<LongMessageCarrier&>(*this)) {}

  void Serve(MessageStream* /*stream*/) override { ++served; }
  void Close(MessageStream* stream) override { stream->EndUnlessRestarted(); }

  int served = 0;

 private:
  Outcome SendLong(uint32_t /*call_id*/, LongMessage* /*message*/) override {
    return Outcome::kBlocked;
  }
  Outcome SendLease(uint32_t /*call_id*/, uint64_t /*bytes*/,
                    uint64_t /*unread*/) override {
    return Outcome::kBlocked;
  }
  bool StartRead(uint32_t /*call_id*/, uint64_t /*number*/,
                 IncomingMessage* /*message*/) override {
    return false;
  }
};

TEST_F(MessageStreamTest, GoesOnAtAnotherConnectionIfItCanBeRestarted) {
  FullLine first;
  FullLine second;
  stream_.AllowRestart(1000);
  stream_.Open(&first, 1);
  EXPECT_EQ(Read(), "wait");
  stream_.Close();
  EXPECT_FALSE(stream_.is_open());
  EXPECT_EQ(Write("between"), Result::kDone);
  EXPECT_TRUE(stream_.EndWrites());
  EXPECT_EQ(Read(), "wait");
  EXPECT_EQ(owner_.readable, 0);
  stream_.Open(&second, 2);
  EXPECT_EQ(second.served, 1);
  ASSERT_EQ(Receive(Encode("answer")), nullptr);
  EXPECT_EQ(owner_.readable, 1);
  EXPECT_EQ(Read(), "answer|");
}

TEST_F(MessageStreamTest, CantBeRestartedWhenSomethingHasCome) {
  FullLine line;
  stream_.AllowRestart(1000);
  stream_.Open(&line, 1);
  ASSERT_EQ(Receive(Encode("answer").substr(0, 3)), nullptr);
  EXPECT_FALSE(stream_.can_restart());
  stream_.Close();
  EXPECT_EQ(Write("a"), Result::kOver);
}

TEST_F(MessageStreamTest, IsOverIfItIsNotRestarted) {
  FullLine line;
  stream_.AllowRestart(1000);
  stream_.Open(&line, 1);
  EXPECT_EQ(Read(), "wait");
  stream_.Close();
  stream_.End();
  EXPECT_FALSE(stream_.can_restart());
  EXPECT_EQ(owner_.readable, 1);
  EXPECT_EQ(Read(), "over");
  EXPECT_EQ(Write("a"), Result::kOver);
}

// Somebody must poll until the next attempt has begun.
TEST_F(MessageStreamTest, IsPendingUntilItIsRestarted) {
  FullLine line;
  stream_.AllowRestart(1000);
  stream_.Open(&line, 1);
  stream_.NoteProgress();
  EXPECT_FALSE(owner_.pending);
  stream_.Close();
  EXPECT_TRUE(owner_.pending);
  stream_.Open(&line, 2);
  stream_.NoteProgress();
  EXPECT_FALSE(owner_.pending);
}

}  // namespace
}  // namespace verbena::transport
