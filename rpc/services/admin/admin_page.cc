#include "rpc/services/admin/admin_page.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/metrics.h"
#include "rpc/server.h"
#include "rpc/server_status.h"
#include "rpc/services/admin/http_server.h"
#include "rpc/services/admin/page.inc"
#include "rpc/services/admin/snapshot.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"

namespace verbena {
namespace {

using internal::HttpServer;

std::string HostName() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

class AdminPage final : public ServerExtension {
 public:
  AdminPage(const Server& server, const AdminPageOptions& options)
      : server_(server), log_(options.log), channels_(options.channels) {}

  absl::Status Start(const AdminPageOptions& options) {
    ASSIGN_OR_RETURN(
        http_, HttpServer::Start(
                   {options.address, options.host_names},
                   [this](absl::string_view path) { return Answer(path); }));
    if (options.selected_port != nullptr) {
      *options.selected_port = http_->port();
    }
    return absl::OkStatus();
  }

 private:
  // Serves two documents: the page, which never changes, and the data that its
  // script asks for each second.
  std::unique_ptr<HttpServer::Answer> Answer(absl::string_view path) const {
    if (path == "/") {
      // No script or style but the page's own, and no other host.
      return std::make_unique<HttpServer::Answer>(HttpServer::Answer{
          "text/html; charset=utf-8", internal::kAdminPage,
          absl::StrCat("default-src 'none'; connect-src 'self'; img-src data:;"
                       " base-uri 'none'; form-action 'none';"
                       " frame-ancestors 'none'; script-src '",
                       internal::kAdminPageScriptHash, "'; style-src '",
                       internal::kAdminPageStyleHash, "'")});
    }
    if (path == "/status.json") {
      return std::make_unique<HttpServer::Answer>(
          HttpServer::Answer{"application/json", internal::ToJson(Snapshot()),
                             "default-src 'none'"});
    }
    return nullptr;
  }

  // Runs on a thread of the HttpServer. The server's own threads only answer
  // GetStatus().
  admin::AdminSnapshot Snapshot() const {
    internal::SnapshotSources sources;
    sources.status = server_.GetStatus();
    sources.metrics = server_.GetMetrics();
    sources.now = base::ToWallClock(base::Now());
    sources.started = started_;
    sources.host = host_;
    sources.process_id = getpid();
    sources.listening = server_.listening();
    sources.log = log_.get();
    if (channels_ != nullptr) sources.channels = channels_->list();
    return internal::MakeSnapshot(sources);
  }

  const Server& server_;
  const std::shared_ptr<const LogTail> log_;
  const std::shared_ptr<const AdminChannels> channels_;
  const std::string host_ = HostName();
  const absl::Time started_ = base::ToWallClock(base::Now());
  std::unique_ptr<HttpServer> http_;  // The last: it calls the others.
};

}  // namespace

void AddAdminPage(ServerBuilder* builder, AdminPageOptions options) {
  builder->AddExtension(
      [options = std::move(options)](const Server& server)
          -> absl::StatusOr<std::unique_ptr<ServerExtension>> {
        auto page = std::make_unique<AdminPage>(server, options);
        RETURN_IF_ERROR(page->Start(options));
        return page;
      });
}

}  // namespace verbena
