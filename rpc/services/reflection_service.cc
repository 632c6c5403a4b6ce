#include "rpc/services/reflection_service.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"

namespace verbena {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using grpc::reflection::v1::ErrorResponse;
using grpc::reflection::v1::ExtensionRequest;
using grpc::reflection::v1::FileDescriptorResponse;
using grpc::reflection::v1::ListServiceResponse;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

using Stream =
    ServerReaderWriter<ServerReflectionResponse, ServerReflectionRequest>;

constexpr char kMethodOfV1Alpha[] =
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// The longest name that is looked for. Protobuf takes a time that grows with
// the square of the length, and holds the lock of the program's descriptors:
// 100,000 dots would take nine seconds, so many take a millisecond.
constexpr size_t kMaxNameBytes = 1024;

size_t LongestName(const ServerReflectionRequest& request) {
  return std::max({request.file_by_filename().size(),
                   request.file_containing_symbol().size(),
                   request.file_containing_extension().containing_type().size(),
                   request.all_extension_numbers_of_type().size()});
}

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

void SetError(absl::StatusCode code, const char* text,
              ServerReflectionResponse* response) {
  ErrorResponse* const error = response->mutable_error_response();
  error->set_error_code(static_cast<int>(code));
  error->set_error_message(text);
}

// The file, and what it imports unless that is among `sent`.
void AddFile(const FileDescriptor& file, std::set<const FileDescriptor*>& sent,
             FileDescriptorResponse* response) {
  if (!sent.insert(&file).second) return;
  FileDescriptorProto description;
  file.CopyTo(&description);
  description.SerializeToString(response->add_file_descriptor_proto());
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddFile(*file.dependency(i), sent, response);
  }
}

// `file` is null if there is none.
void SetFile(const FileDescriptor* file, ServerReflectionResponse* response) {
  if (file == nullptr) {
    return SetError(absl::StatusCode::kNotFound,
                    "this server knows no such file, symbol or extension",
                    response);
  }
  std::set<const FileDescriptor*> sent;
  AddFile(*file, sent, response->mutable_file_descriptor_response());
}

const FileDescriptor* FileOf(const ExtensionRequest& request) {
  const Descriptor* const message =
      Pool().FindMessageTypeByName(request.containing_type());
  if (message == nullptr) return nullptr;
  const FieldDescriptor* const extension =
      Pool().FindExtensionByNumber(message, request.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

void SetExtensions(const std::string& type,
                   ServerReflectionResponse* response) {
  const Descriptor* const message = Pool().FindMessageTypeByName(type);
  if (message == nullptr) {
    return SetError(absl::StatusCode::kNotFound,
                    "this server knows no such message", response);
  }
  std::vector<const FieldDescriptor*> extensions;
  Pool().FindAllExtensions(message, &extensions);
  auto* const numbers = response->mutable_all_extension_numbers_response();
  numbers->set_base_type_name(message->full_name());
  for (const FieldDescriptor* extension : extensions) {
    numbers->add_extension_number(extension->number());
  }
}

}  // namespace

ReflectionService::ReflectionService() {
  // The messages of v1alpha are the same but for the names of their types,
  // which are not on the wire.
  AddBidiStreamingMethod<ServerReflectionRequest, ServerReflectionResponse>(
      kMethodOfV1Alpha, [this](ServerContext* context, Stream* stream) {
        return ServerReflectionInfo(context, stream);
      });
  set_on_services([this](const std::vector<std::string>& services) {
    const base::MutexLock lock(mutex_);
    services_ = services;
    std::sort(services_.begin(), services_.end());
  });
}

absl::Status ReflectionService::ServerReflectionInfo(ServerContext* context,
                                                     Stream* stream) {
  ServerReflectionRequest request;
  while (stream->Read(&request)) {
    if (!stream->Write(Answer(request))) break;
  }
  return context->IsCancelled() ? absl::CancelledError() : absl::OkStatus();
}

ServerReflectionResponse ReflectionService::Answer(
    const ServerReflectionRequest& request) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  if (LongestName(request) > kMaxNameBytes) {
    SetError(absl::StatusCode::kInvalidArgument,
             "a name has 1024 bytes at the most", &response);
    return response;
  }
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      SetFile(Pool().FindFileByName(request.file_by_filename()), &response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(Pool().FindFileContainingSymbol(request.file_containing_symbol()),
              &response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      SetFile(FileOf(request.file_containing_extension()), &response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetExtensions(request.all_extension_numbers_of_type(), &response);
      break;
    case ServerReflectionRequest::kListServices:
      ListServices(response.mutable_list_services_response());
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      SetError(absl::StatusCode::kInvalidArgument,
               "this server does not know what is asked for", &response);
      break;
  }
  return response;
}

void ReflectionService::ListServices(ListServiceResponse* response) {
  const base::MutexLock lock(mutex_);
  for (const std::string& service : services_) {
    response->add_service()->set_name(service);
  }
}

}  // namespace verbena
