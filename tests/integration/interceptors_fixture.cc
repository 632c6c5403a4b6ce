#include "tests/integration/interceptors_fixture.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/integration/streaming_fixture.h"
#include "transport/base/clock.h"

namespace verbena::end_to_end {
namespace {

using google::protobuf::MessageLite;

const char* NameOf(RpcType type) {
  switch (type) {
    case RpcType::kUnary:
      return "unary";
    case RpcType::kClientStreaming:
      return "client";
    case RpcType::kServerStreaming:
      return "server";
    default:
      return "bidi";
  }
}

class ClientRecorder final : public ClientInterceptor {
 public:
  ClientRecorder(ClientRpcInfo* info, Journal* journal, std::string who,
                 const ClientActs& acts)
      : info_(*info), journal_(*journal), who_(std::move(who)), acts_(acts) {}

  absl::Status OnStart() override {
    Note("start ", info_.method(), " ", NameOf(info_.type()));
    return acts_.start == nullptr ? absl::OkStatus()
                                  : acts_.start(info_.client_context());
  }
  void OnSendMessage(const MessageLite& message) override {
    Note("send ", message.GetTypeName());
    if (acts_.send != nullptr) acts_.send();
  }
  void OnReceiveInitialMetadata(const Metadata& metadata) override {
    Note("initial ", metadata.begin()->first);
  }
  void OnReceiveMessage(MessageLite* message) override {
    Note("receive ", message->GetTypeName());
    if (acts_.receive != nullptr) {
      acts_.receive(info_.client_context(), message);
    }
  }
  void OnEnd(absl::Status* status) override {
    if (acts_.end != nullptr) acts_.end(info_.client_context(), status);
    Note("end ", absl::StatusCodeToString(status->code()));
  }

 private:
  template <typename... Words>
  void Note(const Words&... words) {
    journal_.Add(absl::StrCat(who_, " ", words...));
  }

  ClientRpcInfo& info_;
  Journal& journal_;
  const std::string who_;
  const ClientActs& acts_;
};

class ServerRecorder final : public ServerInterceptor {
 public:
  ServerRecorder(ServerRpcInfo* info, Journal* journal, std::string who,
                 const ServerActs& acts)
      : info_(*info), journal_(*journal), who_(std::move(who)), acts_(acts) {}

  absl::Status OnStart() override {
    Note("start ", info_.method(), " ", NameOf(info_.type()),
         info_.peer().empty() ? " from nowhere" : "");
    return acts_.start == nullptr ? absl::OkStatus()
                                  : acts_.start(info_.server_context());
  }
  void OnReceiveMessage(MessageLite* message) override {
    Note("receive ", message->GetTypeName());
    if (acts_.receive != nullptr) {
      acts_.receive(info_.server_context(), message);
    }
  }
  void OnSendMessage(const MessageLite& message) override {
    Note("send ", message.GetTypeName());
    if (acts_.send != nullptr) acts_.send();
  }
  void OnEnd(absl::Status* status) override {
    // Recorded first, because the act may throw.
    Note("end ", absl::StatusCodeToString(status->code()));
    if (acts_.end != nullptr) acts_.end(info_.server_context(), status);
  }

 private:
  template <typename... Words>
  void Note(const Words&... words) {
    journal_.Add(absl::StrCat(who_, " ", words...));
  }

  ServerRpcInfo& info_;
  Journal& journal_;
  const std::string who_;
  const ServerActs& acts_;
};

class ClientRecorders final : public ClientInterceptorFactory {
 public:
  ClientRecorders(Journal* journal, std::string who, ClientActs acts)
      : journal_(journal), who_(std::move(who)), acts_(std::move(acts)) {}
  std::unique_ptr<ClientInterceptor> CreateClientInterceptor(
      ClientRpcInfo* info) override {
    return std::make_unique<ClientRecorder>(info, journal_, who_, acts_);
  }

 private:
  Journal* const journal_;
  const std::string who_;
  const ClientActs acts_;
};

class ServerRecorders final : public ServerInterceptorFactory {
 public:
  ServerRecorders(Journal* journal, std::string who, ServerActs acts)
      : journal_(journal), who_(std::move(who)), acts_(std::move(acts)) {}
  std::unique_ptr<ServerInterceptor> CreateServerInterceptor(
      ServerRpcInfo* info) override {
    return std::make_unique<ServerRecorder>(info, journal_, who_, acts_);
  }

