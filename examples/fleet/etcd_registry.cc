// Servers announce themselves in etcd, and channels know the scheme "etcd".

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/time/time.h"
#include "examples/fleet/registry.h"
#include "rpc/resolvers/etcd_registration.h"
#include "rpc/resolvers/etcd_resolver.h"

ABSL_FLAG(std::vector<std::string>, etcd, {"127.0.0.1:2379"},
          "the end points of etcd");
ABSL_FLAG(std::string, prefix, "fleet",
          "where a server is in etcd; the target is etcd:///PREFIX");

namespace fleet {
namespace {

verbena::EtcdOptions Options() {
  verbena::EtcdOptions options;
  options.end_points = absl::GetFlag(FLAGS_etcd);
  return options;
}

}  // namespace

// A server serves even if etcd is away: it is registered when etcd comes back.
std::shared_ptr<void> Announce(const std::string& address) {
  verbena::EtcdAnnouncement announcement;
  announcement.prefix = absl::GetFlag(FLAGS_prefix);
  announcement.addresses = {address};
  announcement.ttl = absl::Seconds(2);
  auto registration = verbena::EtcdRegistration::Start(announcement, Options());
  if (!registration.ok()) {
    std::cerr << "cannot register: " << registration.status() << std::endl;
    return nullptr;
  }
  const absl::Status status = (*registration)->Await(absl::Seconds(5));
  if (!status.ok()) {
    std::cerr << "not registered yet: " << status << std::endl;
  }
  return *std::move(registration);
}

void AddResolvers(verbena::ChannelOptions& options) {
  options.resolvers.push_back(verbena::NewEtcdResolvers(Options()));
}

}  // namespace fleet
