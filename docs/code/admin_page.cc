// The code in docs/admin-page.md: see calls.cc.

#include "verbena/services/admin/admin_page.h"

#include <memory>

#include "rpc/logging.h"
#include "rpc/rpc.h"

namespace snippets {
namespace {

void ShowPage(verbena::ServerBuilder& builder,
              const std::shared_ptr<verbena::Channel>& channel) {
  verbena::AdminPageOptions options;
  options.address = "127.0.0.1:8080";

  options.log = std::make_shared<verbena::LogTail>();
  verbena::SetLogSink(options.log->Sink(), verbena::LogSeverity::kInfo);

  options.channels = std::make_shared<verbena::AdminChannels>();
  options.channels->AddChannel(channel);

  verbena::AddAdminPage(&builder, options);
}

}  // namespace
}  // namespace snippets
