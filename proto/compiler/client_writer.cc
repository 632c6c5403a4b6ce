#include "proto/compiler/client_writer.h"

#include <map>
#include <string>
#include <utility>
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
  // A method that streams has neither request nor response in the direction in
  // which it does.
  struct Method {
    bool has_request = false;
    bool has_response = false;
    bool unary() const { return has_request && has_response; }
    Variables variables;  // Also those of ClientWriter::variables_.
  };

  // Prints `before`, what a blocking call returns, `scope`, the method's name
  // and parameters, and `after`.
  void PrintBlocking(const Method& method, const std::string& before,
                     const std::string& scope, const std::string& after);
  // As PrintBlocking(), but for an asynchronous form, which returns nothing and
  // whose last parameter is `end`.
  void PrintAsync(const Method& method, const std::string& before,
                  const std::string& end, const std::string& after);
  // Prints the asynchronous forms: unary methods have two (callback, reactor),
  // streaming methods have one (reactor).
  void PrintAsyncForms(const Method& method, const std::string& before,
                       const std::string& after);

  void WriteAsyncInterface();
  void WriteCoInterface();
  void WriteCoMethod(const Method& method);
  void WriteStubPrivates();
  // The body of a blocking call.
  void WriteCall(const Method& method);
  void WriteAsyncDefinitions(const Method& method);

  const pb::ServiceDescriptor& service_;
  pb::io::Printer& printer_;
  Variables variables_;  // Common to all methods.
  std::vector<Method> methods_;
};

constexpr char kCallback[] = "::verbena::UnaryCallback on_done";

// Adds what the client of `method` gets ("result"), the function of the runtime
// that makes the call ("call"), the reactor of an asynchronous call ("reactor")
// and what a coroutine gets ("co_result").
void AddResultAndCall(const pb::MethodDescriptor& method,
                      Variables& variables) {
  const std::string kind = CallKind(method);
  if (kind == "Unary") {
    variables["result"] = "::absl::Status";
    variables["call"] = "::verbena::BlockingUnaryCall";
    variables["reactor"] = "::verbena::ClientUnaryReactor";
    return;
  }
  std::string stream = "Reader";
  std::string reactor = "Read";
  std::string types = variables["response"];
  if (kind == "ClientStreaming") {
    stream = "Writer";
    reactor = "Write";
    types = variables["request"];
  } else if (kind == "BidiStreaming") {
    stream = "ReaderWriter";
    reactor = "Bidi";
    types = absl::StrCat(variables["request"], ", ", types);
  }
  variables["result"] = absl::StrCat("std::unique_ptr<::verbena::Client",
                                     stream, "<", types, ">>");
  variables["call"] = absl::StrCat("::verbena::", kind, "Call<", types, ">");
  variables["reactor"] =
      absl::StrCat("::verbena::Client", reactor, "Reactor<", types, ">");
  variables["co_result"] =
      absl::StrCat("::verbena::CoroutineClient", stream, "<", types, ">");
}

// Gives each method a copy of the service's variables, so that one map serves a
// whole Print().
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
      {"co_async", members.co_async},
      {"co_executor", members.co_executor},
  };
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& method = *service.method(i);
    Method added = {.has_request = !method.client_streaming(),
                    .has_response = !method.server_streaming(),
                    .variables = variables_};
    added.variables["method"] = MethodFunction(method);
    added.variables["full_name"] = MethodFullName(method);
    added.variables["descriptor"] = members.descriptors[i];
    added.variables["request"] =
        pb::compiler::cpp::QualifiedClassName(method.input_type());
    added.variables["response"] =
        pb::compiler::cpp::QualifiedClassName(method.output_type());
    added.variables["sent"] = added.has_request ? "request" : "nullptr";
    AddResultAndCall(method, added.variables);
    methods_.push_back(std::move(added));
  }
  // Only methods would use it.
  variables_["unused"] = methods_.empty() ? "[[maybe_unused]] " : "";
}

// Prints a parameter for the request and one for the response, unless that
// direction streams.
void ClientWriter::PrintBlocking(const Method& method,
                                 const std::string& before,
                                 const std::string& scope,
                                 const std::string& after) {
  Variables variables = method.variables;
  variables["before"] = before;
  variables["scope"] = scope;
  variables["after"] = after;
  printer_.Print(variables, "$before$$result$");
  printer_.Print(method.unary() ? " " : "\n");
  printer_.Print(variables,
                 "$scope$$method$(\n"
                 "    ::verbena::ClientContext* context");
  if (method.has_request) {
    printer_.Print(variables,
                   ",\n"
                   "    const $request$& request");
  }
  if (method.has_response) {
    printer_.Print(variables,
                   ",\n"
                   "    $response$* response");
  }
  printer_.Print(variables, ")$after$\n");
}

