// Clients and services that do the same in each of the three forms: blocking,
// with reactors, and as coroutines.

#ifndef VERBENA_TESTS_INTEGRATION_FORMS_FIXTURE_H_
#define VERBENA_TESTS_INTEGRATION_FORMS_FIXTURE_H_

#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/integration/test_service.verbena.h"

namespace verbena::end_to_end {

enum class Form { kBlocking, kReactor, kCoroutine };
inline constexpr std::array kForms = {Form::kBlocking, Form::kReactor,
                                      Form::kCoroutine};
std::string NameOf(Form form);

// The form of the client and that of the server, for tests that run with each
// form of both:
//
//   INSTANTIATE_TEST_SUITE_P(Forms, SomeTest, EachFormOfBoth(), NameOfBoth);
using FormOfBoth = std::tuple<Form, Form>;
inline auto EachFormOfBoth() {
  return testing::Combine(testing::ValuesIn(kForms), testing::ValuesIn(kForms));
}
inline std::string NameOfBoth(const testing::TestParamInfo<FormOfBoth>& info) {
  return absl::StrCat(NameOf(std::get<0>(info.param)), "Calls",
                      NameOf(std::get<1>(info.param)));
}

// The result of a call.
struct CallOutcome {
  absl::Status status;
  std::vector<Item> items;               // Messages that were read.
  std::vector<std::string> attachments;  // Their attachments.
  Summary summary;                       // Reply of a Record.
};

// Makes the calls of one form, and waits for their end.
class FormClient {
 public:
  explicit FormClient(const std::shared_ptr<Channel>& channel)
      : inline_stub_(Inline::NewStub(channel)),
        stub_(StreamService::NewStub(channel)) {}
  virtual ~FormClient() = default;

  static std::unique_ptr<FormClient> New(
      Form form, const std::shared_ptr<Channel>& channel);

  virtual absl::Status Echo(ClientContext* context, const EchoRequest& request,
                            EchoReply* reply) = 0;
  virtual CallOutcome List(ClientContext* context,
                           const ListRequest& request) = 0;
  // Writes all items, each with this attachment.
  virtual CallOutcome Record(ClientContext* context,
                             const std::vector<Item>& items,
                             const std::string& attachment) = 0;
  // Writes an item, reads the answer, and so on.
  virtual CallOutcome Chat(ClientContext* context,
                           const std::vector<Item>& items,
                           const std::string& attachment) = 0;

 protected:
  Inline::Stub& inline_stub() { return *inline_stub_; }
  StreamService::Stub& stub() { return *stub_; }

 private:
  const std::unique_ptr<Inline::Stub> inline_stub_;
  const std::unique_ptr<StreamService::Stub> stub_;
};

// Inline and StreamService in one form; they do what InlineService::Echo() and
// TestStreams do. A Chat whose first item is 13 ends with ABORTED, "unlucky".
class FormServices {
 public:
  explicit FormServices(Form form);
  void Register(ServerBuilder* builder);

 private:
  std::unique_ptr<Service> inline_;
  std::unique_ptr<Service> streams_;
};

// A server with the services of one form, and a channel to it.
class FormsTest : public ::testing::Test {
 protected:
  void Serve(Form form, const ChannelOptions& options = ChannelOptions());
  // A server with this service. The service lives as long.
  template <typename OwnService, typename... Arguments>
  OwnService& Serve(Arguments&&... arguments) {
    server_.reset();
    auto service = std::make_unique<OwnService>(arguments...);
    OwnService& served = *service;
    own_service_ = std::move(service);
    ServerBuilder builder;
    builder.RegisterService(own_service_.get());
    Start(&builder, ChannelOptions());
    return served;
  }
  void Start(ServerBuilder* builder, const ChannelOptions& options);

  std::unique_ptr<FormServices> services_;
  std::unique_ptr<Service> own_service_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<Channel> channel_;
};

}  // namespace verbena::end_to_end

#endif  // VERBENA_TESTS_INTEGRATION_FORMS_FIXTURE_H_
