#include "tools/verbena/schema.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "google/protobuf/compiler/importer.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/descriptor_database.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "rpc/byte_message.h"
#include "rpc/client_context.h"
#include "rpc/generic_stub.h"
#include "transport/base/status_macros.h"

namespace verbena::tool {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using google::protobuf::MethodDescriptor;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

namespace {

absl::Status NotFound(absl::string_view symbol, absl::string_view where) {
  return absl::NotFoundError(
      absl::StrCat(where, " no \"", symbol,
                   "\"; use a full name: package.Service, "
                   "package.Service/Method or package.Message"));
}

// Keeps what is wrong with files.
class Complaints final
    : public google::protobuf::compiler::MultiFileErrorCollector,
      public DescriptorPool::ErrorCollector {
 public:
  void AddError(const std::string& file, int line, int column,
                const std::string& message) override {
    lines_.push_back(line < 0 ? absl::StrCat(file, ": ", message)
                              : absl::StrCat(file, ":", line + 1, ":",
                                             column + 1, ": ", message));
  }
  void AddError(const std::string& file, const std::string& element,
                const google::protobuf::Message* /*descriptor*/,
                ErrorLocation /*location*/,
                const std::string& message) override {
    lines_.push_back(absl::StrCat(file, ": ", element, ": ", message));
  }
  // Returns the errors since the last Take(), one a line.
  std::string Take() { return absl::StrJoin(std::exchange(lines_, {}), "\n"); }

 private:
  std::vector<std::string> lines_;
};

// Compiles .proto files as protoc does. Files are found as they are needed.
class FileSchema final : public Schema {
 public:
  explicit FileSchema(const std::vector<std::string>& roots) {
    database_.RecordErrorsTo(&complaints_);
    pool_.EnforceWeakDependencies(true);
    // Every root is the beginning of paths, and the first that has a file wins.
    for (const std::string& root : roots) tree_.MapPath("", root);
  }

