#include "rpc/internal/service/file_resolver.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/struct.pb.h"
#include "rpc/internal/service/json_value.h"
#include "transport/base/file_watch.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

// More than a list of a hundred thousand servers takes.
constexpr size_t kFileBytesMax = size_t{64} << 20;

absl::StatusOr<Locality> ReadLocality(const JsonValue& object) {
  Locality locality;
  ASSIGN_OR_RETURN(locality.region, object.TextField("region"));
  ASSIGN_OR_RETURN(locality.zone, object.TextField("zone"));
  ASSIGN_OR_RETURN(locality.sub_zone, object.TextField("subZone"));
  return locality;
}

absl::StatusOr<ServerAddress> ReadServer(const JsonValue& value) {
  ServerAddress server;
  if (const auto text = value.String(); text.ok()) {
    server.address = *text;
    return server;
  }
  ASSIGN_OR_RETURN(server.address, value.TextField("address"));
  if (server.address.empty()) {
    return value.MustBe("an address, or an object with an \"address\"");
  }
  ASSIGN_OR_RETURN(const auto weight, value.Field("weight"));
  if (weight.has_value()) {
    ASSIGN_OR_RETURN(const uint64_t read, weight->Integer(1, UINT32_MAX));
    server.weight = static_cast<uint32_t>(read);
  }
  ASSIGN_OR_RETURN(const auto locality, value.Field("locality"));
  if (locality.has_value()) {
    ASSIGN_OR_RETURN(server.locality, ReadLocality(*locality));
  }
  ASSIGN_OR_RETURN(const auto attributes, value.Field("attributes"));
  if (!attributes.has_value()) return server;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, attributes->Names());
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(server.attributes[name], attributes->TextField(name));
  }
  return server;
}

absl::StatusOr<Resolved> ReadServers(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path, kFileBytesMax));
  absl::StatusOr<Resolved> resolved = ParseServerFile(text);
  if (resolved.ok()) return resolved;
  return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ",
                                             resolved.status().message()));
}

class FileResolver final : public Resolver {
 public:
  absl::Status Start(const std::string& path, OnResult on_result) {
    ASSIGN_OR_RETURN(
        watch_, base::FileWatch::Start(
                    {path}, [path, on_result = std::move(on_result)] {
                      on_result(ReadServers(path));
                    }));
    return absl::OkStatus();
  }

  // The file is read when it changes. There is nothing to hurry.
  void ResolveNow() override {}

 private:
  std::unique_ptr<base::FileWatch> watch_;
};

}  // namespace

absl::StatusOr<Resolved> ParseServerFile(absl::string_view text) {
  ASSIGN_OR_RETURN(const google::protobuf::Value document,
                   JsonValue::ParseObject(text));
  const JsonValue root(document, "");
  ASSIGN_OR_RETURN(const auto servers, root.Field("servers"));
  if (!servers.has_value()) return root.MustBe("an object with \"servers\"");
  ASSIGN_OR_RETURN(const std::vector<JsonValue> elements, servers->Elements());
  Resolved resolved;
  for (const JsonValue& element : elements) {
    ASSIGN_OR_RETURN(ServerAddress server, ReadServer(element));
    resolved.servers.push_back(std::move(server));
  }
  ASSIGN_OR_RETURN(const auto config, root.Field("serviceConfig"));
  if (config.has_value()) resolved.service_config = config->Json();
  return resolved;
}

absl::StatusOr<std::unique_ptr<Resolver>> FileResolvers::Create(
    const Target& target, Resolver::OnResult on_result) {
  if (!target.authority.empty() || target.path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the target \"", target.text,
                     "\" is not of the form file:///path/to/file"));
  }
  auto resolver = std::make_unique<FileResolver>();
  RETURN_IF_ERROR(resolver->Start(absl::StrCat("/", target.path),
                                  std::move(on_result)));
  return resolver;
}

}  // namespace verbena::internal
