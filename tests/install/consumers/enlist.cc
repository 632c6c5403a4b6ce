// Without etcd a server registers nowhere, and a client finds nobody. Neither
// waits for long.

#include <iostream>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "verbena/byte_message.h"
#include "verbena/generic_stub.h"
#include "verbena/logging.h"
#include "verbena/resolvers/etcd_registration.h"
#include "verbena/resolvers/etcd_resolver.h"
#include "verbena/rpc.h"

int main() {
  // The log says that etcd is away, too.
  verbena::SetLogSink([](const verbena::LogEntry&) {});
  verbena::EtcdOptions etcd;
  etcd.end_points = {"127.0.0.1:1"};
  verbena::EtcdAnnouncement announcement;
  announcement.prefix = "orders";
  announcement.addresses = {"127.0.0.1:50051"};
  auto registration = verbena::EtcdRegistration::Start(announcement, etcd);
  if (!registration.ok()) return 1;
  const absl::Status status = (*registration)->Await(absl::Milliseconds(100));
  std::cout << absl::StatusCodeToString(status.code()) << std::endl;

  verbena::ChannelOptions options;
  options.resolvers.push_back(verbena::NewEtcdResolvers(etcd));
  const auto channel = verbena::CreateChannel("etcd:///orders", options);
  verbena::GenericStub stub(channel);
  verbena::ClientContext context;
  verbena::ByteMessage request;
  verbena::ByteMessage response;
  const absl::Status called =
      stub.UnaryCall(&context, "orders.Orders/Find", request, &response);
  std::cout << absl::StatusCodeToString(called.code()) << std::endl;
  return 0;
}
