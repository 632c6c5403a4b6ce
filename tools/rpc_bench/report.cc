#include "tools/rpc_bench/report.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/check.h"

namespace verbena::bench {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// `json`, an object, with one more field.
void AppendField(absl::string_view name, absl::string_view value,
                 std::string& json) {
  json.pop_back();
  absl::StrAppend(&json, json.size() > 1 ? "," : "", "\"", name, "\":", value,
                  "}");
}

// Protobuf's JSON, and null for what it leaves out.
std::string JsonOf(const Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &json, options);
  CHECK(status.ok()) << status.ToString();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message.GetDescriptor()->field(i);
    if (field->has_presence() &&
        !message.GetReflection()->HasField(message, field)) {
      AppendField(field->name(), "null", json);
    }
  }
  return json;
}

// One column for each number or text in `message`, those in messages inside it
// included: its name, or its value in `result`, empty if that is absent.
void AppendColumns(const Message& message, bool names, absl::string_view prefix,
                   bool present, std::vector<std::string>& columns) {
  const google::protobuf::Reflection& of = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message.GetDescriptor()->field(i);
    const bool here =
        present && (!field->has_presence() || of.HasField(message, field));
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      AppendColumns(of.GetMessage(message, field), names,
                    absl::StrCat(field->name(), "."), here, columns);
    } else if (names) {
      columns.push_back(absl::StrCat(prefix, field->name()));
    } else if (!here) {
      columns.emplace_back();
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      columns.push_back(absl::StrCat(
          "\"",
          absl::StrReplaceAll(of.GetString(message, field), {{"\"", "\"\""}}),
          "\""));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
      columns.push_back(absl::StrCat(of.GetUInt32(message, field)));
    } else {
      columns.push_back(absl::StrFormat("%.15g", of.GetDouble(message, field)));
    }
  }
}

std::string CsvLine(const Report::Result& result, bool names) {
  std::vector<std::string> columns;
  AppendColumns(result, names, "", /*present=*/true, columns);
  return absl::StrCat(absl::StrJoin(columns, ","), "\n");
}

}  // namespace

const Report::Result* FindResult(const Report& report, absl::string_view layer,
                                 absl::string_view op, uint32_t size_bytes,
                                 uint32_t outstanding) {
  for (const Report::Result& result : report.results()) {
    if (result.layer() == layer && result.op() == op &&
        result.size_bytes() == size_bytes &&
        result.outstanding() == outstanding) {
      return &result;
    }
  }
  return nullptr;
}

absl::string_view HowSidesWait(const Report& report) {
  return report.results_size() > 0 && report.results(0).mode() == "events"
             ? "sleep between messages"
             : "poll";
}

void AddRatios(Report& report) {
  for (Report::Result& result : *report.mutable_results()) {
    // No call succeeded: nothing to compare.
    if (!result.has_p50_us()) continue;
    const auto of_verbs = [&](absl::string_view op) -> Report::Result {
      const Report::Result* const found = FindResult(
          report, "verbs", op, result.size_bytes(), result.outstanding());
      return found == nullptr ? Report::Result() : *found;
    };
    const Report::Result verbs = of_verbs(result.op());
    if (verbs.p50_us() > 0) {
      result.set_p50_ratio_to_verbs(Rounded(result.p50_us() / verbs.p50_us()));
    }
    if (verbs.calls_per_s() > 0) {
      result.set_rate_ratio_to_verbs(
          Rounded(result.calls_per_s() / verbs.calls_per_s()));
    }
    const double write = of_verbs("write").calls_per_s();
    const double read = of_verbs("read").calls_per_s();
    if (result.op() == "echo" && write > 0 && read > 0) {
      result.set_share_of_raw_bandwidth(
          Rounded(result.calls_per_s() * (1 / write + 1 / read)));
    }
  }
}

std::string Json(const Report& report) {
  Report rest = report;
  rest.clear_results();
  std::string json = JsonOf(rest);
  // The results one by one, for JsonOf() looks at one message only.
  json = absl::StrReplaceAll(
      json, {{"\"results\":[]",
              absl::StrCat("\"results\":[",
                           absl::StrJoin(report.results(), ",",
                                         [](std::string* out,
                                            const Report::Result& result) {
                                           out->append(JsonOf(result));
                                         }),
                           "]")}});
  return absl::StrCat(json, "\n");
}

std::string Csv(const Report& report) {
  std::string csv;
  for (const Report::Result& result : report.results()) {
    if (csv.empty()) csv = CsvLine(result, /*names=*/true);
    csv += CsvLine(result, /*names=*/false);
  }
  return csv;
}

}  // namespace verbena::bench
