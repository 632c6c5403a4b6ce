#include "examples/interceptors/logging.h"

#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"

namespace interceptors {
namespace {

using google::protobuf::MessageLite;

// Writes the line in one piece, so that lines of several threads do not mix.
void Log(absl::string_view side, absl::string_view method,
         absl::string_view more, int sent, int received,
         const absl::Status& status) {
  std::cerr << absl::StrCat(side, ": ", method, more, ", ", sent, " sent, ",
                            received, " received: ", status.ToString(), "\n");
}

// The counts need no lock. One thread may send while another one receives, but
// each of them has its own count.
class LoggedCall final : public verbena::ClientInterceptor {
 public:
  explicit LoggedCall(verbena::ClientRpcInfo* info) : info_(*info) {}

  void OnSendMessage(const MessageLite& /*message*/) override { ++sent_; }
  void OnReceiveMessage(MessageLite* /*message*/) override { ++received_; }
  void OnEnd(absl::Status* status) override {
    Log("client", info_.method(), "", sent_, received_, *status);
  }

 private:
  verbena::ClientRpcInfo& info_;
  int sent_ = 0;
  int received_ = 0;
};

class ServedCall final : public verbena::ServerInterceptor {
 public:
  explicit ServedCall(verbena::ServerRpcInfo* info) : info_(*info) {}

  void OnSendMessage(const MessageLite& /*message*/) override { ++sent_; }
  void OnReceiveMessage(MessageLite* /*message*/) override { ++received_; }
  void OnEnd(absl::Status* status) override {
    Log("server", info_.method(), absl::StrCat(" from ", info_.peer()), sent_,
        received_, *status);
  }

 private:
  verbena::ServerRpcInfo& info_;
  int sent_ = 0;
  int received_ = 0;
};

}  // namespace

std::unique_ptr<verbena::ClientInterceptor>
ClientLogging::CreateClientInterceptor(verbena::ClientRpcInfo* info) {
  return std::make_unique<LoggedCall>(info);
}

std::unique_ptr<verbena::ServerInterceptor>
ServerLogging::CreateServerInterceptor(verbena::ServerRpcInfo* info) {
  return std::make_unique<ServedCall>(info);
}

}  // namespace interceptors
