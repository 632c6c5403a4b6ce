// The two libraries that show what a server does: its page, and its metrics for
// Prometheus.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "verbena/rpc.h"
#include "verbena/services/admin/admin_channels.h"
#include "verbena/services/admin/admin_page.h"
#include "verbena/services/admin/log_tail.h"
#include "verbena/services/prometheus/prometheus_metrics.h"

namespace {

// The first line of the answer to GET /status.json at the port.
std::string AskPage(int port) {
  constexpr std::string_view kRequest =
      "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  char next = 0;
  if (connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
          0 &&
      write(socket, kRequest.data(), kRequest.size()) ==
          static_cast<ssize_t>(kRequest.size())) {
    while (read(socket, &next, 1) == 1 && next != '\r') answer += next;
  }
  close(socket);
  return answer;
}

absl::Status Run() {
  auto metrics = std::make_shared<verbena::PrometheusMetrics>();
  int page = 0;
  verbena::AdminPageOptions options;
  options.selected_port = &page;
  options.log = std::make_shared<verbena::LogTail>();
  options.channels = std::make_shared<verbena::AdminChannels>();
  options.channels->AddChannel(verbena::CreateChannel("127.0.0.1:1"));
  verbena::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0");
  metrics->AddServer(&builder, "shop");
  verbena::AddAdminPage(&builder, options);
  absl::StatusOr<std::unique_ptr<verbena::Server>> server =
      builder.BuildAndStart();
  if (!server.ok()) return server.status();

  std::cout << AskPage(page) << '\n';
  const std::string text =
      prometheus::TextSerializer().Serialize(metrics->Collect());
  const bool exported =
      text.find("verbena_server_workers{server=\"shop\"}") != text.npos;
  std::cout << (exported ? "exported" : text) << std::endl;
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::cerr << status << std::endl;
  return status.ok() ? 0 : 1;
}
