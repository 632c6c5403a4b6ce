#include "rpc/services/admin/snapshot.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/util/json_util.h"
#include "rpc/channel_state.h"
#include "rpc/version.h"

namespace verbena::internal {
namespace {

using admin::AdminSnapshot;

// Strings of JSON and of protobuf are UTF-8, and what a peer or a device says
// of itself may be anything.
std::string Printable(absl::string_view text) {
  std::string result(text);
  for (char& each : result) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(each))) each = '?';
  }
  return result;
}

double Milliseconds(absl::Time time) {
  return absl::ToDoubleMilliseconds(time - absl::UnixEpoch());
}

std::string CodeName(size_t code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

void AddMethod(const MethodMetrics& metrics, AdminSnapshot* snapshot) {
  AdminSnapshot::Method* const method = snapshot->add_methods();
  method->set_name(Printable(metrics.name));
  method->set_streams(metrics.streams);
  method->set_started(static_cast<double>(metrics.started));
  for (size_t code = 0; code < metrics.ended.size(); ++code) {
    if (metrics.ended[code] == 0) continue;
    (*method->mutable_ended())[CodeName(code)] =
        static_cast<double>(metrics.ended[code]);
  }
  for (const uint64_t count : metrics.latency.counts) {
    method->add_latency_counts(static_cast<double>(count));
  }
  method->set_latency_sum_s(metrics.latency.sum_seconds);
  method->set_request_bytes(static_cast<double>(metrics.request_bytes));
  method->set_response_bytes(static_cast<double>(metrics.response_bytes));
  method->set_open(static_cast<double>(metrics.open()));
}

void AddLimit(absl::string_view name, uint64_t used, int64_t most,
              uint64_t refused, absl::string_view option,
              AdminSnapshot* snapshot) {
  AdminSnapshot::Limit* const limit = snapshot->add_limits();
  limit->set_name(std::string(name));
  limit->set_used(static_cast<double>(used));
  limit->set_most(static_cast<double>(most));
  limit->set_refused(static_cast<double>(refused));
  limit->set_option(std::string(option));
}

// Puts each limit beside what is in use of it. Reckons the uses from counters
// that exist anyway, so that no call pays for the page.
void AddLimits(const SnapshotSources& sources, AdminSnapshot* snapshot) {
  const ServerMetrics& metrics = sources.metrics;
  const ServerLimits& limits = sources.status.limits;
  uint64_t calls = 0;
  uint64_t streams = 0;
  for (const MethodMetrics& method : metrics.methods) {
    calls += method.open();
    if (method.streams) streams += method.open();
  }
  uint64_t fullest = 0;
  for (const ConnectionStatus& connection : sources.status.connections) {
    fullest = std::max<uint64_t>(fullest, connection.open_calls);
  }
  // The fullest device: the limit is one of each device and poller.
  uint64_t bulk = 0;
  for (const DeviceMetrics& device : metrics.pollers.devices) {
    bulk = std::max(bulk, device.pool_used_bytes);
  }
  const int64_t pools =
      static_cast<int64_t>(std::max<uint64_t>(metrics.pollers.pollers, 1));
  AddLimit("Calls in progress", calls, limits.concurrent_calls,
           metrics.calls_over_limit, "SetMaxConcurrentCalls", snapshot);
  AddLimit("Streams in progress", streams, limits.concurrent_streams,
           metrics.streams_over_limit, "SetMaxConcurrentStreams", snapshot);
  AddLimit("Calls of the busiest connection", fullest, limits.connection_calls,
           0, "SetMaxConcurrentCallsPerConnection", snapshot);
  AddLimit("Busy worker threads", metrics.workers - metrics.idle_workers,
           limits.worker_threads, 0, "SetMaxWorkerThreads", snapshot);
  AddLimit("Calls that wait for a worker", metrics.queued_calls,
           limits.worker_queue, metrics.queue_refusals, "SetWorkerQueueLimit",
           snapshot);
  AddLimit("Memory for large messages, bytes", bulk, limits.bulk_bytes * pools,
           0, "SetMaxBulkBytes", snapshot);
}

// Names each counter that should stay at 0. Those of devices are summed up.
void AddTroubles(const ServerMetrics& metrics, AdminSnapshot* snapshot) {
  const auto add = [snapshot](absl::string_view name, uint64_t count) {
    AdminSnapshot::Trouble* const trouble = snapshot->add_troubles();
    trouble->set_name(std::string(name));
    trouble->set_count(static_cast<double>(count));
  };
  uint64_t handshakes = 0;
  uint64_t retries = 0;
  uint64_t rnr_retries = 0;
  for (const DeviceMetrics& device : metrics.pollers.devices) {
    handshakes += device.failed_handshakes;
    retries += device.retries_exceeded;
    rnr_retries += device.rnr_retries_exceeded;
  }
  add("calls of unknown methods", metrics.unknown_methods);
  add("calls over the limit", metrics.calls_over_limit);
  add("streams over the limit", metrics.streams_over_limit);
  add("calls refused by a full queue", metrics.queue_refusals);
  add("refused connections", metrics.refused_connections);
  add("failed authentications", metrics.failed_authentications);
  add("failed handshakes", handshakes);
  add("peers that did not answer the device", retries);
  add("peers without a receive", rnr_retries);
}

void AddDevice(const DeviceMetrics& metrics, AdminSnapshot* snapshot) {
  AdminSnapshot::Device* const device = snapshot->add_devices();
  device->set_name(Printable(metrics.device));
  device->set_connecting(static_cast<double>(metrics.connecting));
  device->set_open(static_cast<double>(metrics.open));
  device->set_closing(static_cast<double>(metrics.closing));
  device->set_frame_bytes(static_cast<double>(metrics.frame_bytes));
  device->set_pool_bytes(static_cast<double>(metrics.pool_bytes));
  device->set_pool_used_bytes(static_cast<double>(metrics.pool_used_bytes));
  device->set_credit_waits(static_cast<double>(metrics.credit_waits));
  device->set_connections_begun(static_cast<double>(metrics.connections_begun));
}

// Adds the lists, which may be cut, and the counts, which are not.
void AddStatus(const ServerStatus& status, absl::Time now,
               AdminSnapshot* snapshot) {
  for (const ConnectionStatus& each : status.connections) {
    AdminSnapshot::Connection* const connection = snapshot->add_connections();
    connection->set_peer(Printable(each.peer));
    connection->set_device(Printable(each.device));
    connection->set_state(each.state);
    connection->set_open_calls(each.open_calls);
    connection->set_credits(each.credits);
    connection->set_receive_window(each.receive_window);
  }
  snapshot->set_connection_count(static_cast<double>(status.connection_count));
  for (const OpenCallStatus& each : status.open_calls) {
    AdminSnapshot::OpenCall* const call = snapshot->add_open_calls();
    call->set_method(Printable(each.method));
    call->set_peer(Printable(each.peer));
    call->set_state(each.state);
    if (each.age.has_value()) call->set_age_s(absl::ToDoubleSeconds(*each.age));
  }
  snapshot->set_open_call_count(static_cast<double>(status.open_call_count));
  snapshot->set_incomplete(status.incomplete);
  for (const SlowCallStatus& each : status.slow_calls) {
    AdminSnapshot::SlowCall* const call = snapshot->add_slow_calls();
    call->set_method(Printable(each.method));
    call->set_peer(Printable(each.peer));
    call->set_code(CodeName(static_cast<size_t>(each.code)));
    call->set_latency_s(absl::ToDoubleSeconds(each.latency));
    call->set_ended_ms(Milliseconds(now - each.ended_ago));
  }
}

void AddServer(const ChannelServerMetrics& metrics,
               AdminSnapshot::Channel* channel) {
  AdminSnapshot::Channel::Server* const server = channel->add_servers();
  server->set_address(Printable(metrics.address));
  server->set_state(std::string(ChannelStateName(metrics.state)));
  server->set_connected(metrics.connected);
  server->set_healthy(metrics.healthy);
  server->set_ejected(metrics.ejected);
  server->set_weight(metrics.weight);
  server->set_load_weight(metrics.load_weight);
  server->set_calls(static_cast<double>(metrics.calls));
  server->set_open_calls(static_cast<double>(metrics.open_calls));
  server->set_device(Printable(metrics.device));
  server->set_fabric(Printable(metrics.fabric));
  server->set_error(Printable(metrics.error));
}

void AddChannels(const AdminChannels::List& channels, AdminSnapshot* snapshot) {
  size_t servers_left = kMostListedServers;
  for (const AdminChannels::Entry& each : channels.channels) {
    const ChannelMetrics& metrics = each.metrics;
    AdminSnapshot::Channel* const channel = snapshot->add_channels();
    channel->set_name(Printable(each.name));
    channel->set_target(Printable(metrics.target));
    channel->set_state(std::string(ChannelStateName(each.state)));
    channel->set_device(Printable(metrics.device));
    channel->set_fabric(Printable(metrics.fabric));
    channel->set_fabric_reason(Printable(metrics.fabric_reason));
    channel->set_paths(static_cast<double>(metrics.paths));
    channel->set_connects(static_cast<double>(metrics.connects));
    channel->set_failed_connects(static_cast<double>(metrics.failed_connects));
    channel->set_retries(static_cast<double>(metrics.retries));
    for (const ChannelServerMetrics& server : metrics.servers) {
      if (servers_left == 0) break;
      --servers_left;
      AddServer(server, channel);
    }
    channel->set_server_count(static_cast<double>(metrics.servers.size()));
  }
  snapshot->set_channel_count(static_cast<double>(channels.count));
}

}  // namespace

