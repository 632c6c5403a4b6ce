// The base of generated services.

#ifndef VERBENA_RPC_SERVICE_H_
#define VERBENA_RPC_SERVICE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace verbena {

namespace internal {
class Method;
class MethodRegistry;
}  // namespace internal

// The threads that run the handlers of a service.
enum class HandlerMode {
  // Handlers may block. The server learns which methods have short handlers, of
  // some twenty microseconds at most, and runs those on the thread that polls
  // the network; if one blocks there after all, another thread takes over
  // within two milliseconds. Other handlers run on a pool of workers, which
  // grows while they block: see ServerBuilder::SetMaxWorkerThreads().
  kWorkerPool,
  // The thread that polls the network, always, which saves some tens of
  // nanoseconds a call. Handlers must return within microseconds and never
  // block: every connection of that thread waits for them.
  kInline,
};

// A set of methods that a server answers. Users derive from the generated
// `MyService::Service`, override a virtual function a method, and give the
// object to ServerBuilder::RegisterService().
//
// Handlers run on several threads at once, so the derived class must be
// thread-safe. The request, the response and the context belong to the handler
// until it returns. Handlers of a generated CallbackService or CoroutineService
// do not block, and run on the thread that polls, whatever the mode
// (server_reactor.h, server_coroutine.h). The handler of a method that streams
// gets a reader or a writer, or both, instead of the messages
// (server_stream.h). It runs on a worker, whatever the mode, because it blocks.
//
// The code and message of the returned Status reach the client
// (ServerBuilder::SetMaxStatusMessageSize); the response does only if the
// Status is OK. If an exception leaves a handler, the call ends with UNKNOWN,
// as with gRPC, and the exception is lost.
class Service {
 public:
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  virtual ~Service();

  const std::string& full_name() const { return full_name_; }

  // Overrides the server's mode (ServerBuilder::SetHandlerMode) for this
  // service. Call it before RegisterService().
  void set_handler_mode(HandlerMode mode) { handler_mode_ = mode; }
  std::optional<HandlerMode> handler_mode() const { return handler_mode_; }

 protected:
  // `full_name` is "package.Service".
  explicit Service(const char* full_name);

  // Has `on_services` told the full names of all services of a server, this one
  // among them, before that starts.
  void set_on_services(
      std::function<void(const std::vector<std::string>&)> on_services) {
    on_services_ = std::move(on_services);
  }

  // Adds a method. Generated services do so in their constructors.
  void AddMethod(std::unique_ptr<internal::Method> method);

 private:
  friend class ServerBuilder;
  friend class internal::MethodRegistry;

  const std::string full_name_;
  std::optional<HandlerMode> handler_mode_;
  std::function<void(const std::vector<std::string>&)> on_services_;
  std::vector<std::unique_ptr<internal::Method>> methods_;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVICE_H_