 private:
  Journal* const journal_;
  const std::string who_;
  const ServerActs acts_;
};

class IdleClientFactory final : public ClientInterceptorFactory {
  std::unique_ptr<ClientInterceptor> CreateClientInterceptor(
      ClientRpcInfo* /*info*/) override {
    return nullptr;
  }
};

class IdleServerFactory final : public ServerInterceptorFactory {
  std::unique_ptr<ServerInterceptor> CreateServerInterceptor(
      ServerRpcInfo* /*info*/) override {
    return nullptr;
  }
};

}  // namespace

void Journal::Add(const std::string& line) {
  const base::MutexLock lock(mutex_);
  lines_.push_back(line);
  changed_.NotifyAll();
}

std::vector<std::string> Journal::Of(const std::string& who) {
  const base::MutexLock lock(mutex_);
  std::vector<std::string> found;
  for (const std::string& line : lines_) {
    if (absl::StartsWith(line, who)) found.push_back(line);
  }
  return found;
}

void Journal::Await(const std::string& beginning, size_t count) {
  const absl::Time last = base::Now() + absl::Minutes(2);
  while (Count(beginning) < count) {
    const base::MutexLock lock(mutex_);
    // Looks again soon: it may have been added before this waits.
    changed_.WaitUntil(mutex_, base::Now() + absl::Milliseconds(10));
    ASSERT_LT(base::Now(), last) << "no " << beginning;
  }
}

std::shared_ptr<ClientInterceptorFactory> NewClientRecorder(Journal* journal,
                                                            std::string who,
                                                            ClientActs acts) {
  return std::make_shared<ClientRecorders>(journal, std::move(who),
                                           std::move(acts));
}

std::shared_ptr<ServerInterceptorFactory> NewServerRecorder(Journal* journal,
                                                            std::string who,
                                                            ServerActs acts) {
  return std::make_shared<ServerRecorders>(journal, std::move(who),
                                           std::move(acts));
}

std::shared_ptr<ClientInterceptorFactory> NewIdleClientFactory() {
  return std::make_shared<IdleClientFactory>();
}

std::shared_ptr<ServerInterceptorFactory> NewIdleServerFactory() {
  return std::make_shared<IdleServerFactory>();
}

void InterceptorsTest::Clear() {
  options_ = ChannelOptions();
  builder_ = ServerBuilder();
  clients_ = 0;
  servers_ = 0;
}

void InterceptorsTest::Connect(Form client, Form server) {
  // The old server may use its services until it is destroyed.
  server_.reset();
  services_ = std::make_unique<FormServices>(server);
  services_->Register(&builder_);
  Start(&builder_, options_);
  client_ = FormClient::New(client, channel_);
}

CallOutcome InterceptorsTest::Call(int kind, ClientContext* context,
                                   int messages) {
  std::vector<Item> items;
  for (int i = 0; i < messages; ++i) {
    items.push_back(NewItem(i, payload_bytes_));
  }
  switch (kind) {
    case 0: {
      EchoRequest request;
      request.set_payload("ask");
      CallOutcome outcome;
      outcome.status = client_->Echo(context, request, &reply_);
      return outcome;
    }
    case 1: {
      ListRequest request;
      request.set_count(messages);
      request.set_payload_bytes(payload_bytes_);
      return client_->List(context, request);
    }
    case 2:
      return client_->Record(context, items, "");
    default:
      return client_->Chat(context, items, "");
  }
}

void InterceptorsTest::ExpectOneEndEach(const std::string& who) {
  journal_.Await(who + " end", 1);
  EXPECT_EQ(journal_.Count(who + " start"), 1u) << who;
  EXPECT_EQ(journal_.Count(who + " end"), 1u) << who;
  const std::vector<std::string> lines = journal_.Of(who);
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(absl::StartsWith(lines.back(), who + " end")) << lines.back();
}

}  // namespace verbena::end_to_end
