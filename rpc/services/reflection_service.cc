#include "rpc/services/reflection_service.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "rpc/support/methods.h"

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
  // A file that several others import is sent once.
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
  // The pool finds extensions by the message's descriptor, not by its name.
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

// The call of one client: reads a request, has it answered, writes the answer.
class ReflectionService::Stream final
    : public ServerBidiReactor<ServerReflectionRequest,
                               ServerReflectionResponse> {
 public:
  explicit Stream(ReflectionService* service) : service_(*service) {
    StartRead(&request_);
  }

  // The client has sent all its requests, or is gone.
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(absl::OkStatus());
    service_.Enqueue(this);
  }
  // Any thread, once for each request.
  void Answer() {
    response_ = service_.Answer(request_);
    StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(absl::CancelledError());
    StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  ReflectionService& service_;
  ServerReflectionRequest request_;
  ServerReflectionResponse response_;
};

ReflectionService::ReflectionService() {
  // The messages of v1alpha are the same but for the names of their types,
  // which are not on the wire.
  AddMethod(
      internal::NewCallbackMethod<internal::NoMessage, internal::NoMessage>(
          kMethodOfV1Alpha, [this](CallbackServerContext* context) {
            return ServerReflectionInfo(context);
          }));
  set_on_services([this](const std::vector<std::string>& services) {
    const base::MutexLock lock(mutex_);
    services_ = services;
    std::sort(services_.begin(), services_.end());
  });
}

// Wakes the thread even if the queue is empty, then waits for it.
ReflectionService::~ReflectionService() {
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyOne();
  }
  thread_.Join();
}

ServerBidiReactor<ServerReflectionRequest, ServerReflectionResponse>*
ReflectionService::ServerReflectionInfo(CallbackServerContext* /*context*/) {
  return new Stream(this);
}

// Starts the thread at the first request. Without a thread, answers on the
// poller after all, and tries again at the next request.
void ReflectionService::Enqueue(Stream* stream) {
  {
    const base::MutexLock lock(mutex_);
    if (!started_) started_ = thread_.Start([this] { AnswerAll(); }).ok();
    if (started_) {
      queue_.push_back(stream);
      return changed_.NotifyOne();
    }
  }
  stream->Answer();
}

// Answers one request at a time, without the mutex, so that pollers can add to
// the queue meanwhile.
void ReflectionService::AnswerAll() {
  base::MutexLock lock(mutex_);
  while (true) {
    while (queue_.empty() && !stop_) changed_.Wait(mutex_);
    if (queue_.empty()) return;
    Stream* const stream = queue_.front();
    queue_.pop_front();
    lock.Unlock();
    stream->Answer();
    lock.Lock();
  }
}

// Repeats the request in the response, as the protocol wants, and dispatches by
// its kind. Errors are part of the response, and the stream goes on.
ServerReflectionResponse ReflectionService::Answer(
    const ServerReflectionRequest& request) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  if (LongestName(request) > kMaxNameBytes) {
    SetError(absl::StatusCode::kInvalidArgument,
             "a name may have at most 1024 bytes", &response);
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
               "the request does not say what to look up", &response);
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
