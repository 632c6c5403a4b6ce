#include "rpc/services/admin/snapshot.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace verbena::internal {
namespace {

using admin::AdminSnapshot;

MethodMetrics SomeMethod() {
  MethodMetrics method;
  method.name = "a.B/C";
  method.started = 10;
  method.ended[0] = 6;
  method.ended[static_cast<size_t>(absl::StatusCode::kNotFound)] = 1;
  method.latency.counts[3] = 7;
  return method;
}

TEST(Snapshot, HasTheMethods) {
  SnapshotSources sources;
  sources.metrics.methods.push_back(SomeMethod());
  const AdminSnapshot snapshot = MakeSnapshot(sources);
  ASSERT_EQ(snapshot.methods_size(), 1);
  const AdminSnapshot::Method& method = snapshot.methods(0);
  EXPECT_EQ(method.name(), "a.B/C");
  EXPECT_EQ(method.started(), 10);
  EXPECT_EQ(method.open(), 3);
  ASSERT_EQ(method.ended_size(), 2);
  EXPECT_EQ(method.ended().at("OK"), 6);
  EXPECT_EQ(method.ended().at("NOT_FOUND"), 1);
  EXPECT_EQ(method.latency_counts(3), 7);
  // The last bucket has no end.
  EXPECT_EQ(method.latency_counts_size(), snapshot.latency_bounds_s_size() + 1);
}

TEST(Snapshot, SaysHowNearTheLimitsAre) {
  SnapshotSources sources;
  sources.metrics.methods.push_back(SomeMethod());
  MethodMetrics stream = SomeMethod();
  stream.streams = true;
  sources.metrics.methods.push_back(stream);
  sources.metrics.workers = 5;
  sources.metrics.idle_workers = 1;
  sources.metrics.queued_calls = 17;
  sources.metrics.queue_refusals = 2;
  sources.status.limits = {20, 4, 256, 8, 4096, 1 << 20};
  const AdminSnapshot snapshot = MakeSnapshot(sources);
  std::string text;
  for (const AdminSnapshot::Limit& limit : snapshot.limits()) {
    text += std::to_string(static_cast<int>(limit.used())) + "/" +
            std::to_string(static_cast<int>(limit.most())) + " ";
  }
  EXPECT_EQ(text, "6/20 3/4 0/256 4/8 17/4096 0/1048576 ");
  EXPECT_EQ(snapshot.limits(4).refused(), 2);
}

TEST(Snapshot, HasWhatIsOpenAndWhatWasSlow) {
  SnapshotSources sources;
  sources.now = absl::FromUnixMillis(5000);
  sources.started = absl::FromUnixMillis(2000);
  sources.status.open_calls.push_back({"a.B/C", "10.0.0.1:2", "busy", {}});
  sources.status.open_calls.push_back(
      {"a.B/D", "10.0.0.1:2", "busy", absl::Seconds(3)});
  sources.status.open_call_count = 2;
  sources.status.slow_calls.push_back({"a.B/C", "10.0.0.1:2",
                                       absl::StatusCode::kAborted,
                                       absl::Seconds(2), absl::Seconds(1)});
  const AdminSnapshot snapshot = MakeSnapshot(sources);
  EXPECT_EQ(snapshot.uptime_s(), 3);
  EXPECT_FALSE(snapshot.open_calls(0).has_age_s());
  EXPECT_EQ(snapshot.open_calls(1).age_s(), 3);
  EXPECT_EQ(snapshot.slow_calls(0).code(), "ABORTED");
  EXPECT_EQ(snapshot.slow_calls(0).latency_s(), 2);
  EXPECT_EQ(snapshot.slow_calls(0).ended_ms(), 4000);
}

TEST(Snapshot, HasTheLogIfThereIsOne) {
  SnapshotSources sources;
  EXPECT_FALSE(MakeSnapshot(sources).log_is_kept());
  const auto log = std::make_shared<LogTail>();
  log->Sink([](const LogEntry&) {})(
      {LogSeverity::kWarning, absl::FromUnixMillis(7), "is full"});
  sources.log = log.get();
  const AdminSnapshot snapshot = MakeSnapshot(sources);
  EXPECT_TRUE(snapshot.log_is_kept());
  ASSERT_EQ(snapshot.log_size(), 1);
  EXPECT_EQ(snapshot.log(0).text(), "is full");
  EXPECT_EQ(snapshot.log(0).time_ms(), 7);
  EXPECT_TRUE(snapshot.log(0).warning());
}

TEST(Snapshot, HasTheChannelsAndTheirServers) {
  SnapshotSources sources;
  AdminChannels::Entry channel;
  channel.name = "orders";
  channel.state = ChannelState::kReady;
  channel.metrics.target = "dns:///orders:1";
  channel.metrics.device = "rxe0";
  channel.metrics.fabric = "rdma";
  channel.metrics.fabric_reason = "it connected";
  channel.metrics.paths = 2;
  channel.metrics.connects = 3;
  channel.metrics.failed_connects = 4;
  channel.metrics.retries = 5;
  channel.metrics.servers.push_back({.address = "10.0.0.1:2",
                                     .load_weight = 2.5,
                                     .ejected = true,
                                     .calls = 7,
                                     .open_calls = 1,
                                     .state = ChannelState::kReady,
                                     .connected = true,
                                     .device = "rxe0",
                                     .fabric = "rdma"});
  channel.metrics.servers.push_back({.address = "10.0.0.2:2",
                                     .weight = 3,
                                     .healthy = false,
                                     .state = ChannelState::kTransientFailure,
                                     .error = "refused\n"});
  sources.channels = {{channel}, 9};
  const AdminSnapshot snapshot = MakeSnapshot(sources);
  EXPECT_EQ(snapshot.channel_count(), 9);
  ASSERT_EQ(snapshot.channels_size(), 1);
  EXPECT_EQ(snapshot.channels(0).ShortDebugString(),
            "name: \"orders\" target: \"dns:///orders:1\" state: \"READY\" "
            "device: \"rxe0\" fabric: \"rdma\" "
            "fabric_reason: \"it connected\" paths: 2 connects: 3 "
            "failed_connects: 4 retries: 5 "
            "servers { address: \"10.0.0.1:2\" state: \"READY\" "
            "connected: true healthy: true ejected: true weight: 1 "
            "load_weight: 2.5 calls: 7 open_calls: 1 device: \"rxe0\" "
            "fabric: \"rdma\" } "
            "servers { address: \"10.0.0.2:2\" state: \"TRANSIENT_FAILURE\" "
            "weight: 3 error: \"refused?\" } server_count: 2");
}

TEST(Snapshot, ListsSoManyServersAndCountsTheRest) {
  SnapshotSources sources;
  AdminChannels::Entry channel;
  channel.metrics.servers.resize(kMostListedServers - 1);
  sources.channels = {{channel, channel, channel}, 3};
  const AdminSnapshot snapshot = MakeSnapshot(sources);
  ASSERT_EQ(snapshot.channels_size(), 3);
  EXPECT_EQ(snapshot.channels(0).servers_size(), kMostListedServers - 1);
  EXPECT_EQ(snapshot.channels(1).servers_size(), 1);
  EXPECT_EQ(snapshot.channels(2).servers_size(), 0);
  EXPECT_EQ(snapshot.channels(2).server_count(), kMostListedServers - 1);
}

TEST(Snapshot, IsJsonWhateverNamesThereAre) {
  SnapshotSources sources;
  MethodMetrics method;
  method.name = "\"</script>\\\xff\n\x01";
  sources.metrics.methods.push_back(method);
  const std::string json = ToJson(MakeSnapshot(sources));
  AdminSnapshot read;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &read).ok())
      << json;
  EXPECT_EQ(read.methods(0).name(), "\"</script>\\???");
  // Zeros are said, so that the page need not know what is missing.
  EXPECT_NE(json.find("\"started\":0"), std::string::npos) << json;
  EXPECT_NE(json.find("\"connections\":[]"), std::string::npos) << json;
}

}  // namespace
}  // namespace verbena::internal
