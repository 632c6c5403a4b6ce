// Builds a server.

#ifndef VERBENA_RPC_SERVER_BUILDER_H_
#define VERBENA_RPC_SERVER_BUILDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/server.h"
#include "rpc/service.h"

namespace verbena {

class AuthMetadataProcessor;                 // rpc/credentials.h
class AuthorizationPolicyProviderInterface;  // rpc/authorization.h
class GenericService;                        // rpc/generic_service.h
class ServerCredentials;                     // rpc/credentials.h
class ServerInterceptorFactory;              // rpc/server_interceptor.h

// Collects addresses, services and options; BuildAndStart() checks them all. A
// value: nothing happens before BuildAndStart(). For one thread.
class ServerBuilder {
 public:
  // Listens at `address`, "host:port" or "[ipv6]:port"; "0.0.0.0:port"
  // stands for every address of the host, and port 0 for any free port.
  // `selected_port`, if not null, gets the port when BuildAndStart()
  // has succeeded.
  ServerBuilder& AddListeningPort(absl::string_view address,
                                  int* selected_port = nullptr);

  // As AddListeningPort() above, but only for clients that show `credentials`.
  // The form above uses InsecureServerCredentials(): everybody who can connect
  // may call.
  ServerBuilder& AddListeningPort(
      absl::string_view address, std::shared_ptr<ServerCredentials> credentials,
      int* selected_port = nullptr);

  // Has `processor` look at each call, on every port, before its handler runs.
  // Default, and null: no processor.
  ServerBuilder& SetAuthMetadataProcessor(
      std::shared_ptr<AuthMetadataProcessor> processor) {
    return Set(&auth_metadata_processor_, std::move(processor));
  }

  // Has `provider` decide for each call, on every port, whether its client may
  // make it: see rpc/authorization/authorization_policy_provider.h. Not null.
  // Default: clients may make every call.
  ServerBuilder& SetAuthorizationPolicyProvider(
      std::shared_ptr<AuthorizationPolicyProviderInterface> provider) {
    return Set(&authorization_, std::move(provider));
  }

  // Has `factory` make an interceptor for each call of every service: see
  // rpc/server_interceptor.h, also for their order. Not null.
  ServerBuilder& AddInterceptor(
      std::shared_ptr<ServerInterceptorFactory> factory) {
    return Add(&interceptors_, std::move(factory));
  }

  // `service` must outlive the server. Two services with a method of the same
  // name (or, most unlikely, the same hash) make BuildAndStart() fail.
  ServerBuilder& RegisterService(Service* service) {
    return Add(&services_, service);
  }

  // Has `service` answer the calls of all methods that no registered service
  // has. It must outlive the server. At most one per server: BuildAndStart()
  // fails with ALREADY_EXISTS if there are more. Clients then send the name of
  // the method with each call, those of registered services included.
  ServerBuilder& RegisterGenericService(GenericService* service) {
    return Add(&generic_services_, service);
  }

  // Has `start` make an object that observes the server, once the server
  // serves. If `start` fails, BuildAndStart() fails with the same status.
  // Not null.
  using ExtensionStarter =
      std::function<absl::StatusOr<std::unique_ptr<ServerExtension>>(
          const Server& server)>;
  ServerBuilder& AddExtension(ExtensionStarter start) {
    return Add(&extensions_, std::move(start));
  }

  // Largest serialised message in bytes that the server accepts, or sends; -1
  // for the most that there can be, 2 GiB - 1. Default: 65 MiB. The call of a
  // longer one ends with RESOURCE_EXHAUSTED.
  ServerBuilder& SetMaxReceiveMessageSize(int64_t bytes) {
    return Set(&max_receive_message_bytes_, bytes == -1 ? INT32_MAX : bytes);
  }
  ServerBuilder& SetMaxSendMessageSize(int64_t bytes) {
    return Set(&max_send_message_bytes_, bytes == -1 ? INT32_MAX : bytes);
  }

  // Most bytes of metadata that a call may bring, counted as in metadata.h;
  // from 0 to 65,535. The call of a client with more ends with
  // RESOURCE_EXHAUSTED, at the client. Default: 8 KiB. It bounds what a client
  // makes the server keep: so much for each call that it may have open.
  ServerBuilder& SetMaxMetadataSize(int64_t bytes) {
    return Set(&max_metadata_bytes_, bytes);
  }

