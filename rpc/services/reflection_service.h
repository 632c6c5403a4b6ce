// Tells tools what services a server has, and what their messages look like:
// grpc.reflection.v1.ServerReflection.
//
//   verbena::ReflectionService reflection;
//   builder.RegisterService(&reflection);
//
// It also answers to the name that the protocol had before, v1alpha.

#ifndef VERBENA_RPC_SERVICES_REFLECTION_SERVICE_H_
#define VERBENA_RPC_SERVICES_REFLECTION_SERVICE_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "grpc/reflection/v1/reflection.verbena.h"
#include "rpc/server_context.h"
#include "rpc/server_stream.h"
#include "transport/base/mutex.h"

namespace verbena {

// Knows the services of the server that it is registered with, in whatever
// order, and shows every .proto whose generated code is linked into the
// program; those with LITE_RUNTIME have no descriptions. Whoever can connect
// can ask: see SECURITY.md. A program that has it can't have that of gRPC, too
// (grpc++_reflection): Protobuf ends a program in which two files describe the
// same messages.
class ReflectionService final
    : public grpc::reflection::v1::ServerReflection::Service {
 public:
  ReflectionService();

  // As the service: see reflection.proto.
  absl::Status ServerReflectionInfo(
      ServerContext* context,
      ServerReaderWriter<grpc::reflection::v1::ServerReflectionResponse,
                         grpc::reflection::v1::ServerReflectionRequest>* stream)
      override;

 private:
  grpc::reflection::v1::ServerReflectionResponse Answer(
      const grpc::reflection::v1::ServerReflectionRequest& request);
  void ListServices(grpc::reflection::v1::ListServiceResponse* response);

  base::Mutex mutex_;
  std::vector<std::string> services_ ABSL_GUARDED_BY(mutex_);  // Sorted.
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVICES_REFLECTION_SERVICE_H_
