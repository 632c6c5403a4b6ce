#include "tools/rpc_bench/report.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "tools/json/proto_json.h"
#include "tools/load/workload.h"

namespace verbena::bench {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Appends a column for each number or text in `message`, and in the messages
// inside it. A value is empty if its field is absent or `present` is false.
void AppendColumns(const Message& message, absl::string_view prefix,
                   bool present, std::vector<std::string>& names,
                   std::vector<std::string>& values) {
  const google::protobuf::Reflection& of = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message.GetDescriptor()->field(i);
    const std::string name = absl::StrCat(prefix, field->name());
    const bool here =
        present && (!field->has_presence() || of.HasField(message, field));
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      AppendColumns(of.GetMessage(message, field), name + ".", here, names,
                    values);
      continue;
    }
    names.push_back(name);
    std::string& value = values.emplace_back();
    if (here && field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      // CSV escapes a quote only by a second one, unlike protobuf's printer.
      value =
          absl::StrReplaceAll(of.GetString(message, field), {{"\"", "\"\""}});
      value = absl::StrCat("\"", value, "\"");
    } else if (here) {
      google::protobuf::TextFormat::PrintFieldValueToString(message, field, -1,
                                                            &value);
    }
  }
}

}  // namespace

const Report::Result& FindResult(const Report& report, absl::string_view layer,
                                 absl::string_view op, uint32_t size_bytes,
                                 uint32_t outstanding) {
  for (const Report::Result& result : report.results()) {
    if (result.layer() == layer && result.op() == op &&
        result.size_bytes() == size_bytes &&
        result.outstanding() == outstanding) {
      return result;
    }
  }
  return Report::Result::default_instance();
}

absl::string_view HowSidesWait(const Report& report) {
  return report.results_size() > 0 && report.results(0).mode() == "events"
             ? "sleep between messages"
             : "poll";
}

// Compares each result with that of bare verbs for the same size and depth, if
// that was measured.
void AddRatios(Report& report) {
  for (Report::Result& result : *report.mutable_results()) {
    // No call succeeded: nothing to compare.
    if (!result.has_p50_us()) continue;
    const auto of_verbs = [&](absl::string_view op) -> const Report::Result& {
      return FindResult(report, "verbs", op, result.size_bytes(),
                        result.outstanding());
    };
    // Streams in one direction are compared with one-way SENDs.
    const bool one_way = result.kind() == "client" || result.kind() == "server";
    const Report::Result& verbs = of_verbs(one_way ? "send" : result.op());
    if (verbs.p50_us() > 0) {
      result.set_p50_ratio_to_verbs(Rounded(result.p50_us() / verbs.p50_us()));
    }
    if (verbs.calls_per_s() > 0) {
      result.set_rate_ratio_to_verbs(
          Rounded(result.calls_per_s() / verbs.calls_per_s()));
    }
    // An echo moves its bytes both ways, as one WRITE and one READ would.
    const double write = of_verbs("write").calls_per_s();
    const double read = of_verbs("read").calls_per_s();
    if (result.op() == "echo" && !one_way && write > 0 && read > 0) {
      result.set_share_of_raw_bandwidth(
          Rounded(result.calls_per_s() * (1 / write + 1 / read)));
    }
  }
}

std::string Json(const Report& report) {
  Report rest = report;
  rest.clear_results();
  // The results one by one, for ToJson() adds nulls to one message only.
  const std::string results = absl::StrJoin(
      report.results(), ",", [](std::string* out, const auto& result) {
        out->append(tool::ToJson(result));
      });
  return absl::StrReplaceAll(tool::ToJson(rest),
                             {{"\"results\":[]",
                               absl::StrCat("\"results\":[", results, "]")}}) +
         "\n";
}

// All results have the same columns, so the first one gives the head.
std::string Csv(const Report& report) {
  std::string csv;
  for (const Report::Result& result : report.results()) {
    std::vector<std::string> names;
    std::vector<std::string> values;
    AppendColumns(result, "", /*present=*/true, names, values);
    if (csv.empty()) csv = absl::StrJoin(names, ",") + "\n";
    absl::StrAppend(&csv, absl::StrJoin(values, ","), "\n");
  }
  return csv;
}

}  // namespace verbena::bench
