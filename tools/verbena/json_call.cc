#include "tools/verbena/json_call.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"
#include "rpc/byte_message.h"
#include "transport/base/status_macros.h"

namespace verbena::tool {

using google::protobuf::Message;

constexpr char kUnreadable[] = "the request can't be read";

std::optional<std::string> ReadAll(std::istream& in) {
  std::string bytes;
  char part[64 << 10];
  // Reading a folder fails; iterators would throw.
  while (!in.bad() && (in.read(part, sizeof(part)) || in.gcount() > 0)) {
    bytes.append(part, in.gcount());
  }
  if (in.bad() || !in.eof()) return std::nullopt;
  return bytes;
}

std::string JsonCall::name() const {
  return absl::StrCat(method_.service()->full_name(), "/", method_.name());
}

absl::StatusOr<std::string> JsonCall::ToBytes(const std::string& json) {
  const std::unique_ptr<Message> message(
      messages_.GetPrototype(method_.input_type())->New());
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(json, message.get());
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request is not a ", method_.input_type()->full_name(),
                     " in JSON: ", std::string(parsed.message())));
  }
  // A proto2 message may lack required fields.
  if (!message->IsInitialized()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the request lacks ", message->InitializationErrorString(), ", which ",
        method_.input_type()->full_name(), " requires"));
  }
  return message->SerializeAsString();
}

// Responses of a stream stand on one line each, so that scripts can read them
// one by one.
absl::Status JsonCall::Print(const std::string& bytes, std::ostream& out) {
  const std::unique_ptr<Message> message(
      messages_.GetPrototype(method_.output_type())->New());
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = !method_.server_streaming();
  options.preserve_proto_field_names = true;
  std::string json;
  // Partial, so that a response without required fields is shown, too.
  if (!message->ParsePartialFromString(bytes) ||
      !google::protobuf::util::MessageToJsonString(*message, &json, options)
           .ok()) {
    return absl::InternalError(absl::StrCat("the response is not a ",
                                            method_.output_type()->full_name(),
                                            " as the .proto defines it"));
  }
  out << json << (method_.server_streaming() ? "\n" : "") << std::flush;
  return absl::OkStatus();
}

absl::Status JsonCall::WriteLines(std::istream& in,
                                  GenericStub::ReaderWriter* stream) {
  for (std::string line; std::getline(in, line);) {
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    ASSIGN_OR_RETURN(std::string bytes, ToBytes(line));
    // The call has ended; its status comes from Finish().
    if (!stream->Write(ByteMessage(std::move(bytes)))) break;
  }
  if (in.bad()) return absl::InvalidArgumentError(kUnreadable);
  stream->WritesDone();
  return absl::OkStatus();
}

// Reads a single request before the call begins, so that bad input makes no
// call. Streams of either kind are made as bidi calls, with a thread that
// prints.
absl::Status JsonCall::Run(std::istream& in, std::ostream& out,
                           bool* bad_input) {
  std::string only;
  if (!method_.client_streaming()) {
    const std::optional<std::string> json = ReadAll(in);
    *bad_input = !json.has_value();
    if (*bad_input) return absl::InvalidArgumentError(kUnreadable);
    // No input is an empty message, so that such methods need no request.
    const bool empty = absl::StripAsciiWhitespace(*json).empty();
    absl::StatusOr<std::string> bytes = ToBytes(empty ? "{}" : *json);
    *bad_input = !bytes.ok();
    if (!bytes.ok()) return bytes.status();
    only = *std::move(bytes);
  }
  if (!method_.client_streaming() && !method_.server_streaming()) {
    ByteMessage response;
    RETURN_IF_ERROR(stub_.UnaryCall(&context_, name(),
                                    ByteMessage(std::move(only)), &response));
    return Print(response.bytes(), out);
  }

  const auto stream = stub_.BidiStreamingCall(&context_, name());
  absl::Status printed;
  absl::Status written;
  // Responses are shown while requests are still being read.
  std::thread reader([&] {
    ByteMessage response;
    while (printed.ok() && stream->Read(&response)) {
      printed = Print(response.bytes(), out);
    }
    // Nobody would read what still comes.
    if (!printed.ok()) context_.TryCancel();
  });
  if (method_.client_streaming()) {
    written = WriteLines(in, stream.get());
    if (!written.ok()) context_.TryCancel();
  } else {
    stream->Write(ByteMessage(std::move(only)));
    stream->WritesDone();
  }
  // Before Finish(), which takes the status when nothing is left to read.
  reader.join();
  const absl::Status ended = stream->Finish();
  *bad_input = !written.ok();
  if (!written.ok()) return written;
  return printed.ok() ? ended : printed;
}

}  // namespace verbena::tool
