#include "rpc/status_details.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "transport/base/limits.h"

namespace verbena {
namespace {

using google::protobuf::Any;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// The fields of google.rpc.Status. Its generated class is not used: it would
// have to be the same as that of whoever links its own.
constexpr uint32_t kCode =
    WireFormatLite::MakeTag(1, WireFormatLite::WIRETYPE_VARINT);
constexpr uint32_t kMessage =
    WireFormatLite::MakeTag(2, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kDetails =
    WireFormatLite::MakeTag(3, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

struct Fields {
  uint64_t code = 0;
  std::string message;
  std::vector<Any> details;
};

bool ReadText(CodedInputStream& in, std::string* text) {
  uint32_t bytes = 0;
  return in.ReadVarint32(&bytes) &&
         in.ReadString(text, static_cast<int>(bytes));
}

// Returns false if the bytes are not of that message.
bool ReadFields(absl::string_view bytes, Fields* fields) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  while (const uint32_t tag = in.ReadTag()) {
    std::string detail;
    switch (tag) {
      case kCode:
        if (!in.ReadVarint64(&fields->code)) return false;
        break;
      case kMessage:
        if (!ReadText(in, &fields->message)) return false;
        break;
      case kDetails:
        if (!ReadText(in, &detail) ||
            !fields->details.emplace_back().ParseFromString(detail)) {
          return false;
        }
        break;
      // Unknown fields are skipped, as every parser of protobuf does.
      default:
        if (!WireFormatLite::SkipField(&in, tag)) return false;
    }
  }
  return in.ConsumedEntireMessage();
}

void AddDetails(const std::vector<Any>& details, absl::Status* status) {
  for (const Any& any : details) {
    status->SetPayload(any.type_url(), absl::Cord(any.value()));
  }
}

}  // namespace

// The only way to ask: absl::Status has no count of its payloads.
bool HasStatusDetails(const absl::Status& status) {
  bool has = false;
  status.ForEachPayload(
      [&has](absl::string_view, const absl::Cord&) { has = true; });
  return has;
}

// Writes the fields by hand, in the order of their numbers, and leaves out
// those with default values.
std::string ToGoogleRpcStatus(const absl::Status& status) {
  // absl::Status has them in an order of its own, which may change.
  std::map<std::string, std::string> payloads;
  status.ForEachPayload(
      [&payloads](absl::string_view url, const absl::Cord& payload) {
        payloads.emplace(url, std::string(payload));
      });
  std::string bytes;
  {
    StringOutputStream stream(&bytes);
    CodedOutputStream out(&stream);
    const auto write = [&out](uint32_t tag, const std::string& text) {
      out.WriteTag(tag);
      out.WriteVarint32(static_cast<uint32_t>(text.size()));
      out.WriteString(text);
    };
    if (!status.ok()) {
      out.WriteTag(kCode);
      out.WriteVarint32(static_cast<uint32_t>(status.code()));
    }
    if (!status.message().empty()) {
      write(kMessage, std::string(status.message()));
    }
    for (auto& [url, payload] : payloads) {
      Any any;
      any.set_type_url(url);
      any.set_value(std::move(payload));
      write(kDetails, any.SerializeAsString());
    }
  }
  return bytes;
}

absl::Status FromGoogleRpcStatus(absl::string_view bytes,
                                 absl::Status* status) {
  Fields fields;
  if (!ReadFields(bytes, &fields)) {
    return absl::InvalidArgumentError(absl::StrCat(
        bytes.size(), " bytes cannot be parsed as a google.rpc.Status"));
  }
  *status = absl::Status(
      fields.code <= static_cast<uint64_t>(absl::StatusCode::kUnauthenticated)
          ? static_cast<absl::StatusCode>(fields.code)
          : absl::StatusCode::kUnknown,
      fields.message);
  AddDetails(fields.details, status);
  return absl::OkStatus();
}

void TakeStatusDetails(absl::string_view bytes, absl::Status* status) {
  Fields fields;
  // The status itself has come, and counts without details.
  if (!ReadFields(bytes, &fields)) return;
  // A message that was cut at the limit is the beginning of the one among the
  // details.
  if (status->message().size() == transport::kMaxStatusMessageBytes &&
      absl::StartsWith(fields.message, status->message())) {
    *status = absl::Status(status->code(), fields.message);
  }
  AddDetails(fields.details, status);
}

}  // namespace verbena
