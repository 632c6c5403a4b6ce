// Tests of the events that interceptors are told of calls of each kind in each
// form, and of changes that they may make.

#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/forms_fixture.h"
#include "tests/integration/interceptors_fixture.h"

namespace verbena::end_to_end {
namespace {

using google::protobuf::MessageLite;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

INSTANTIATE_TEST_SUITE_P(Forms, EachFormInterceptorsTest, EachFormOfBoth(),
                         NameOfBoth);

TEST_P(EachFormInterceptorsTest, AUnaryCallPassesThroughAllOfThemInOrder) {
  AddClient();
  AddClient();
  AddServer();
  AddServer();
  Connect();
  ASSERT_EQ(Call(0).status, absl::OkStatus());
  const std::string method = "verbena.end_to_end.Inline/Echo unary";
  const std::string request = "verbena.end_to_end.EchoRequest";
  const std::string reply = "verbena.end_to_end.EchoReply";
  EXPECT_THAT(
      journal_.Of(""),
      ElementsAre("client1 start " + method, "client2 start " + method,
                  "client1 send " + request, "client2 send " + request,
                  "server1 start " + method, "server2 start " + method,
                  "server1 receive " + request, "server2 receive " + request,
                  "server2 send " + reply, "server1 send " + reply,
                  "server2 end OK", "server1 end OK",
                  "client2 receive " + reply, "client1 receive " + reply,
                  "client2 end OK", "client1 end OK"));
}

TEST_P(EachFormInterceptorsTest, OfAServersStreamTheyHearOfEachMessage) {
  AddClient();
  AddServer();
  Connect();
  ASSERT_EQ(Call(1).status, absl::OkStatus());
  const std::string method = "verbena.end_to_end.StreamService/List server";
  const std::string request = "verbena.end_to_end.ListRequest";
  const std::string item = "verbena.end_to_end.Item";
  EXPECT_THAT(journal_.Of("client"),
              ElementsAre("client1 start " + method, "client1 send " + request,
                          "client1 receive " + item, "client1 receive " + item,
                          "client1 end OK"));
  EXPECT_THAT(journal_.Of("server"),
              ElementsAre("server1 start " + method,
                          "server1 receive " + request, "server1 send " + item,
                          "server1 send " + item, "server1 end OK"));
}

TEST_P(EachFormInterceptorsTest, OfAClientsStreamTheyHearOfEachMessage) {
  AddClient();
  AddServer();
  Connect();
  ASSERT_EQ(Call(2).status, absl::OkStatus());
  const std::string method = "verbena.end_to_end.StreamService/Record client";
  const std::string item = "verbena.end_to_end.Item";
  const std::string summary = "verbena.end_to_end.Summary";
  EXPECT_THAT(journal_.Of("client"),
              ElementsAre("client1 start " + method, "client1 send " + item,
                          "client1 send " + item, "client1 receive " + summary,
                          "client1 end OK"));
  EXPECT_THAT(journal_.Of("server"),
              ElementsAre("server1 start " + method, "server1 receive " + item,
                          "server1 receive " + item, "server1 send " + summary,
                          "server1 end OK"));
}

TEST_P(EachFormInterceptorsTest, OfAStreamBothWaysTheyHearOfEachMessage) {
  AddClient();
  AddClient();
  AddServer();
  AddServer();
  Connect();
  ASSERT_EQ(Call(3).status, absl::OkStatus());
  const std::string method = "verbena.end_to_end.StreamService/Chat bidi";
  const std::string item = " verbena.end_to_end.Item";
  EXPECT_THAT(journal_.Of("client"),
              ElementsAre("client1 start " + method, "client2 start " + method,
                          "client1 send" + item, "client2 send" + item,
                          "client2 initial form", "client1 initial form",
                          "client2 receive" + item, "client1 receive" + item,
                          "client1 send" + item, "client2 send" + item,
                          "client2 receive" + item, "client1 receive" + item,
                          "client2 end OK", "client1 end OK"));
  EXPECT_THAT(journal_.Of("server"),
              ElementsAre("server1 start " + method, "server2 start " + method,
                          "server1 receive" + item, "server2 receive" + item,
                          "server2 send" + item, "server1 send" + item,
                          "server1 receive" + item, "server2 receive" + item,
                          "server2 send" + item, "server1 send" + item,
                          "server2 end OK", "server1 end OK"));
}

TEST_P(EachFormInterceptorsTest, AMessageIsToldOfOnceThoughItsWriterMustWait) {
  AddClient();
  AddServer();
  Connect();
  // Each is more than may be under way unread at first.
  payload_bytes_ = 100000;
  constexpr int kMessages = 50;
  ASSERT_EQ(Call(2, kMessages).status, absl::OkStatus());
  EXPECT_EQ(journal_.Count("client1 send"), size_t{kMessages});
  EXPECT_EQ(journal_.Count("server1 receive"), size_t{kMessages});
  ASSERT_EQ(Call(1, kMessages).status, absl::OkStatus());
  EXPECT_EQ(journal_.Count("server1 send"), size_t{kMessages} + 1);
  EXPECT_EQ(journal_.Count("client1 receive"), size_t{kMessages} + 1);
}

TEST_P(EachFormInterceptorsTest, BothSidesMayChangeWhatComes) {
  const auto change = [](auto*, MessageLite* message) {
    if (auto* request = dynamic_cast<EchoRequest*>(message)) {
      request->set_payload(request->payload() + " server");
    } else if (auto* reply = dynamic_cast<EchoReply*>(message)) {
      reply->set_payload(reply->payload() + " client");
    } else if (auto* list = dynamic_cast<ListRequest*>(message)) {
      list->set_count(list->count() + 1);
    } else if (auto* item = dynamic_cast<Item*>(message)) {
      item->set_payload(item->payload() + "!");
    } else if (auto* summary = dynamic_cast<Summary*>(message)) {
      summary->set_count(summary->count() + 100);
    }
  };
  AddClient({.receive = change});
  AddServer({.receive = change});
  Connect();
  ASSERT_EQ(Call(0).status, absl::OkStatus());
  EXPECT_EQ(reply_.payload(), "ask server client");
  const CallOutcome listed = Call(1);
  ASSERT_THAT(listed.items, SizeIs(3));
  EXPECT_EQ(listed.items[2].payload(), "!");
  const CallOutcome recorded = Call(2);
  EXPECT_EQ(recorded.summary.payload_bytes(), 2u);
  EXPECT_EQ(recorded.summary.count(), 102u);
  const CallOutcome chatted = Call(3);
  ASSERT_THAT(chatted.items, SizeIs(2));
  EXPECT_EQ(chatted.items[1].payload(), "!!");
}

TEST_P(EachFormInterceptorsTest, BothSidesMayChangeTheStatus) {
  AddServer({.end = [](ServerContext* context, absl::Status* status) {
    context->AddTrailingMetadata("said-by", "the server");
    *status = absl::AbortedError(absl::StrCat("not ", status->ToString()));
  }});
  std::vector<std::string> trailing;
  AddClient({.end = [&](ClientContext* context, absl::Status* status) {
    for (const auto& [key, value] : context->GetServerTrailingMetadata()) {
      trailing.push_back(absl::StrCat(key, " ", value));
    }
    *status = absl::DataLossError(absl::StrCat("and ", status->message()));
  }});
  Connect();
  for (int kind = 0; kind < kKinds; ++kind) {
    trailing.clear();
    EXPECT_EQ(Call(kind).status, absl::DataLossError("and not OK")) << kind;
    EXPECT_THAT(trailing, ElementsAre("said-by the server")) << kind;
  }
}

TEST_P(EachFormInterceptorsTest, AnErrorMayBecomeOk) {
  // The fourteenth item makes the handler end the Chat with ABORTED.
  AddServer({.end = [](ServerContext*, absl::Status* status) {
    if (absl::IsAborted(*status)) *status = absl::OkStatus();
  }});
  Connect();
  EXPECT_EQ(Call(3, 14).status, absl::OkStatus());
  Clear();
  AddClient({.end = [](ClientContext*, absl::Status* status) {
    if (absl::IsAborted(*status)) *status = absl::OkStatus();
  }});
  Connect();
  EXPECT_EQ(Call(3, 14).status, absl::OkStatus());
}

TEST_P(EachFormInterceptorsTest, AServersInterceptorRejectsACall) {
  AddServer();
  AddServer({.start = [](ServerContext*) {
    return absl::UnauthenticatedError("who are you?");
  }});
  AddServer();
  AddClient();
  Connect();
  for (int kind = 0; kind < kKinds; ++kind) {
    EXPECT_EQ(Call(kind).status, absl::UnauthenticatedError("who are you?"))
        << kind;
  }
  // A stream may end while the client still writes.
  journal_.Await("server1 end UNAUTHENTICATED", kKinds);
  EXPECT_EQ(journal_.Count("server1 end UNAUTHENTICATED"), size_t{kKinds});
  EXPECT_EQ(journal_.Count("server2 end UNAUTHENTICATED"), size_t{kKinds});
  EXPECT_THAT(journal_.Of("server3"), IsEmpty());
  // The handlers have neither read nor written.
  EXPECT_EQ(journal_.Of("server").size(), size_t{kKinds} * 4);
  EXPECT_EQ(journal_.Count("client1 end UNAUTHENTICATED"), size_t{kKinds});
}

TEST_P(EachFormInterceptorsTest, AClientsInterceptorRejectsACall) {
  AddClient();
  AddClient({.start = [](ClientContext*) {
    return absl::PermissionDeniedError("not today");
  }});
  AddClient();
  AddServer();
  Connect();
  for (int kind = 0; kind < kKinds; ++kind) {
    EXPECT_EQ(Call(kind).status, absl::PermissionDeniedError("not today"))
        << kind;
  }
  EXPECT_EQ(journal_.Count("client1 start"), size_t{kKinds});
  EXPECT_EQ(journal_.Count("client1 end PERMISSION_DENIED"), size_t{kKinds});
  EXPECT_EQ(journal_.Count("client2 end PERMISSION_DENIED"), size_t{kKinds});
  EXPECT_EQ(journal_.Of("client").size(), size_t{kKinds} * 4);
  EXPECT_THAT(journal_.Of("server"), IsEmpty());
}

TEST_P(EachFormInterceptorsTest, MetadataOfAClientsReachTheServersEachTime) {
  AddClient({.start = [](ClientContext* context) {
    context->AddMetadata("token", "secret");
    return absl::OkStatus();
  }});
  base::Mutex mutex;
  std::vector<std::string> tokens;
  AddServer({.start = [&](ServerContext* context) {
    const base::MutexLock lock(mutex);
    for (const auto& [key, value] : context->client_metadata()) {
      tokens.push_back(absl::StrCat(key, " ", value));
    }
    context->AddInitialMetadata("seen", "it");
    return absl::OkStatus();
  }});
  Connect();
  // Each time once, though it is the same context.
  ClientContext context;
  context.AddMetadata("users", "own");
  for (int kind = 0; kind < kKinds; ++kind) {
    tokens.clear();
    EXPECT_EQ(Call(kind, &context).status, absl::OkStatus());
    EXPECT_THAT(tokens, ElementsAre("token secret", "users own")) << kind;
    EXPECT_THAT(context.metadata(), SizeIs(1));
    EXPECT_EQ(context.GetServerInitialMetadata().count("seen"), 1u) << kind;
  }
  EXPECT_GE(journal_.Count("client1 initial"), size_t{kKinds});
}

TEST_P(EachFormInterceptorsTest, AnExceptionAtTheServerIsUnknown) {
  const auto fail = [] { throw std::runtime_error("private"); };
  const std::vector<ServerActs> all = {
      {.start =
           [&](ServerContext*) {
             fail();
             return absl::OkStatus();
           }},
      {.send = fail},
      {.receive = [&](ServerContext*, MessageLite*) { fail(); }},
      {.end = [&](ServerContext*, absl::Status*) { fail(); }}};
  for (const ServerActs& acts : all) {
    Clear();
    AddServer();
    AddServer(acts);
    Connect();
    for (int kind = 0; kind < kKinds; ++kind) {
      const absl::Status status = Call(kind).status;
      EXPECT_EQ(status.code(), absl::StatusCode::kUnknown) << status;
      EXPECT_THAT(std::string(status.message()),
                  testing::EndsWith("an interceptor threw an exception"));
    }
  }
  // The other one has heard of each end, and of the exception.
  EXPECT_EQ(journal_.Count("server1 end UNKNOWN"), all.size() * kKinds);
  EXPECT_EQ(journal_.Count("server1 end"), all.size() * kKinds);
  EXPECT_EQ(journal_.Count("server2 end"), all.size() * kKinds);
}

TEST_P(EachFormInterceptorsTest, FactoriesMayHaveNoInterestInACall) {
  options_.interceptors = {NewIdleClientFactory()};
  builder_.AddInterceptor(NewIdleServerFactory());
  Connect();
  for (int kind = 0; kind < kKinds; ++kind) {
    EXPECT_EQ(Call(kind).status, absl::OkStatus());
  }
}

}  // namespace
}  // namespace verbena::end_to_end