  absl::Status Import(const std::string& file) {
    const FileDescriptor* const imported = pool_.FindFileByName(file);
    if (imported == nullptr) {
      return absl::InvalidArgumentError(complaints_.Take());
    }
    files_.push_back(imported);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> Services() override {
    std::vector<std::string> names;
    for (const FileDescriptor* file : files_) {
      for (int i = 0; i < file->service_count(); ++i) {
        names.push_back(file->service(i)->full_name());
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<const FileDescriptor*> FindFile(
      absl::string_view symbol) override {
    const FileDescriptor* const file =
        pool_.FindFileContainingSymbol(std::string(symbol));
    if (file == nullptr) return NotFound(symbol, "the files of --proto have");
    return file;
  }

 private:
  google::protobuf::compiler::DiskSourceTree tree_;
  Complaints complaints_;
  // The files that come with protobuf, like google/protobuf/timestamp.proto, so
  // that the user need not provide them.
  google::protobuf::DescriptorPoolDatabase built_in_{
      *DescriptorPool::generated_pool()};
  google::protobuf::compiler::SourceTreeDescriptorDatabase database_{
      &tree_, &built_in_};
  DescriptorPool pool_{&database_, database_.GetValidationErrorCollector()};
  std::vector<const FileDescriptor*> files_;
};

// Learns files from the server, and keeps them for later questions.
class ServerSchema final : public Schema {
 public:
  ServerSchema(std::shared_ptr<Channel> channel, absl::Duration timeout)
      : stub_(std::move(channel)), timeout_(timeout) {}

  absl::StatusOr<std::vector<std::string>> Services() override {
    ServerReflectionRequest request;
    request.set_list_services("*");
    ASSIGN_OR_RETURN(const ServerReflectionResponse response, Ask(request));
    std::vector<std::string> names;
    for (const auto& service : response.list_services_response().service()) {
      names.push_back(service.name());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Asks the server for the files that define the symbol, and adds those that
  // are new to the pool.
  absl::StatusOr<const FileDescriptor*> FindFile(
      absl::string_view symbol) override {
    ServerReflectionRequest request;
    request.set_file_containing_symbol(std::string(symbol));
    const absl::StatusOr<ServerReflectionResponse> response = Ask(request);
    if (absl::IsNotFound(response.status())) {
      return NotFound(symbol, "the server has");
    }
    RETURN_IF_ERROR(response.status());
    std::vector<std::string> names;
    for (const std::string& bytes :
         response->file_descriptor_response().file_descriptor_proto()) {
      FileDescriptorProto file;
      if (!file.ParseFromString(bytes)) {
        return absl::InternalError(absl::StrCat(
            "the server's description of \"", symbol, "\" can't be parsed"));
      }
      // If a file comes again, the first version stays.
      FileDescriptorProto known;
      if (!files_.FindFileByName(file.name(), &known)) files_.Add(file);
      names.push_back(file.name());
    }
    // Loads the files into the pool, which otherwise would not find the values
    // of enums in them.
    for (const std::string& name : names) pool_.FindFileByName(name);
    const FileDescriptor* const file =
        pool_.FindFileContainingSymbol(std::string(symbol));
    if (file != nullptr) return file;
    return absl::InternalError(
        absl::StrCat("the server's description of \"", symbol,
                     "\" is not valid: ", complaints_.Take()));
  }

 private:
  // Sends `request` to the server's reflection, and returns the response.
  absl::StatusOr<ServerReflectionResponse> Ask(
      const ServerReflectionRequest& request) {
    absl::StatusOr<ServerReflectionResponse> response =
        Ask(request, "grpc.reflection.v1.ServerReflection");
    // The older name of the protocol, which has the same messages. gRPC servers
    // up to 1.56 know only this one.
    if (absl::IsUnimplemented(response.status())) {
      response = Ask(request, "grpc.reflection.v1alpha.ServerReflection");
    }
    if (absl::IsUnimplemented(response.status())) {
      return absl::UnimplementedError(
          "the services of the server are not known: it has no reflection "
          "(verbena::ReflectionService). Name its .proto files by --proto");
    }
    RETURN_IF_ERROR(response.status());
    if (!response->has_error_response()) return response;
    const auto& error = response->error_response();
    // An error whose code is OK is still an error.
    return absl::Status(error.error_code() == 0
                            ? absl::StatusCode::kUnknown
                            : static_cast<absl::StatusCode>(error.error_code()),
                        error.error_message());
  }

  // Asks only the reflection service called `name`.
  absl::StatusOr<ServerReflectionResponse> Ask(
      const ServerReflectionRequest& request, absl::string_view service) {
    ClientContext context;
    context.set_timeout(timeout_);
    const auto stream = stub_.BidiStreamingCall(
        &context, absl::StrCat(service, "/ServerReflectionInfo"));
    ByteMessage answer;
    stream->Write(ByteMessage(request.SerializeAsString()));
    // A single question: the server ends the stream behind its answer.
    stream->WritesDone();
    // Finish() is called even without an answer, because its status says why.
    const bool answered = stream->Read(&answer);
    RETURN_IF_ERROR(stream->Finish());
    ServerReflectionResponse response;
    if (answered && response.ParseFromString(answer.bytes())) return response;
    return absl::InternalError("the server's reflection gave no answer");
  }

  GenericStub stub_;
  const absl::Duration timeout_;
  Complaints complaints_;
  google::protobuf::SimpleDescriptorDatabase files_;
  DescriptorPool pool_{&files_, &complaints_};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Schema>> Schema::FromFiles(
    const std::vector<std::string>& files,
    const std::vector<std::string>& roots) {
  auto schema = std::make_unique<FileSchema>(roots);
  for (const std::string& file : files) {
    RETURN_IF_ERROR(schema->Import(file));
  }
  return schema;
}

std::unique_ptr<Schema> Schema::FromServer(std::shared_ptr<Channel> channel,
                                           absl::Duration timeout) {
  return std::make_unique<ServerSchema>(std::move(channel), timeout);
}

// Descriptors know methods by names with dots only.
absl::StatusOr<const MethodDescriptor*> Schema::FindMethod(
    absl::string_view name) {
  const std::string full_name =
      absl::StrReplaceAll(absl::StripPrefix(name, "/"), {{"/", "."}});
  ASSIGN_OR_RETURN(const FileDescriptor* const file, FindFile(full_name));
  const MethodDescriptor* const method =
      file->pool()->FindMethodByName(full_name);
  if (method != nullptr) return method;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", name, "\" is not a method; `verbena describe` shows what it is"));
}

// Asks the pool for one kind of name after the other, because it has no search
// over all kinds.
absl::StatusOr<std::string> Schema::Describe(absl::string_view symbol) {
  const std::string name =
      absl::StrReplaceAll(absl::StripPrefix(symbol, "/"), {{"/", "."}});
  ASSIGN_OR_RETURN(const FileDescriptor* const file, FindFile(name));
  const DescriptorPool& pool = *file->pool();
  if (const auto* found = pool.FindServiceByName(name)) {
    return found->DebugString();
  }
  if (const auto* found = pool.FindMethodByName(name)) {
    return found->DebugString();
  }
  if (const auto* found = pool.FindMessageTypeByName(name)) {
    // A server's description may call anything an entry of a map.
    return found->options().map_entry() && found->containing_type() != nullptr
               ? found->containing_type()->DebugString()
               : found->DebugString();
  }
  if (const auto* found = pool.FindEnumTypeByName(name)) {
    return found->DebugString();
  }
  // A part is shown in the whole.
  if (const auto* found = pool.FindEnumValueByName(name)) {
    return found->type()->DebugString();
  }
  if (const auto* found = pool.FindFieldByName(name)) {
    return found->containing_type()->DebugString();
  }
  if (const auto* found = pool.FindOneofByName(name)) {
    return found->containing_type()->DebugString();
  }
  if (const auto* found = pool.FindExtensionByName(name)) {
    return found->DebugString();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", symbol, "\" is a package, of ", file->name(),
      " and perhaps other files; name a service, method or message"));
}

}  // namespace verbena::tool