// Takes the request by pointer, unlike the blocking form, because it must live
// until the call is done.
void ClientWriter::PrintAsync(const Method& method, const std::string& before,
                              const std::string& end,
                              const std::string& after) {
  Variables variables = method.variables;
  variables["before"] = before;
  variables["end"] = end;
  variables["after"] = after;
  printer_.Print(variables,
                 "$before$$method$(\n"
                 "    ::verbena::ClientContext* context");
  if (method.has_request) {
    printer_.Print(variables,
                   ",\n"
                   "    const $request$* request");
  }
  if (method.has_response) {
    printer_.Print(variables,
                   ",\n"
                   "    $response$* response");
  }
  printer_.Print(variables,
                 ",\n"
                 "    $end$)$after$\n");
}

void ClientWriter::PrintAsyncForms(const Method& method,
                                   const std::string& before,
                                   const std::string& after) {
  if (method.unary()) PrintAsync(method, before, kCallback, after);
  PrintAsync(method, before,
             absl::StrCat(method.variables.at("reactor"), "* reactor"), after);
}

void ClientWriter::WriteAsyncInterface() {
  printer_.Print(
      "  // The same methods without waiting: each returns at once. `on_done`\n"
      "  // gets the status of a unary call; a `reactor` starts its call with\n"
      "  // StartCall() (rpc/client_reactor.h). What is given must live until\n"
      "  // the call is done.\n"
      "  class async_interface {\n"
      "   public:\n"
      "    virtual ~async_interface() = default;\n");
  printer_.Indent();
  printer_.Indent();
  for (int i = 0; i < service_.method_count(); ++i) {
    printer_.Print("\n");
    PrintComments(*service_.method(i), printer_);
    PrintAsyncForms(methods_[i], "virtual void ", " = 0;");
  }
  printer_.Outdent();
  printer_.Outdent();
  printer_.Print("  };\n");
}

// A unary method becomes an awaitable around the callback form, a streaming
// method an object around the reactor form. Requests are passed by address,
// because they live until the call is done.
void ClientWriter::WriteCoMethod(const Method& method) {
  if (method.unary()) {
    printer_.Print(method.variables,
                   "\n"
                   "auto $method$(\n"
                   "    ::verbena::ClientContext* context,\n"
                   "    const $request$& request,\n"
                   "    $response$* response) {\n"
                   "  return ::verbena::internal::UnaryAwaitable(\n"
                   "      $co_executor$,\n"
                   "      [async = $co_async$, context, request = &request,\n"
                   "       response](::verbena::UnaryCallback on_done) {\n"
                   "        async->$method$(context, request, response,\n"
                   "            std::move(on_done));\n"
                   "      });\n"
                   "}\n");
    return;
  }
  printer_.Print(method.variables,
                 "\n"
                 "$co_result$ $method$(\n"
                 "    ::verbena::ClientContext* context");
  if (method.has_request) {
    printer_.Print(method.variables,
                   ",\n"
                   "    const $request$& request");
  }
  if (method.has_response) {
    printer_.Print(method.variables,
                   ",\n"
                   "    $response$* response");
  }
  printer_.Print(method.variables,
                 ") {\n"
                 "  return $co_result$(\n"
                 "      $co_executor$, [&](auto* reactor) {\n"
                 "        $co_async$->$method$(context");
  if (method.has_request) printer_.Print(", &request");
  if (method.has_response) printer_.Print(", response");
  printer_.Print(
      ", reactor);\n"
      "      });\n"
      "}\n");
}

// Has no virtual functions: it only wraps async_interface, so a test that
// implements that has coroutines as well.
void ClientWriter::WriteCoInterface() {
  printer_.Print(
      variables_,
      "\n"
      "  // The same methods for coroutines, as\n"
      "  // `co_await stub->co()->...`: see rpc/client_coroutine.h.\n"
      "  class co_interface final {\n"
      "   public:\n"
      "    co_interface(async_interface* async,\n"
      "                 ::verbena::Executor* executor)\n"
      "        : $co_async$(async), $co_executor$(executor) {}\n"
      "    co_interface* operator->() { return this; }\n");
  printer_.Indent();
  printer_.Indent();
  for (const Method& method : methods_) WriteCoMethod(method);
  printer_.Outdent();
  printer_.Outdent();
  printer_.Print(variables_,
                 "\n"
                 "   private:\n"
                 "    $unused$async_interface* const $co_async$;\n"
                 "    $unused$::verbena::Executor* const $co_executor$;\n"
                 "  };\n");
}

