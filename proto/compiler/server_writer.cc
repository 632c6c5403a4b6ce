#include "proto/compiler/server_writer.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/compiler/cpp/names.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/printer.h"
#include "proto/compiler/comments.h"
#include "proto/compiler/names.h"

namespace verbena::compiler {
namespace {

namespace pb = google::protobuf;

// The forms in which the handlers of a generated class are written.
enum class Form {
  kBlocking,   // Service
  kCallback,   // CallbackService
  kCoroutine,  // CoroutineService
};
constexpr Form kForms[] = {Form::kBlocking, Form::kCallback, Form::kCoroutine};

// Names of the classes that servers derive from.
const char* ClassOf(Form form) {
  switch (form) {
    case Form::kBlocking:
      return "Service";
    case Form::kCallback:
      return "CallbackService";
    default:
      return "CoroutineService";
  }
}

// The comments of the generated classes; the second and third refer to the
// first.
const char* CommentOf(Form form) {
  switch (form) {
    case Form::kBlocking:
      return "// What a server implements: override the methods, then register "
             "an\n"
             "// object with a ServerBuilder. Several threads may call it at "
             "once. A\n"
             "// method that is not overridden answers UNIMPLEMENTED.\n";
    case Form::kCallback:
      return "// The same with handlers that do not block: they return "
             "reactors\n"
             "// (rpc/server_reactor.h).\n";
    default:
      return "// The same with handlers that are coroutines\n"
             "// (rpc/server_coroutine.h).\n";
  }
}

std::string Request(const pb::MethodDescriptor& method) {
  return pb::compiler::cpp::QualifiedClassName(method.input_type());
}

std::string Response(const pb::MethodDescriptor& method) {
  return pb::compiler::cpp::QualifiedClassName(method.output_type());
}

// The class of what the handler of a method reads from or writes to that
// streams, in the blocking form or as a coroutine.
std::string StreamClass(const pb::MethodDescriptor& method, Form form) {
  const std::string prefix = form == Form::kCoroutine
                                 ? "::verbena::CoroutineServer"
                                 : "::verbena::Server";
  if (method.client_streaming() && method.server_streaming()) {
    return absl::StrCat(prefix, "ReaderWriter<", Response(method), ", ",
                        Request(method), ">");
  }
  if (method.client_streaming()) {
    return absl::StrCat(prefix, "Reader<", Request(method), ">");
  }
  return absl::StrCat(prefix, "Writer<", Response(method), ">");
}

// Request before response, as in gRPC. ReaderWriter classes name what they
// write first.
std::string ReactorClass(const pb::MethodDescriptor& method) {
  if (method.client_streaming() && method.server_streaming()) {
    return absl::StrCat("::verbena::ServerBidiReactor<", Request(method), ", ",
                        Response(method), ">");
  }
  if (method.client_streaming()) {
    return absl::StrCat("::verbena::ServerReadReactor<", Request(method), ">");
  }
  if (method.server_streaming()) {
    return absl::StrCat("::verbena::ServerWriteReactor<", Response(method),
                        ">");
  }
  return "::verbena::ServerUnaryReactor";
}

// Handlers that block return the status, reactors carry it to Finish(),
// coroutines return it by their task.
std::string ResultOf(const pb::MethodDescriptor& method, Form form) {
  switch (form) {
    case Form::kBlocking:
      return "::absl::Status";
    case Form::kCallback:
      return absl::StrCat(ReactorClass(method), "*");
    default:
      return "::verbena::Task<::absl::Status>";
  }
}

// Completes the runtime's New...Method: see Adder().
const char* MethodClass(Form form) {
  switch (form) {
    case Form::kBlocking:
      return "Typed";
    case Form::kCallback:
      return "Callback";
    default:
      return "Coroutine";
  }
}

// Returns the call that adds a method to its service, up to the type of
// its name.
std::string Adder(const pb::MethodDescriptor& method, Form form) {
  const std::string none = "::verbena::internal::NoMessage";
  std::vector<std::string> types = {Request(method), Response(method)};
  // The type of the call is a template argument of the blocking form only. The
  // others tell it from NoMessage.
  if (form == Form::kBlocking) {
    types.insert(types.begin(),
                 absl::StrCat("::verbena::RpcType::k", CallKind(method)));
  } else {
    if (method.client_streaming()) types[0] = none;
    if (method.server_streaming()) types[1] = none;
  }
  if (form == Form::kCoroutine) {
    types.push_back(CallKind(method) == "Unary" ? none
                                                : StreamClass(method, form));
  }
  return absl::StrCat("AddMethod(::verbena::internal::New", MethodClass(form),
                      "Method<\n      ", absl::StrJoin(types, ",\n      "),
                      ">(\n");
}

// The variables of templates that all forms share.
std::map<std::string, std::string> MethodVariables(
    const pb::MethodDescriptor& method, Form form) {
  return {
      {"service", ServiceClass(*method.service())},
      {"class", ClassOf(form)},
      {"method", MethodFunction(method)},
      {"full_name", MethodFullName(method)},
      {"result", ResultOf(method, form)},
      {"context", form == Form::kCallback ? "::verbena::CallbackServerContext"
                                          : "::verbena::ServerContext"},
  };
}

// A parameter of a handler, printed as a declaration or as an argument.
struct Parameter {
  std::string type;
  std::string name;
};

// Returns the parameters of a handler beside the context.
std::vector<Parameter> Parameters(const pb::MethodDescriptor& method,
                                  Form form) {
  std::vector<Parameter> parameters;
  if (!method.client_streaming()) {
    parameters.push_back(
        {absl::StrCat("const ", Request(method), "*"), "request"});
  }
  if (CallKind(method) != "Unary" && form != Form::kCallback) {
    const char* const name = !method.client_streaming()   ? "writer"
                             : !method.server_streaming() ? "reader"
                                                          : "stream";
    parameters.push_back({absl::StrCat(StreamClass(method, form), "*"), name});
  }
  if (!method.server_streaming()) {
    parameters.push_back({absl::StrCat(Response(method), "*"), "response"});
  }
  return parameters;
}

// Prints the parameters of a handler behind its context, each on a line of its
// own that begins with `indent`. `before` and `after` go around each name.
void PrintParameters(const pb::MethodDescriptor& method, Form form,
                     const char* indent, const char* before, const char* after,
                     pb::io::Printer& printer) {
  for (const Parameter& parameter : Parameters(method, form)) {
    printer.Print(
        ",\n"
        "$indent$$type$ $before$$name$$after$",
        "indent", indent, "type", parameter.type, "before", before, "name",
        parameter.name, "after", after);
  }
}

// Adds each method to the service by a lambda that calls the virtual function,
// so that a class that overrides it needs no registration.
void WriteConstructor(const pb::ServiceDescriptor& service, Form form,
                      pb::io::Printer& printer) {
  printer.Print(
      "$service$::$class$::$class$()\n"
      "    : ::verbena::Service(\"$full_name$\") {\n",
      "service", ServiceClass(service), "full_name", service.full_name(),
      "class", ClassOf(form));
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& method = *service.method(i);
    std::map<std::string, std::string> variables =
        MethodVariables(method, form);
    variables["adder"] = Adder(method, form);
    // Qualified, because a method of the service may have any name.
    printer.Print(variables,
                  "  this->::verbena::Service::$adder$"
                  "      \"$full_name$\",\n"
                  "      [this]($context$* context");
    PrintParameters(method, form, "             ", "", "", printer);
    printer.Print(variables,
                  ") {\n"
                  "        return this->$method$(context");
    for (const Parameter& parameter : Parameters(method, form)) {
      printer.Print(", $name$", "name", parameter.name);
    }
    printer.Print(
        ");\n"
        "      }));\n");
  }
  printer.Print(
      "}\n"
      "\n"
      "$service$::$class$::~$class$() = default;\n"
      "\n",
      "service", ServiceClass(service), "class", ClassOf(form));
}

// Comments of the methods stand at the blocking form, which comes first.
void WriteDeclarations(const pb::ServiceDescriptor& service, Form form,
                       pb::io::Printer& printer) {
  printer.Print(CommentOf(form));
  printer.Print(
      "class $class$ : public ::verbena::Service {\n"
      " public:\n"
      "  $class$();\n"
      "  ~$class$() override;\n",
      "class", ClassOf(form));
  printer.Indent();
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& method = *service.method(i);
    printer.Print("\n");
    if (form == Form::kBlocking) PrintComments(method, printer);
    printer.Print(MethodVariables(method, form),
                  "virtual $result$ $method$(\n"
                  "    $context$* context");
    PrintParameters(method, form, "    ", "", "", printer);
    printer.Print(");\n");
  }
  printer.Outdent();
  printer.Print("};\n");
}

