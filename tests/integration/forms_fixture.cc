#include "tests/integration/forms_fixture.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/child_process.h"

namespace verbena::end_to_end {
namespace {

void Start(ServerBuilder* builder, const ChannelOptions& options,
           std::unique_ptr<Server>* server, std::shared_ptr<Channel>* channel) {
  int port = 0;
  const std::string host = testing_support::TestAddress();
  builder->AddListeningPort(absl::StrCat(host, ":0"), &port);
  absl::StatusOr<std::unique_ptr<Server>> started = builder->BuildAndStart();
  ASSERT_EQ(started.status(), absl::OkStatus());
  *server = *std::move(started);
  *channel = CreateChannel(absl::StrCat(host, ":", port), options);
}

}  // namespace

void FormsTest::Serve(Form form, const ChannelOptions& options) {
  services_ = std::make_unique<FormServices>(form);
  ServerBuilder builder;
  services_->Register(&builder);
  Start(&builder, options, &server_, &channel_);
}

void FormsTest::Serve(const std::vector<Service*>& services,
                      const ChannelOptions& options) {
  ServerBuilder builder;
  for (Service* service : services) builder.RegisterService(service);
  Start(&builder, options, &server_, &channel_);
}

}  // namespace verbena::end_to_end