// The nested classes come first, because the functions behind them name those
// classes.
void ClientWriter::WriteStubInterface() {
  printer_.Print(
      "// What a client can call. Stub calls a server; a test may have its\n"
      "// own.\n"
      "class StubInterface {\n"
      " public:\n");
  WriteAsyncInterface();
  WriteCoInterface();
  printer_.Print(
      "\n"
      "  virtual ~StubInterface() = default;\n");
  printer_.Indent();
  for (int i = 0; i < service_.method_count(); ++i) {
    printer_.Print("\n");
    PrintComments(*service_.method(i), printer_);
    PrintBlocking(methods_[i], "virtual ", "", " = 0;");
  }
  printer_.Outdent();
  printer_.Print(
      "\n"
      "  virtual async_interface* async() = 0;\n"
      "  // Coroutines that have waited go on where `executor` says.\n"
      "  co_interface co(::verbena::Executor* executor = nullptr) {\n"
      "    return co_interface(async(), executor);\n"
      "  }\n"
      "};\n"
      "\n");
}

// Every function overrides one of StubInterface, so a test can take another
// implementation. Comments stand at the interface only.
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
  for (const Method& method : methods_) {
    printer_.Print("\n");
    PrintBlocking(method, "", "", " override;");
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

// The class of the asynchronous forms is a member of the stub, and leads back
// to it by a pointer.
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
  for (const Method& method : methods_) {
    printer_.Print("\n");
    PrintAsyncForms(method, "void ", " override;");
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
  for (const Method& method : methods_) {
    printer_.Print(
        method.variables,
        "  static const ::verbena::MethodDescriptor $descriptor$;\n");
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

void ClientWriter::WriteCall(const Method& method) {
  // A stream keeps the channel, and a unary call has ended before the stub.
  printer_.Print(method.variables, method.unary()
                                       ? "  return $call$(\n      *$channel$"
                                       : "  return $call$(\n      $channel$");
  printer_.Print(method.variables, ", $descriptor$, context");
  if (method.unary()) {
    printer_.Print(
        ",\n"
        "      request, response");
  } else if (method.has_request) {
    printer_.Print(", request");
  } else if (method.has_response) {
    printer_.Print(", response");
  }
  printer_.Print(
      ");\n"
      "}\n"
      "\n");
}

// Prints the forms in the order of PrintAsyncForms(). Each hands on to the
// function of the runtime for its kind of method.
void ClientWriter::WriteAsyncDefinitions(const Method& method) {
  const std::string before =
      absl::StrCat("void ", variables_["service"],
                   "::Stub::", variables_["async_class"], "::");
  if (method.unary()) {
    PrintAsync(method, before, kCallback, " {");
    printer_.Print(method.variables,
                   "  ::verbena::AsyncUnaryCall(\n"
                   "      *$stub$->$channel$, $descriptor$, context,\n"
                   "      request, response, std::move(on_done));\n"
                   "}\n"
                   "\n");
  }
  PrintAsync(method, before,
             absl::StrCat(method.variables.at("reactor"), "* reactor"), " {");
  if (method.unary()) {
    printer_.Print(method.variables,
                   "  ::verbena::BindUnaryReactor(\n"
                   "      *$stub$->$channel$, $descriptor$, context,\n"
                   "      request, response, reactor);\n");
  } else if (method.has_response) {
    printer_.Print(method.variables,
                   "  ::verbena::BindWriteReactor(\n"
                   "      $stub$->$channel$, $descriptor$, context,\n"
                   "      response, reactor);\n");
  } else {
    printer_.Print(method.variables,
                   "  ::verbena::BindReactor(\n"
                   "      $stub$->$channel$, $descriptor$, context,\n"
                   "      $sent$, reactor);\n");
  }
  printer_.Print(
      "}\n"
      "\n");
}

void ClientWriter::WriteMethodDefinitions() {
  const std::string stub = variables_["service"] + "::Stub::";
  for (const Method& method : methods_) {
    printer_.Print(method.variables,
                   "constexpr ::verbena::MethodDescriptor\n"
                   "    $service$::Stub::$descriptor$(\n"
                   "        \"$full_name$\");\n"
                   "\n");
    PrintBlocking(method, "", stub, " {");
    WriteCall(method);
    WriteAsyncDefinitions(method);
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
