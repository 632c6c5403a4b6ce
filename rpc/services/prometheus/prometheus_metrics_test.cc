#include "rpc/services/prometheus/prometheus_metrics.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.verbena.h"
#include "gtest/gtest.h"
#include "rpc/metrics.h"
#include "rpc/rpc.h"
#include "rpc/services/health_service.h"

namespace verbena {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Labels = std::vector<ClientMetric::Label>;

constexpr char kCheck[] = "grpc.health.v1.Health/Check";

// A server of the health service.
class HealthServer {
 public:
  HealthServer(PrometheusMetrics* metrics, const std::string& name) {
    ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", &port_);
    builder.SetDevice("soft");
    builder.RegisterService(&health_);
    metrics->AddServer(&builder, name);
    auto server = builder.BuildAndStart();
    EXPECT_EQ(server.status(), absl::OkStatus());
    server_ = *std::move(server);
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  std::shared_ptr<Channel> NewChannel() const {
    ChannelOptions options;
    options.device = "soft";
    return CreateChannel(address(), options);
  }

 private:
  HealthService health_;
  int port_ = 0;
  std::unique_ptr<Server> server_;
};

absl::Status Check(const std::shared_ptr<Channel>& channel,
                   const std::string& service) {
  ClientContext context;
  context.set_timeout(absl::Minutes(2));
  HealthCheckRequest request;
  HealthCheckResponse response;
  request.set_service(service);
  return Health::NewStub(channel)->Check(&context, request, &response);
}

// The one of those labels; nothing if there is none.
std::optional<ClientMetric> Find(const PrometheusMetrics& metrics,
                                 const std::string& name,
                                 const Labels& labels) {
  for (const MetricFamily& family : metrics.Collect()) {
    if (family.name != name) continue;
    for (const ClientMetric& metric : family.metric) {
      if (metric.label == labels) return metric;
    }
  }
  return std::nullopt;
}

double Count(const PrometheusMetrics& metrics, const std::string& name,
             const Labels& labels) {
  const auto found = Find(metrics, name, labels);
  return found.has_value() ? found->counter.value : -1;
}

TEST(PrometheusMetricsTest, CallsAreExportedByMethodAndCodeOfBothSides) {
  PrometheusMetrics metrics;
  const HealthServer server(&metrics, "shop");
  const auto channel = server.NewChannel();
  metrics.AddChannel(channel);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Check(channel, ""), absl::OkStatus());
  EXPECT_EQ(Check(channel, "none").code(), absl::StatusCode::kNotFound);
  for (const auto& [side, owner] :
       {std::pair(std::string("verbena_server_"),
                  ClientMetric::Label{"server", "shop"}),
        std::pair(std::string("verbena_client_"),
                  ClientMetric::Label{"channel", server.address()})}) {
    const Labels check = {owner, {"method", kCheck}};
    EXPECT_EQ(Count(metrics, side + "calls_started_total", check), 4);
    EXPECT_EQ(Count(metrics, side + "calls_ended_total",
                    {owner, {"method", kCheck}, {"code", "OK"}}),
              3);
    EXPECT_EQ(Count(metrics, side + "calls_ended_total",
                    {owner, {"method", kCheck}, {"code", "NOT_FOUND"}}),
              1);
    EXPECT_EQ(Find(metrics, side + "open_calls", check)->gauge.value, 0);
  }
}

TEST(PrometheusMetricsTest, BucketsOfLatenciesAreThoseThatWereCountedAddedUp) {
  PrometheusMetrics metrics;
  const HealthServer server(&metrics, "shop");
  const auto channel = server.NewChannel();
  metrics.AddChannel(channel, "mine");
  for (int i = 0; i < 10; ++i) ASSERT_EQ(Check(channel, ""), absl::OkStatus());
  const auto found = Find(metrics, "verbena_client_call_duration_seconds",
                          {{"channel", "mine"}, {"method", kCheck}});
  ASSERT_TRUE(found.has_value());
  const ClientMetric::Histogram& histogram = found->histogram;
  const ChannelMetrics counted = channel->GetMetrics();
  ASSERT_EQ(counted.methods.size(), 1u);
  const LatencyMetrics& latency = counted.methods[0].latency;
  // The last bucket has no end, and is not among them.
  ASSERT_EQ(histogram.bucket.size(), LatencyMetrics::kBuckets - 1);
  uint64_t sum = 0;
  for (size_t i = 0; i < histogram.bucket.size(); ++i) {
    sum += latency.counts[i];
    EXPECT_EQ(histogram.bucket[i].cumulative_count, sum) << i;
    EXPECT_EQ(histogram.bucket[i].upper_bound,
              LatencyMetrics::UpperBoundSeconds(i));
  }
  EXPECT_EQ(histogram.sample_count, 10u);
  EXPECT_EQ(sum + latency.counts.back(), 10u);
  EXPECT_GT(histogram.sample_sum, 0);
  EXPECT_EQ(histogram.sample_sum, latency.sum_seconds);
}

TEST(PrometheusMetricsTest, ConnectionsAndMemoryAreExportedByDevice) {
  PrometheusMetrics metrics;
  const HealthServer server(&metrics, "shop");
  const auto channel = server.NewChannel();
  ASSERT_EQ(Check(channel, ""), absl::OkStatus());
  const Labels device = {{"server", "shop"}, {"device", "soft"}};
  EXPECT_EQ(Count(metrics, "verbena_server_connections_begun_total", device),
            1);
  const Labels open = {
      {"server", "shop"}, {"device", "soft"}, {"state", "open"}};
  EXPECT_EQ(Find(metrics, "verbena_server_connections", open)->gauge.value, 1);
  EXPECT_GT(Count(metrics, "verbena_client_polls_total", {}), 0);
}

TEST(PrometheusMetricsTest, TwoOfOneNameAreToldApart) {
  PrometheusMetrics metrics;
  const HealthServer one(&metrics, "shop");
  const HealthServer other(&metrics, "shop");
  ASSERT_EQ(Check(other.NewChannel(), ""), absl::OkStatus());
  EXPECT_EQ(Count(metrics, "verbena_server_calls_started_total",
                  {{"server", "shop"}, {"method", kCheck}}),
            0);
  EXPECT_EQ(Count(metrics, "verbena_server_calls_started_total",
                  {{"server", "shop#2"}, {"method", kCheck}}),
            1);
}

TEST(PrometheusMetricsTest, WhatIsGoneIsNotExported) {
  PrometheusMetrics metrics;
  auto server = std::make_unique<HealthServer>(&metrics, "shop");
  auto channel = server->NewChannel();
  metrics.AddChannel(channel, "mine");
  const Labels of_server = {{"server", "shop"}};
  const Labels of_channel = {{"channel", "mine"}, {"device", "soft"}};
  EXPECT_TRUE(Find(metrics, "verbena_server_workers", of_server).has_value());
  EXPECT_FALSE(Find(metrics, "verbena_client_connected", of_channel));
  EXPECT_EQ(Check(channel, ""), absl::OkStatus());
  EXPECT_TRUE(Find(metrics, "verbena_client_connected", of_channel));
  server.reset();
  metrics.RemoveChannel(channel);
  EXPECT_FALSE(Find(metrics, "verbena_server_workers", of_server).has_value());
  EXPECT_FALSE(Find(metrics, "verbena_client_connected", of_channel));
}

TEST(PrometheusMetricsTest, AServerMayOutliveWhatExportsItAndKeepsNoChannel) {
  auto metrics = std::make_unique<PrometheusMetrics>();
  const HealthServer server(metrics.get(), "shop");
  std::shared_ptr<Channel> channel = server.NewChannel();
  metrics->AddChannel(channel);
  EXPECT_EQ(channel.use_count(), 2);
  metrics.reset();
  EXPECT_EQ(channel.use_count(), 1);
  EXPECT_EQ(Check(channel, ""), absl::OkStatus());
}

// When the last reference to a channel is dropped, its callbacks have returned.
// A collection that runs at the time must not change that.
TEST(PrometheusMetricsTest, AChannelThatWasRemovedEndsWhereItIsDropped) {
  PrometheusMetrics metrics;
  const HealthServer server(&metrics, "shop");
  std::atomic<bool> over = false;
  std::thread scraper([&] {
    while (!over) metrics.Collect();
  });
  int missed = 0;
  for (int i = 0; i < 500; ++i) {
    auto channel = server.NewChannel();
    metrics.AddChannel(channel);
    ClientContext context;
    HealthCheckRequest request;
    HealthCheckResponse response;
    std::atomic<bool> ended = false;
    Health::NewStub(channel)->async()->Check(
        &context, &request, &response,
        [&ended](const absl::Status& /*status*/) { ended = true; });
    metrics.RemoveChannel(channel);
    channel.reset();
    missed += ended ? 0 : 1;
    // Whatever it was, `ended` has to stay.
    while (!ended) std::this_thread::yield();
  }
  over = true;
  scraper.join();
  EXPECT_EQ(missed, 0);
}

TEST(PrometheusMetricsTest, NoFamilyOrSeriesComesTwice) {
  PrometheusMetrics metrics;
  const HealthServer one(&metrics, "shop");
  const HealthServer other(&metrics, "shop");
  const auto channel = one.NewChannel();
  metrics.AddChannel(channel);
  metrics.AddChannel(one.NewChannel());
  ASSERT_EQ(Check(channel, ""), absl::OkStatus());
  std::set<std::string> names;
  for (const MetricFamily& family : metrics.Collect()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_EQ(absl::EndsWith(family.name, "_total"),
              family.type == MetricType::Counter)
        << family.name;
    std::set<Labels> series;
    for (const ClientMetric& metric : family.metric) {
      EXPECT_TRUE(series.insert(metric.label).second) << family.name;
    }
  }
  EXPECT_GT(names.size(), 40u);
}

}  // namespace
}  // namespace verbena