// Turns all that the server tells of itself into one message. Counts become
// doubles, because JSON of protobuf writes integers of 64 bits as strings.
AdminSnapshot MakeSnapshot(const SnapshotSources& sources) {
  AdminSnapshot snapshot;
  snapshot.set_now_ms(Milliseconds(sources.now));
  snapshot.set_uptime_s(absl::ToDoubleSeconds(sources.now - sources.started));
  snapshot.set_version(std::string(kVersion));
  snapshot.set_host(Printable(sources.host));
  snapshot.set_process_id(sources.process_id);
  for (const Server::Listening& each : sources.listening) {
    AdminSnapshot::Listening* const listening = snapshot.add_listening();
    listening->set_address(Printable(each.address));
    listening->set_device(Printable(each.device));
  }
  // The last bucket has no upper bound.
  for (size_t i = 0; i + 1 < LatencyMetrics::kBuckets; ++i) {
    snapshot.add_latency_bounds_s(LatencyMetrics::UpperBoundSeconds(i));
  }
  const ServerMetrics& metrics = sources.metrics;
  for (const MethodMetrics& each : metrics.methods) AddMethod(each, &snapshot);
  AddLimits(sources, &snapshot);
  AddTroubles(metrics, &snapshot);
  for (const DeviceMetrics& each : metrics.pollers.devices) {
    AddDevice(each, &snapshot);
  }
  snapshot.set_pollers(static_cast<double>(metrics.pollers.pollers));
  snapshot.set_polls(static_cast<double>(metrics.pollers.polls));
  snapshot.set_sleeps(static_cast<double>(metrics.pollers.sleeps));
  snapshot.set_workers(static_cast<double>(metrics.workers));
  snapshot.set_idle_workers(static_cast<double>(metrics.idle_workers));
  AddStatus(sources.status, sources.now, &snapshot);
  AddChannels(sources.channels, &snapshot);
  snapshot.set_log_is_kept(sources.log != nullptr);
  if (sources.log == nullptr) return snapshot;
  for (const LogTail::Line& each : sources.log->lines()) {
    AdminSnapshot::LogLine* const line = snapshot.add_log();
    line->set_time_ms(Milliseconds(each.time));
    line->set_warning(each.severity >= LogSeverity::kWarning);
    line->set_text(Printable(each.text));
  }
  return snapshot;
}

std::string ToJson(const AdminSnapshot& snapshot) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  // So that the script need not tell a zero from a field that is missing.
  options.always_print_primitive_fields = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(snapshot, &json, options);
  // All strings are ASCII: nothing can fail.
  return status.ok() ? json : "{}";
}

}  // namespace verbena::internal
