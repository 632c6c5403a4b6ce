// A Peer that is written once for both libraries. The type `Side` is GrpcSide
// or VerbenaSide, which have equal names for their library's parts.

#ifndef VERBENA_TESTS_DIFFERENTIAL_SCRIPTED_PEER_H_
#define VERBENA_TESTS_DIFFERENTIAL_SCRIPTED_PEER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/differential/peer.h"
#include "tests/differential/schedule.h"
#include "tests/differential/script.h"
#include "tests/differential/scripted.pb.h"
#include "transport/base/mutex.h"

namespace verbena::differential {

// The first value of a key in the metadata of either library.
template <typename Metadata>
std::string ValueOf(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return "-";
  return std::string(found->second.data(), found->second.size());
}

// Which script the handlers follow. A call of an earlier schedule may come
// late, and is none of it.
class Stage {
 public:
  void Set(Script* script) {
    const base::MutexLock lock(mutex_);
    script_ = script;
  }

  // Has a handler do its part.
  template <typename Side>
  typename Side::Status Follow(typename Side::ServerContext* context,
                               const Request* request, Reply* reply) {
    Script* script = nullptr;
    std::pair<const Act*, size_t> part;
    {
      const base::MutexLock lock(mutex_);
      if (script_ == nullptr || script_->schedule().id != request->schedule()) {
        return Side::NewStatus(absl::StatusCode::kCancelled);
      }
      script = script_;
      part = script->Begin(
          request->call(),
          ValueOf(context->client_metadata(), "grpc-previous-rpc-attempts"));
    }
    const absl::StatusCode code =
        Play<Side>(context, *part.first, part.second, script, reply);
    script->End();
    return Side::NewStatus(code);
  }

 private:
  template <typename Side>
  static absl::StatusCode Play(typename Side::ServerContext* context,
                               const Act& act, size_t number, Script* script,
                               Reply* reply) {
    if (act.kind == Act::Kind::kDie) script->WantDeath();
    if (act.kind != Act::Kind::kAnswer) {
      while (!context->IsCancelled()) {
        script->Pause();
      }
      return absl::StatusCode::kCancelled;
    }
    if (act.sends_initial_metadata) {
      context->AddInitialMetadata("initial-of", absl::StrCat(number));
    }
    context->AddTrailingMetadata("trailing-of", absl::StrCat(number));
    for (const std::string& pushback : act.pushbacks) {
      context->AddTrailingMetadata("grpc-retry-pushback-ms", pushback);
    }
    reply->set_payload(std::string(act.reply_bytes, 'r'));
    return act.code;
  }

  base::Mutex mutex_;
  Script* script_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

template <typename Side>
class FirstService final : public Side::First::Service {
 public:
  explicit FirstService(Stage* stage) : stage_(*stage) {}
  typename Side::Status Get(typename Side::ServerContext* context,
                            const Request* request, Reply* reply) override {
    return stage_.Follow<Side>(context, request, reply);
  }
  typename Side::Status Put(typename Side::ServerContext* context,
                            const Request* request, Reply* reply) override {
    return stage_.Follow<Side>(context, request, reply);
  }

 private:
  Stage& stage_;
};

template <typename Side>
class SecondService final : public Side::Second::Service {
 public:
  explicit SecondService(Stage* stage) : stage_(*stage) {}
  typename Side::Status Get(typename Side::ServerContext* context,
                            const Request* request, Reply* reply) override {
    return stage_.Follow<Side>(context, request, reply);
  }

 private:
  Stage& stage_;
};

template <typename Side>
class ScriptedPeer final : public Peer {
 public:
  ScriptedPeer() { server_ = NewServer(); }

  Outcome Run(const Schedule& schedule) override {
    Script script(schedule);
    stage_.Set(&script);
    std::thread deaths([&] {
      while (script.AwaitDeath()) Restart();
    });
    const auto channel = Side::NewChannel(port_, schedule.config);
    const auto first = Side::First::NewStub(channel);
    const auto second = Side::Second::NewStub(channel);
    Outcome outcome;
    for (size_t i = 0; i < schedule.calls.size(); ++i) {
      const bool away = schedule.calls[i].server_is_away;
      if (away) {
        server_.reset();
        // Else it is chance whether the call goes to the lost connection.
        while (Side::IsReady(*channel)) std::this_thread::yield();
      }
      const std::string result = Make(schedule, i, *first, *second);
      if (away) server_ = NewServer();
      outcome.push_back(
          absl::StrCat("attempts ", script.Attempts(i), "; ", result));
    }
    script.SetOver();
    deaths.join();
    stage_.Set(nullptr);
    script.AwaitIdle();
    return outcome;
  }

 private:
  // Server with services of its own.
  struct Server {
    explicit Server(Stage* stage) : first(stage), second(stage) {}
    FirstService<Side> first;
    SecondService<Side> second;
    std::unique_ptr<typename Side::Server> server;
  };

  std::unique_ptr<Server> NewServer() {
    auto server = std::make_unique<Server>(&stage_);
    server->server = Side::NewServer(&server->first, &server->second, &port_);
    return server;
  }
  // The new one is there first if the library can do so.
  void Restart() {
    std::unique_ptr<Server> next;
    if (Side::kSharesPorts) next = NewServer();
    Side::Kill(server_->server.get());
    server_.reset();
    server_ = next != nullptr ? std::move(next) : NewServer();
  }

  static std::string Make(const Schedule& schedule, size_t number,
                          typename Side::First::Stub& first,
                          typename Side::Second::Stub& second) {
    const Call& call = schedule.calls[number];
    typename Side::ClientContext context;
    Side::SetTimeout(&context, call.timeout);
    if (call.wait_for_ready.has_value()) {
      context.set_wait_for_ready(*call.wait_for_ready);
    }
    Request request;
    request.set_schedule(schedule.id);
    request.set_call(static_cast<uint32_t>(number));
    request.set_payload(std::string(call.request_bytes, 'q'));
    Reply reply;
    const typename Side::Status status =
        call.method == Method::kSecondGet
            ? second.Get(&context, request, &reply)
        : call.method == Method::kFirstGet
            ? first.Get(&context, request, &reply)
            : first.Put(&context, request, &reply);
    return absl::StrCat(
        absl::StatusCodeToString(Side::CodeOf(status)), ", ",
        status.ok() ? reply.payload().size() : 0, " bytes, initial metadata ",
        ValueOf(context.GetServerInitialMetadata(), "initial-of"),
        ", trailing ",
        ValueOf(context.GetServerTrailingMetadata(), "trailing-of"));
  }

  Stage stage_;
  int port_ = 0;
  std::unique_ptr<Server> server_;
};

}  // namespace verbena::differential

#endif  // VERBENA_TESTS_DIFFERENTIAL_SCRIPTED_PEER_H_
