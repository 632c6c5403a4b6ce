#include "proto/compiler/server_writer.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
      {"kind", CallKind(method)},
      {"request", pb::compiler::cpp::QualifiedClassName(method.input_type())},
      {"response", pb::compiler::cpp::QualifiedClassName(method.output_type())},
  };
}

struct Parameter {
  std::string type;
  std::string name;
};

// What a handler gets beside the context.
std::vector<Parameter> Parameters(const pb::MethodDescriptor& method) {
  const std::string request =
      pb::compiler::cpp::QualifiedClassName(method.input_type());
  const std::string response =
      pb::compiler::cpp::QualifiedClassName(method.output_type());
  if (method.client_streaming() && method.server_streaming()) {
    return {{absl::StrCat("::verbena::ServerReaderWriter<", response, ", ",
                          request, ">*"),
             "stream"}};
  }
  if (method.client_streaming()) {
    return {{absl::StrCat("::verbena::ServerReader<", request, ">*"), "reader"},
            {response + "*", "response"}};
  }
  if (method.server_streaming()) {
    return {
        {absl::StrCat("const ", request, "*"), "request"},
        {absl::StrCat("::verbena::ServerWriter<", response, ">*"), "writer"}};
  }
  return {{absl::StrCat("const ", request, "*"), "request"},
          {response + "*", "response"}};
}

// Prints the parameters of a handler behind its context, each on a line of its
// own that begins with `indent`. `before` and `after` go around each name.
void PrintParameters(const pb::MethodDescriptor& method, const char* indent,
                     const char* before, const char* after,
                     pb::io::Printer& printer) {
  for (const Parameter& parameter : Parameters(method)) {
    printer.Print(
        ",\n"
        "$indent$$type$ $before$$name$$after$",
        "indent", indent, "type", parameter.type, "before", before, "name",
        parameter.name, "after", after);
  }
}

void WriteConstructor(const pb::ServiceDescriptor& service,
                      pb::io::Printer& printer) {
  printer.Print(
      "$service$::Service::Service()\n"
      "    : ::verbena::Service(\"$full_name$\") {\n",
      "service", ServiceClass(service), "full_name", service.full_name());
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& method = *service.method(i);
    // Qualified, because a method of the service may have any name.
    printer.Print(MethodVariables(method),
                  "  this->::verbena::Service::Add$kind$Method<\n"
                  "      $request$,\n"
                  "      $response$>(\n"
                  "      \"$full_name$\",\n"
                  "      [this](::verbena::ServerContext* context");
    PrintParameters(method, "             ", "", "", printer);
    printer.Print(
        ") {\n"
        "        return this->$method$(context",
        "method", MethodFunction(method));
    for (const Parameter& parameter : Parameters(method)) {
      printer.Print(", $name$", "name", parameter.name);
    }
    printer.Print(
        ");\n"
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
    printer.Print(
        "virtual ::absl::Status $method$(\n"
        "    ::verbena::ServerContext* context",
        "method", MethodFunction(*service.method(i)));
    PrintParameters(*service.method(i), "    ", "", "", printer);
    printer.Print(");\n");
  }
  printer.Outdent();
  printer.Print("};\n");
}

void WriteServerDefinitions(const pb::ServiceDescriptor& service,
                            pb::io::Printer& printer) {
  WriteConstructor(service, printer);
  for (int i = 0; i < service.method_count(); ++i) {
    const std::map<std::string, std::string> variables =
        MethodVariables(*service.method(i));
    printer.Print(variables,
                  "::absl::Status $service$::Service::$method$(\n"
                  "    ::verbena::ServerContext* /*context*/");
    PrintParameters(*service.method(i), "    ", "/*", "*/", printer);
    printer.Print(variables,
                  ") {\n"
                  "  return ::absl::UnimplementedError(\n"
                  "      \"$full_name$ is not implemented by this server\");\n"
                  "}\n"
                  "\n");
  }
}

}  // namespace verbena::compiler
