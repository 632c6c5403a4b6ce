// The code of docs/services.md.

#include <memory>
#include <utility>

#include "rpc/load_report.h"
#include "rpc/resolver.h"
#include "rpc/resolvers/dns_resolver.h"
#include "rpc/resolvers/etcd_registration.h"
#include "rpc/resolvers/etcd_resolver.h"
#include "rpc/rpc.h"

namespace {

class MyRegistry : public verbena::ResolverFactory {
 public:
  absl::string_view scheme() const override { return "my-registry"; }
  absl::StatusOr<std::unique_ptr<verbena::Resolver>> Create(
      const verbena::Target& target,
      verbena::Resolver::OnResult on_result) override {
    return absl::UnimplementedError(target.path);
  }
};

std::shared_ptr<verbena::Channel> ByDns() {
  verbena::ChannelOptions options;
  options.resolvers.push_back(verbena::NewDnsResolvers());
  options.service_config = R"({"loadBalancingConfig": [{"round_robin": {}}]})";
  auto channel = verbena::CreateChannel("dns:///orders.example:50051", options);
  return channel;
}

std::shared_ptr<verbena::Channel> ByEtcd() {
  verbena::EtcdOptions etcd;
  etcd.end_points = {"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"};
  verbena::ChannelOptions options;
  options.resolvers.push_back(verbena::NewEtcdResolvers(etcd));
  auto channel = verbena::CreateChannel("etcd:///services/orders", options);
  return channel;
}

absl::Status Register(const verbena::EtcdOptions& etcd) {
  verbena::EtcdAnnouncement announcement;
  announcement.prefix = "services/orders";
  announcement.addresses = {"10.0.0.7:50051"};
  announcement.version = "41";
  auto registration = verbena::EtcdRegistration::Start(announcement, etcd);
  return (*registration)->Withdraw();
}

std::shared_ptr<verbena::Channel> ToOrders() {
  verbena::ChannelOptions options;
  options.resolvers.push_back(std::make_shared<MyRegistry>());
  options.service_config = R"({"loadBalancingConfig": [{"round_robin": {}}]})";
  auto channel = verbena::CreateChannel("my-registry:///orders", options);
  return channel;
}

void TellLoad(verbena::ServerContext* context) {
  verbena::LoadReport load;
  load.cpu_utilization = 0.7;
  load.requests_per_second = 1200;
  verbena::ReportLoad(load, context);
}

}  // namespace
