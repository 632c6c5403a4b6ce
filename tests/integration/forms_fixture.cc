#include "tests/integration/forms_fixture.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/child_process.h"
#include "tests/testing/test_tls.h"

namespace verbena::end_to_end {

void FormsTest::Start(ServerBuilder* builder, const ChannelOptions& options) {
  int port = 0;
  const std::string host = testing_support::TestAddress();
  builder->AddListeningPort(absl::StrCat(host, ":0"),
                            testing_support::TestServerCredentials(), &port);
  absl::StatusOr<std::unique_ptr<Server>> started = builder->BuildAndStart();
  ASSERT_EQ(started.status(), absl::OkStatus());
  server_ = *std::move(started);
  channel_ = CreateChannel(absl::StrCat(host, ":", port),
                           testing_support::TestChannelCredentials(), options);
}

void FormsTest::Serve(Form form, const ChannelOptions& options) {
  // The old server may use its services until it is destroyed.
  server_.reset();
  services_ = std::make_unique<FormServices>(form);
  ServerBuilder builder;
  services_->Register(&builder);
  Start(&builder, options);
}

}  // namespace verbena::end_to_end
