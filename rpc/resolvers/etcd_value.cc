#include "rpc/resolvers/etcd_value.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "rpc/internal/service/json_value.h"
#include "rpc/resolvers/etcd_target.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

using google::protobuf::Struct;

// The name of the version among the attributes.
constexpr char kVersion[] = "version";

// Texts stay as they are; other values become JSON.
std::string ToText(const JsonValue& value) {
  absl::StatusOr<std::string> text = value.String();
  return text.ok() ? *std::move(text) : value.Json();
}

absl::StatusOr<std::string> ReadAddress(const JsonValue& object,
                                        absl::string_view name) {
  ASSIGN_OR_RETURN(const auto field, object.Field(name));
  if (!field.has_value()) {
    return absl::InvalidArgumentError("it has no \"address\"");
  }
  ASSIGN_OR_RETURN(std::string address, field->String());
  if (!IsHostAndPort(address)) return field->MustBe("as \"10.0.0.1:7471\"");
  return address;
}

absl::Status ReadLocality(const JsonValue& object, Locality& locality) {
  ASSIGN_OR_RETURN(const auto field, object.Field("locality"));
  if (!field.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(locality.region, field->TextField("region"));
  ASSIGN_OR_RETURN(locality.zone, field->TextField("zone"));
  ASSIGN_OR_RETURN(locality.sub_zone, field->TextField("sub_zone"));
  if (!locality.sub_zone.empty()) return absl::OkStatus();
  // The name in files of servers.
  ASSIGN_OR_RETURN(locality.sub_zone, field->TextField("subZone"));
  return absl::OkStatus();
}

absl::Status ReadAttributes(const JsonValue& object, ServerAddress& server) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, object.Names());
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const auto field, object.Field(name));
    if (field.has_value()) server.attributes[name] = ToText(*field);
  }
  return absl::OkStatus();
}

// Reads the form of etcd's own clients, whose metadata may be anything.
absl::StatusOr<ServerAddress> ReadEndpoint(const JsonValue& object) {
  ServerAddress server;
  ASSIGN_OR_RETURN(const auto operation, object.Field("Op"));
  // 1 stands for a server that has left.
  if (operation.has_value()) {
    RETURN_IF_ERROR(operation->Integer(0, 0).status());
  }
  ASSIGN_OR_RETURN(server.address, ReadAddress(object, "Addr"));
  ASSIGN_OR_RETURN(const auto metadata, object.Field("Metadata"));
  if (!metadata.has_value()) return server;
  if (metadata->Names().ok()) {
    RETURN_IF_ERROR(ReadAttributes(*metadata, server));
  } else {
    server.attributes["Metadata"] = ToText(*metadata);
  }
  return server;
}

google::protobuf::Value Text(const std::string& text) {
  google::protobuf::Value value;
  value.set_string_value(text);
  return value;
}

// Leaves out what is empty.
void AddText(Struct& object, const char* name, const std::string& text) {
  if (!text.empty()) (*object.mutable_fields())[name] = Text(text);
}

void AddObject(Struct& object, const char* name, const Struct& part) {
  if (part.fields().empty()) return;
  *(*object.mutable_fields())[name].mutable_struct_value() = part;
}

}  // namespace

absl::StatusOr<ServerAddress> ParseEtcdValue(absl::string_view text) {
  ASSIGN_OR_RETURN(const google::protobuf::Value document,
                   JsonValue::ParseObject(text));
  const JsonValue object(document, "");
  ASSIGN_OR_RETURN(const auto end_point, object.Field("Addr"));
  if (end_point.has_value()) return ReadEndpoint(object);

  ServerAddress server;
  ASSIGN_OR_RETURN(server.address, ReadAddress(object, "address"));
  ASSIGN_OR_RETURN(const auto weight, object.Field("weight"));
  if (weight.has_value()) {
    ASSIGN_OR_RETURN(const uint64_t read, weight->Integer(1, UINT32_MAX));
    server.weight = static_cast<uint32_t>(read);
  }
  RETURN_IF_ERROR(ReadLocality(object, server.locality));
  ASSIGN_OR_RETURN(const auto metadata, object.Field("metadata"));
  if (metadata.has_value()) {
    RETURN_IF_ERROR(ReadAttributes(*metadata, server));
  }
  ASSIGN_OR_RETURN(std::string version, object.TextField(kVersion));
  if (!version.empty()) server.attributes[kVersion] = std::move(version);
  return server;
}

absl::StatusOr<std::string> MakeEtcdValue(const ServerAddress& server) {
  Struct object;
  AddText(object, "address", server.address);
  (*object.mutable_fields())["weight"].set_number_value(server.weight);
  Struct locality;
  AddText(locality, "region", server.locality.region);
  AddText(locality, "zone", server.locality.zone);
  AddText(locality, "sub_zone", server.locality.sub_zone);
  AddObject(object, "locality", locality);
  Struct metadata;
  for (const auto& [name, text] : server.attributes) {
    if (name == kVersion && !text.empty()) {
      AddText(object, kVersion, text);
    } else {
      (*metadata.mutable_fields())[name] = Text(text);
    }
  }
  AddObject(object, "metadata", metadata);
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(object, &json);
  if (!status.ok()) {
    return absl::InvalidArgumentError(status.message().ToString());
  }
  ASSIGN_OR_RETURN(const ServerAddress read, ParseEtcdValue(json));
  if (read == server) return json;
  // Texts that are not UTF-8 become others, for example.
  return absl::InvalidArgumentError(
      absl::StrCat("the server cannot be written as JSON: ", json));
}

}  // namespace verbena::internal