  // Longest message of a status that handlers may send, in bytes, from 0 to
  // 65,535; longer ones are cut. The part beyond 2 KiB goes with the trailing
  // metadata. It is cut too if the metadata would be more than the client takes
  // (ChannelOptions::max_metadata_bytes). Default: 8 KiB.
  ServerBuilder& SetMaxStatusMessageSize(int64_t bytes) {
    return Set(&max_status_bytes_, bytes);
  }

  // Calls and streams that one connection may have open, from 1 to 16,384, if
  // its client wants as many (ChannelOptions::max_concurrent_calls). A client's
  // further calls wait at the client. Default: 256.
  ServerBuilder& SetMaxConcurrentCallsPerConnection(int calls) {
    return Set(&max_connection_calls_, calls);
  }

  // Calls and streams that the whole server may have open, including those that
  // wait for a worker. A call beyond the limit is not processed, and ends with
  // RESOURCE_EXHAUSTED. Default, and 0: no limit but those of connections.
  ServerBuilder& SetMaxConcurrentCalls(int64_t calls) {
    return Set(&max_calls_, calls);
  }

  // Streams (calls of methods that stream) that one connection and the whole
  // server may have open; at most 16,384 per connection. A stream beyond the
  // limit does not wait: it is not processed, and ends with RESOURCE_EXHAUSTED.
  // Default, and 0: no limit but those of calls.
  ServerBuilder& SetMaxConcurrentStreamsPerConnection(int streams) {
    return Set(&max_connection_streams_, streams);
  }
  ServerBuilder& SetMaxConcurrentStreams(int64_t streams) {
    return Set(&max_streams_, streams);
  }

  // Selects the threads that run handlers of services with no mode of their
  // own. Default: kWorkerPool.
  ServerBuilder& SetHandlerMode(HandlerMode mode) {
    return Set(&handler_mode_, mode);
  }

  // Threads that run handlers on the worker pool (HandlerMode::kWorkerPool).
  // They are started when calls need them. They end after some seconds without
  // work, except SetWorkerThreads() of them. While handlers block there may be
  // up to SetMaxWorkerThreads(). One in eight of those, and at least one if
  // there are two, is kept from the calls of any one method.
  //
  // Further calls wait, up to SetWorkerQueueLimit() of them, counting those
  // whose thread is just being started. Beyond that, a call for which no thread
  // can be started ends with RESOURCE_EXHAUSTED.
  //
  // Defaults: SetWorkerThreads() is twice the processors, but at least 4, and
  // no more than SetMaxWorkerThreads() if that was set. SetMaxWorkerThreads()
  // is 256, or SetWorkerThreads() if that is more. SetWorkerQueueLimit() is
  // 4096. The first two may be 1,024 at the most: if more calls than that
  // block, use coroutines or reactors.
  ServerBuilder& SetWorkerThreads(int threads) {
    return Set(&worker_threads_, threads);
  }
  ServerBuilder& SetMaxWorkerThreads(int threads) {
    return Set(&max_worker_threads_, threads);
  }
  ServerBuilder& SetWorkerQueueLimit(int calls) {
    return Set(&worker_queue_limit_, calls);
  }

  // Sets the number of pollers of the network; connections are spread over
  // them. Each is driven by one thread at a time. While short handlers run on a
  // poller (HandlerMode::kWorkerPool), a second thread is ready to drive it.
  // There is one more thread for each such handler that blocks after all, up to
  // 64. Default: 1.
  ServerBuilder& SetPollers(int threads) { return Set(&pollers_, threads); }

  // The device to listen on: "soft", or the name of an RDMA device. Default:
  // the environment variable VERBENA_DEVICE if that is set, else every RDMA
  // device and the software device.
  ServerBuilder& SetDevice(absl::string_view device) {
    return Set(&device_, std::string(device));
  }

  // The differentiated services code point of what the server sends, from 0 to
  // 63, or -1 for the system's default: see ChannelOptions::dscp. Over RoCE
  // that of the client counts for both directions.
  ServerBuilder& SetDscp(int dscp) { return Set(&dscp_, dscp); }

  // Sets the longest time that a poller that finds nothing spins before it
  // sleeps. While large parts of messages are on their way, it spins up to 5 ms
  // longer. See ChannelOptions::spin_budget, whose default is the same.
  ServerBuilder& SetSpinBudget(absl::Duration budget) {
    return Set(&spin_budget_, budget);
  }

