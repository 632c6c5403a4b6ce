#include "proto/compiler/client_writer.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/compiler/cpp/names.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/printer.h"
#include "proto/compiler/comments.h"
#include "proto/compiler/names.h"

namespace verbena::compiler {
namespace {

namespace pb = google::protobuf;

using Variables = std::map<std::string, std::string>;

// Writes for one service. Both references must outlive it.
class ClientWriter {
 public:
  ClientWriter(const pb::ServiceDescriptor& service, pb::io::Printer& printer);

  void WriteStubInterface();
  void WriteStub();
  void WriteStubDefinitions();
  void WriteMethodDefinitions();

 private:
  // Print `before`, the method's name, the parameters of a blocking (or an
  // asynchronous) call, and `after`.
  void PrintBlocking(Variables variables, const std::string& before,
                     const std::string& after);
  void PrintAsync(Variables variables, const std::string& before,
                  const std::string& after);

  void WriteStubPrivates();

  const pb::ServiceDescriptor& service_;
  pb::io::Printer& printer_;
  Variables variables_;             // What all methods have in common.
  std::vector<Variables> methods_;  // The same and more, for each method.
};

ClientWriter::ClientWriter(const pb::ServiceDescriptor& service,
                           pb::io::Printer& printer)
    : service_(service), printer_(printer) {
  const MemberNames members = ChooseMemberNames(service);
  variables_ = {
      {"service", ServiceClass(service)},
      {"channel", members.channel},
      {"stub", members.stub},
      {"async_class", members.async_class},
      {"async_stub", members.async_stub},
      // A service may have no methods, which alone would use it.
      {"unused", service.method_count() == 0 ? "[[maybe_unused]] " : ""}};
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& method = *service.method(i);
    Variables variables = variables_;
    variables["method"] = MethodFunction(method);
    variables["full_name"] = MethodFullName(method);
    variables["descriptor"] = members.descriptors[i];
    variables["request"] =
        pb::compiler::cpp::QualifiedClassName(method.input_type());
    variables["response"] =
        pb::compiler::cpp::QualifiedClassName(method.output_type());
    methods_.push_back(std::move(variables));
  }
}

void ClientWriter::PrintBlocking(Variables variables, const std::string& before,
                                 const std::string& after) {
  variables["before"] = before;
  variables["after"] = after;
  printer_.Print(variables,
                 "$before$$method$(\n"
                 "    ::verbena::ClientContext* context,\n"
                 "    const $request$& request,\n"
                 "    $response$* response)$after$\n");
}

void ClientWriter::PrintAsync(Variables variables, const std::string& before,
                              const std::string& after) {
  variables["before"] = before;
  variables["after"] = after;
  printer_.Print(variables,
                 "$before$$method$(\n"
                 "    ::verbena::ClientContext* context,\n"
                 "    const $request$* request,\n"
                 "    $response$* response,\n"
                 "    ::verbena::UnaryCallback on_done)$after$\n");
}

void ClientWriter::WriteStubInterface() {
  printer_.Print(
      "// What a client can call. Stub calls a server; a test may have its\n"
      "// own.\n"
      "class StubInterface {\n"
      " public:\n"
      "  // The same methods without waiting: each returns at once, and\n"
      "  // `on_done` gets the status. `context`, `request` and `response`\n"
      "  // must live until then.\n"
      "  class async_interface {\n"
      "   public:\n"
      "    virtual ~async_interface() = default;\n");
  printer_.Indent();
  printer_.Indent();
  for (int i = 0; i < service_.method_count(); ++i) {
    printer_.Print("\n");
    PrintComments(*service_.method(i), printer_);
    PrintAsync(methods_[i], "virtual void ", " = 0;");
  }
  printer_.Outdent();
  printer_.Outdent();
  printer_.Print(
      "  };\n"
      "\n"
      "  virtual ~StubInterface() = default;\n");
  printer_.Indent();
  for (int i = 0; i < service_.method_count(); ++i) {
    printer_.Print("\n");
    PrintComments(*service_.method(i), printer_);
    PrintBlocking(methods_[i], "virtual ::absl::Status ", " = 0;");
  }
  printer_.Outdent();
  printer_.Print(
      "\n"
      "  virtual async_interface* async() = 0;\n"
      "};\n"
      "\n");
}

void ClientWriter::WriteStub() {
  printer_.Print(
      "// Calls the service over a channel. Any number of threads may use one\n"
      "// stub at once.\n"
      "class Stub final : public StubInterface {\n"
      " public:\n"
      "  explicit Stub(std::shared_ptr<::verbena::Channel> channel);\n"
      "  Stub(const Stub&) = delete;\n"
      "  Stub& operator=(const Stub&) = delete;\n");
  printer_.Indent();
  for (const Variables& method : methods_) {
    printer_.Print("\n");
    PrintBlocking(method, "::absl::Status ", " override;");
  }
  printer_.Outdent();
  printer_.Print(
      "\n"
      "  async_interface* async() override;\n");
  WriteStubPrivates();
  printer_.Print(
      "static std::unique_ptr<Stub> NewStub(\n"
      "    std::shared_ptr<::verbena::Channel> channel);\n"
      "\n");
}

void ClientWriter::WriteStubPrivates() {
  printer_.Print(variables_,
                 "\n"
                 " private:\n"
                 "  class $async_class$ final\n"
                 "      : public StubInterface::async_interface {\n"
                 "   public:\n"
                 "    explicit $async_class$(Stub* stub) : $stub$(stub) {}\n");
  printer_.Indent();
  printer_.Indent();
  for (const Variables& method : methods_) {
    printer_.Print("\n");
    PrintAsync(method, "void ", " override;");
  }
  printer_.Outdent();
  printer_.Outdent();
  printer_.Print(
      variables_,
      "\n"
      "   private:\n"
      "    $unused$Stub* const $stub$;  // The one that this is part of.\n"
      "  };\n"
      "\n");
  for (const Variables& method : methods_) {
    printer_.Print(
        method, "  static const ::verbena::MethodDescriptor $descriptor$;\n");
  }
  printer_.Print(variables_,
                 "  const std::shared_ptr<::verbena::Channel> $channel$;\n"
                 "  $async_class$ $async_stub${this};\n"
                 "};\n"
                 "\n");
}

void ClientWriter::WriteStubDefinitions() {
  printer_.Print(
      variables_,
      "$service$::Stub::Stub(std::shared_ptr<::verbena::Channel> channel)\n"
      "    : $channel$(std::move(channel)) {}\n"
      "\n"
      "$service$::StubInterface::async_interface* $service$::Stub::async() {\n"
      "  return &$async_stub$;\n"
      "}\n"
      "\n"
      "std::unique_ptr<$service$::Stub> $service$::NewStub(\n"
      "    std::shared_ptr<::verbena::Channel> channel) {\n"
      "  return std::make_unique<Stub>(std::move(channel));\n"
      "}\n"
      "\n");
}

void ClientWriter::WriteMethodDefinitions() {
  const std::string stub = variables_["service"] + "::Stub::";
  for (const Variables& method : methods_) {
    printer_.Print(method,
                   "constexpr ::verbena::MethodDescriptor\n"
                   "    $service$::Stub::$descriptor$(\n"
                   "        \"$full_name$\");\n"
                   "\n");
    PrintBlocking(method, "::absl::Status " + stub, " {");
    printer_.Print(method,
                   "  return ::verbena::BlockingUnaryCall(\n"
                   "      *$channel$, $descriptor$, context,\n"
                   "      request, response);\n"
                   "}\n"
                   "\n");
    PrintAsync(method, "void " + stub + variables_["async_class"] + "::", " {");
    printer_.Print(method,
                   "  ::verbena::AsyncUnaryCall(\n"
                   "      *$stub$->$channel$, $descriptor$, context,\n"
                   "      request, response, std::move(on_done));\n"
                   "}\n"
                   "\n");
  }
}

}  // namespace

void WriteClientDeclarations(const pb::ServiceDescriptor& service,
                             pb::io::Printer& printer) {
  ClientWriter writer(service, printer);
  writer.WriteStubInterface();
  writer.WriteStub();
}

void WriteClientDefinitions(const pb::ServiceDescriptor& service,
                            pb::io::Printer& printer) {
  ClientWriter writer(service, printer);
  writer.WriteStubDefinitions();
  writer.WriteMethodDefinitions();
}

}  // namespace verbena::compiler
