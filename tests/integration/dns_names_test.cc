// A channel whose target is a name in DNS.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/resolvers/dns_resolver.h"
#include "rpc/rpc.h"
#include "tests/integration/test_service.h"
#include "tests/testing/dns_server.h"

namespace verbena::end_to_end {
namespace {

using testing_support::Dnsmasq;

// Servers on free ports of 127.0.0.1.
class DnsNamesTest : public ::testing::Test {
 protected:
  int StartServer() {
    int port = 0;
    ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", &port);
    builder.RegisterService(&service_);
    auto server = builder.BuildAndStart();
    EXPECT_TRUE(server.ok()) << server.status();
    servers_.push_back(*std::move(server));
    return port;
  }

  std::shared_ptr<Channel> ChannelTo(const Dnsmasq& dnsmasq,
                                     const std::string& name) {
    ChannelOptions options;
    options.resolvers.push_back(NewDnsResolvers());
    options.service_config =
        R"({"loadBalancingConfig": [{"round_robin": {}}]})";
    return CreateChannel(absl::StrCat("dns://", dnsmasq.address(), "/", name),
                         options);
  }

  // Makes a call. `peer` gets the address of its server.
  static absl::Status Call(const std::shared_ptr<Channel>& channel,
                           std::string* peer) {
    ClientContext context;
    context.set_timeout(absl::Minutes(1));
    EchoRequest request;
    EchoReply reply;
    absl::Status status =
        EndToEnd::NewStub(channel)->Echo(&context, request, &reply);
    *peer = context.peer();
    return status;
  }

  EndToEndService service_;
  std::vector<std::unique_ptr<Server>> servers_;
};

TEST_F(DnsNamesTest, ReachesTheServerOfAName) {
  const int port = StartServer();
  const Dnsmasq dnsmasq({"--host-record=a.example,127.0.0.1"});
  std::string peer;
  EXPECT_EQ(Call(ChannelTo(dnsmasq, absl::StrCat("a.example:", port)), &peer),
            absl::OkStatus());
  EXPECT_EQ(peer, absl::StrCat("127.0.0.1:", port));
}

TEST_F(DnsNamesTest, SpreadsCallsOverTheServersOfSrvRecords) {
  const int first = StartServer();
  const int second = StartServer();
  const Dnsmasq dnsmasq(
      {"--host-record=a.example,127.0.0.1",
       absl::StrCat("--srv-host=_o._tcp.example,a.example,", first),
       absl::StrCat("--srv-host=_o._tcp.example,a.example,", second)});
  const auto channel = ChannelTo(dnsmasq, "_o._tcp.example");
  std::set<std::string> peers;
  while (peers.size() < 2) {
    std::string peer;
    ASSERT_EQ(Call(channel, &peer), absl::OkStatus());
    peers.insert(peer);
  }
  EXPECT_THAT(peers, ::testing::UnorderedElementsAre(
                         absl::StrCat("127.0.0.1:", first),
                         absl::StrCat("127.0.0.1:", second)));
}

TEST_F(DnsNamesTest, EndsCallsWithTheWordsOfTheResolver) {
  const Dnsmasq dnsmasq({"--local=/example/"});
  std::string peer;
  const absl::Status status = Call(ChannelTo(dnsmasq, "b.example:1"), &peer);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("NXDOMAIN"));
}

}  // namespace
}  // namespace verbena::end_to_end