  // Sets how long a client may keep the server waiting without any progress:
  // with credits for replies, with the rest of a frame, or with a READ, WRITE
  // or SEND that does not complete. Then its connection ends, and a log entry
  // says so. If the client lends no memory for a reply for so long, the call
  // ends with RESOURCE_EXHAUSTED instead. Nothing waits for a client beyond the
  // deadline of its call. Default: 20 seconds. Set more only for clients that
  // are stopped for longer now and then.
  ServerBuilder& SetStallTimeout(absl::Duration time) {
    return Set(&stall_timeout_, time);
  }

  // Whether calls travel with checksums, as with ChannelOptions::checksum. A
  // client that wants them gets them anyhow. Default: false.
  ServerBuilder& SetChecksum(bool checksum) {
    return Set(&checksum_, checksum);
  }

  // Registered memory, in bytes a poller and device, for requests and replies
  // that are large. Such calls wait while all of it is in use, or all but an
  // eighth by their own connection. At least the larger of the two limits of
  // messages. Default: 512 MiB, or room for two of the largest requests and
  // replies, each rounded up to a power of two, if that is more.
  ServerBuilder& SetMaxBulkBytes(int64_t bytes) {
    return Set(&max_bulk_bytes_, bytes);
  }

  // Registered memory that an idle server keeps, per poller and device, and how
  // long a region beyond it must have been empty before it is given back. As
  // ChannelOptions::memory_floor_bytes and memory_idle_time, with the same
  // defaults: 1 MiB and 5 seconds.
  ServerBuilder& SetMemoryFloorBytes(int64_t bytes) {
    return Set(&memory_floor_bytes_, bytes);
  }
  ServerBuilder& SetMemoryIdleTime(absl::Duration time) {
    return Set(&memory_idle_time_, time);
  }

  // Listens and starts to serve. Fails with INVALID_ARGUMENT for an option out
  // of range, an object that is null and must not be, no address, or an address
  // that can't be read; ALREADY_EXISTS for two methods of one name, or two
  // generic services; or with an error of the devices.
  absl::StatusOr<std::unique_ptr<Server>> BuildAndStart();

 private:
  struct Port {
    std::string address;
    std::shared_ptr<ServerCredentials> credentials;
    int* selected_port;
  };

  template <typename Field, typename Value>
  ServerBuilder& Set(Field* field, Value value) {
    *field = std::move(value);
    return *this;
  }
  template <typename Field, typename Value>
  ServerBuilder& Add(std::vector<Field>* list, Value value) {
    list->push_back(std::move(value));
    return *this;
  }
  // Checks the fields below.
  absl::Status Validate() const;
  absl::Status ValidateServices() const;

  std::vector<Port> ports_;
  std::vector<Service*> services_;
  std::vector<GenericService*> generic_services_;
  std::shared_ptr<AuthMetadataProcessor> auth_metadata_processor_;
  // Set to null is not the same as not set: it must not let everybody in.
  std::optional<std::shared_ptr<AuthorizationPolicyProviderInterface>>
      authorization_;
  std::vector<std::shared_ptr<ServerInterceptorFactory>> interceptors_;
  std::vector<ExtensionStarter> extensions_;
  int64_t max_receive_message_bytes_ = int64_t{65} << 20;
  int64_t max_send_message_bytes_ = int64_t{65} << 20;
  int64_t max_metadata_bytes_ = 8192;
  int64_t max_status_bytes_ = 8192;
  int max_connection_calls_ = 256;
  int64_t max_calls_ = 0;
  int max_connection_streams_ = 0;
  int64_t max_streams_ = 0;
  std::optional<int64_t> max_bulk_bytes_;
  int64_t memory_floor_bytes_ = int64_t{1} << 20;
  absl::Duration memory_idle_time_ = absl::Seconds(5);
  absl::Duration stall_timeout_ = absl::Seconds(20);
  HandlerMode handler_mode_ = HandlerMode::kWorkerPool;
  std::optional<int> worker_threads_;
  std::optional<int> max_worker_threads_;
  int worker_queue_limit_ = 4096;
  int pollers_ = 1;
  std::string device_;
  int dscp_ = -1;
  absl::Duration spin_budget_ = absl::Microseconds(50);
  bool checksum_ = false;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVER_BUILDER_H_
