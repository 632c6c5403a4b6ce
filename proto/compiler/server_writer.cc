#include "proto/compiler/server_writer.h"

#include <map>
#include <string>

#include "google/protobuf/compiler/cpp/names.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/printer.h"
#include "proto/compiler/comments.h"
#include "proto/compiler/names.h"

namespace verbena::compiler {
namespace {

namespace pb = google::protobuf;

std::map<std::string, std::string> MethodVariables(
    const pb::MethodDescriptor& method) {
  return {
      {"service", ServiceClass(*method.service())},
      {"method", MethodFunction(method)},
      {"full_name", MethodFullName(method)},
      {"request", pb::compiler::cpp::QualifiedClassName(method.input_type())},
      {"response", pb::compiler::cpp::QualifiedClassName(method.output_type())},
  };
}

void WriteConstructor(const pb::ServiceDescriptor& service,
                      pb::io::Printer& printer) {
  printer.Print(
      "$service$::Service::Service()\n"
      "    : ::verbena::Service(\"$full_name$\") {\n",
      "service", ServiceClass(service), "full_name", service.full_name());
  for (int i = 0; i < service.method_count(); ++i) {
    // Qualified, because a method of the service may have any name.
    printer.Print(MethodVariables(*service.method(i)),
                  "  this->::verbena::Service::AddUnaryMethod<\n"
                  "      $request$,\n"
                  "      $response$>(\n"
                  "      \"$full_name$\",\n"
                  "      [this](::verbena::ServerContext* context,\n"
                  "             const $request$* request,\n"
                  "             $response$* response) {\n"
                  "        return this->$method$(context, request, response);\n"
                  "      });\n");
  }
  printer.Print(
      "}\n"
      "\n"
      "$service$::Service::~Service() = default;\n"
      "\n",
      "service", ServiceClass(service));
}

}  // namespace

void WriteServerDeclarations(const pb::ServiceDescriptor& service,
                             pb::io::Printer& printer) {
  printer.Print(
      "// What a server implements: override the methods, then register an\n"
      "// object with a ServerBuilder. Several threads may call it at once. A\n"
      "// method that is not overridden answers UNIMPLEMENTED.\n"
      "class Service : public ::verbena::Service {\n"
      " public:\n"
      "  Service();\n"
      "  ~Service() override;\n");
  printer.Indent();
  for (int i = 0; i < service.method_count(); ++i) {
    printer.Print("\n");
    PrintComments(*service.method(i), printer);
    printer.Print(MethodVariables(*service.method(i)),
                  "virtual ::absl::Status $method$(\n"
                  "    ::verbena::ServerContext* context,\n"
                  "    const $request$* request,\n"
                  "    $response$* response);\n");
  }
  printer.Outdent();
  printer.Print("};\n");
}

void WriteServerDefinitions(const pb::ServiceDescriptor& service,
                            pb::io::Printer& printer) {
  WriteConstructor(service, printer);
  for (int i = 0; i < service.method_count(); ++i) {
    printer.Print(MethodVariables(*service.method(i)),
                  "::absl::Status $service$::Service::$method$(\n"
                  "    ::verbena::ServerContext* /*context*/,\n"
                  "    const $request$* /*request*/,\n"
                  "    $response$* /*response*/) {\n"
                  "  return ::absl::UnimplementedError(\n"
                  "      \"$full_name$ is not implemented by this server\");\n"
                  "}\n"
                  "\n");
  }
}

}  // namespace verbena::compiler