// Returns the code around the status of a method that is not overridden.
std::string Ended(const pb::MethodDescriptor& method, Form form) {
  switch (form) {
    case Form::kBlocking:
      return "";
    case Form::kCallback:
      return absl::StrCat("new ::verbena::internal::FinishedReactor<\n      ",
                          ReactorClass(method), ">(\n      ");
    default:
      return "::verbena::internal::EndedWith(\n      ";
  }
}

// Names of parameters are commented out, because nothing uses them.
void WriteDefaults(const pb::ServiceDescriptor& service, Form form,
                   pb::io::Printer& printer) {
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& method = *service.method(i);
    std::map<std::string, std::string> variables =
        MethodVariables(method, form);
    variables["ended"] = Ended(method, form);
    variables.emplace("end", form == Form::kBlocking ? "" : ")");
    printer.Print(variables,
                  "$result$ $service$::$class$::$method$(\n"
                  "    $context$* /*context*/");
    PrintParameters(method, form, "    ", "/*", "*/", printer);
    printer.Print(variables,
                  ") {\n"
                  "  return $ended$::absl::UnimplementedError(\n"
                  "      \"$full_name$ is not implemented by this "
                  "server\")$end$;\n"
                  "}\n"
                  "\n");
  }
}

}  // namespace

void WriteServerDeclarations(const pb::ServiceDescriptor& service,
                             pb::io::Printer& printer) {
  for (const Form form : kForms) {
    if (form != Form::kBlocking) printer.Print("\n");
    WriteDeclarations(service, form, printer);
  }
}

void WriteServerDefinitions(const pb::ServiceDescriptor& service,
                            pb::io::Printer& printer) {
  for (const Form form : kForms) {
    WriteConstructor(service, form, printer);
    WriteDefaults(service, form, printer);
  }
}

}  // namespace verbena::compiler
