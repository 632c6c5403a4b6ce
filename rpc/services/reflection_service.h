// Tells tools what services a server has, and what their messages look
// like: grpc.reflection.v1.ServerReflection.
//
//   verbena::ReflectionService reflection;
//   builder.RegisterService(&reflection);
//
// The service also answers to the protocol's former name, v1alpha.

#ifndef VERBENA_RPC_SERVICES_REFLECTION_SERVICE_H_
#define VERBENA_RPC_SERVICES_REFLECTION_SERVICE_H_

#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "grpc/reflection/v1/reflection.verbena.h"
#include "rpc/server_reactor.h"
#include "transport/base/mutex.h"
#include "transport/base/thread_group.h"

namespace verbena {

// Knows the services of the server that it is registered with, in whatever
// order, and shows every .proto whose generated code is linked into the
// program; those with LITE_RUNTIME have no descriptions. Whoever can connect
// can ask: see SECURITY.md. A program that has it can't have that of gRPC, too
// (grpc++_reflection): Protobuf ends a program in which two files describe the
// same messages.
//
// A stream takes no worker of the server's. Answers are made on a thread of the
// service, which begins with the first request: descriptions of many files take
// longer than a poller has. Must outlive its server.
class ReflectionService final
    : public grpc::reflection::v1::ServerReflection::CallbackService {
 public:
  ReflectionService();
  // REQUIRES: the server is gone.
  ~ReflectionService() override;

  // As the service: see reflection.proto.
  ServerBidiReactor<grpc::reflection::v1::ServerReflectionRequest,
                    grpc::reflection::v1::ServerReflectionResponse>*
  ServerReflectionInfo(CallbackServerContext* context) override;

 private:
  class Stream;

  // Has `stream` answered on the thread, or here if there can be none.
  void Enqueue(Stream* stream);
  void AnswerAll();
  grpc::reflection::v1::ServerReflectionResponse Answer(
      const grpc::reflection::v1::ServerReflectionRequest& request);
  void ListServices(grpc::reflection::v1::ListServiceResponse* response);

  base::Mutex mutex_;
  std::vector<std::string> services_ ABSL_GUARDED_BY(mutex_);  // Sorted.
  base::CondVar changed_;  // queue_ or stop_.
  // Streams whose request waits for its answer, one of each.
  std::deque<Stream*> queue_ ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  base::ThreadGroup thread_{"verbena-reflect"};
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVICES_REFLECTION_SERVICE_H_
