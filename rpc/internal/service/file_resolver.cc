#include "rpc/internal/service/file_resolver.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/struct.pb.h"
#include "rpc/internal/service/json_value.h"
#include "transport/base/status_macros.h"
#include "transport/base/thread_group.h"
#include "transport/base/unique_fd.h"

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

absl::Status CannotRead(const std::string& path, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", why));
}

// A pipe would have the thread wait, and a device might never end.
absl::StatusOr<std::string> ReadText(const std::string& path) {
  const base::UniqueFd file(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts;
  if (!file.valid() || fstat(file.get(), &facts) != 0) {
    return CannotRead(path, std::strerror(errno));
  }
  if (!S_ISREG(facts.st_mode)) return CannotRead(path, "not a regular file");
  std::string text;
  std::array<char, 65536> part;
  for (;;) {
    const ssize_t bytes = read(file.get(), part.data(), part.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return CannotRead(path, std::strerror(errno));
    if (bytes == 0) return text;
    text.append(part.data(), static_cast<size_t>(bytes));
    if (text.size() > kFileBytesMax) {
      return CannotRead(
          path, absl::StrCat("it has more than ", kFileBytesMax, " bytes"));
    }
  }
}

absl::StatusOr<Resolved> ReadFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  absl::StatusOr<Resolved> resolved = ParseServerFile(text);
  if (resolved.ok()) return resolved;
  return CannotRead(path, resolved.status().message());
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

class FileResolver final : public Resolver {
 public:
  FileResolver(std::string path, OnResult on_result, base::UniqueFd changes,
               base::UniqueFd end)
      : path_(std::move(path)),
        on_result_(std::move(on_result)),
        changes_(std::move(changes)),
        end_(std::move(end)) {}
  ~FileResolver() override {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written =
        write(end_.get(), &one, sizeof(one));
    thread_.Join();
  }
  absl::Status Start() {
    return thread_.Start([this] { Watch(); });
  }

  // The file is read when it changes. There is nothing to hurry.
  void ResolveNow() override {}

 private:
  void Watch() {
    for (;;) {
      on_result_(ReadFile(path_));
      std::array<pollfd, 2> waits = {pollfd{changes_.get(), POLLIN, 0},
                                     pollfd{end_.get(), POLLIN, 0}};
      while (poll(waits.data(), waits.size(), /*timeout=*/-1) < 0) {
      }
      if (waits[1].revents != 0) return;
      // The events do not matter: the file is read whole.
      std::array<char, 4096> events;
      while (read(changes_.get(), events.data(), events.size()) > 0) {
      }
    }
  }

  const std::string path_;
  const OnResult on_result_;
  const base::UniqueFd changes_;
  const base::UniqueFd end_;
  base::ThreadGroup thread_{"verbena-file"};
};

absl::Status CannotWatch(absl::string_view path) {
  return absl::UnavailableError(
      absl::StrCat("cannot watch ", path, ": ", std::strerror(errno)));
}

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

// Watches the folder, not the file: editors and Kubernetes put another file, or
// a link, in its place.
absl::StatusOr<std::unique_ptr<Resolver>> FileResolvers::Create(
    const Target& target, Resolver::OnResult on_result) {
  if (!target.authority.empty() || target.path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the target \"", target.text,
                     "\" is not of the form file:///path/to/file"));
  }
  const std::string path = absl::StrCat("/", target.path);
  base::UniqueFd changes(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  base::UniqueFd end(eventfd(0, EFD_CLOEXEC));
  if (!changes.valid() || !end.valid() ||
      inotify_add_watch(changes.get(), FolderOf(path).c_str(),
                        IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_DELETE |
                            IN_ONLYDIR) < 0) {
    return CannotWatch(path);
  }
  auto resolver = std::make_unique<FileResolver>(
      path, std::move(on_result), std::move(changes), std::move(end));
  RETURN_IF_ERROR(resolver->Start());
  return resolver;
}

}  // namespace verbena::internal
