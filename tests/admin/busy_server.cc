// A server with a status page and clients of its own that keep it busy, until
// its standard input ends.

#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rpc/rpc.h"
#include "rpc/services/admin/admin_page.h"
#include "tests/integration/test_service.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {
namespace {

constexpr int kClients = 4;
constexpr int kCallsInARow = 40;
constexpr absl::Duration kPause = absl::Milliseconds(10);
constexpr size_t kLarge = 200'000;

// Tells all clients when it is over.
class End {
 public:
  void Come() {
    const base::MutexLock lock(mutex_);
    is_here_ = true;
    came_.NotifyAll();
  }
  // Waits up to `time` for the end. Returns whether it is here.
  bool IsHereAfter(absl::Duration time) {
    const base::MutexLock lock(mutex_);
    const absl::Time until = base::Now() + time;
    while (!is_here_ && came_.WaitUntil(mutex_, until)) {
    }
    return is_here_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar came_;
  bool is_here_ ABSL_GUARDED_BY(mutex_) = false;
};

void Echo(EndToEnd::Stub& stub, size_t bytes) {
  ClientContext context;
  EchoRequest request;
  EchoReply reply;
  request.set_payload(std::string(bytes, 'x'));
  // The status page shows how the call ended.
  (void)stub.Echo(&context, request, &reply);
}

// Makes calls in rows. Each row has a call that fails, each eighth row also has
// a large call.
void KeepBusy(const std::shared_ptr<Channel>& channel, End* end) {
  const auto stub = EndToEnd::NewStub(channel);
  int large = 0;
  do {
    for (int i = 0; i < kCallsInARow; ++i) Echo(*stub, 100);
    if (++large % 8 == 0) Echo(*stub, kLarge);
    ClientContext context;
    FailRequest request;
    Nothing reply;
    request.set_code(static_cast<int>(absl::StatusCode::kNotFound));
    (void)stub->Fail(&context, request, &reply);
  } while (!end->IsHereAfter(kPause));
}

// Makes a call that stays open until the end.
void StayOpen(const std::string& target, EndToEndService* service, End* end) {
  const auto stub = EndToEnd::NewStub(CreateChannel(target));
  ClientContext context;
  Key request;
  Nothing reply;
  request.set_key("open");
  stub->async()->Block(&context, &request, &reply,
                       [](const absl::Status& /*status*/) {});
  while (!end->IsHereAfter(absl::Hours(1))) {
  }
  service->Release("open");
}

// A channel to a service of two servers, of which only the first is there.
std::shared_ptr<Channel> ChannelToService(const std::string& server) {
  ChannelOptions options;
  options.service_config = R"({"loadBalancingConfig": [{"round_robin": {}}]})";
  return CreateChannel(absl::StrCat("ipv4:", server, ",127.0.0.1:1"), options);
}

int Run() {
  const auto log = std::make_shared<LogTail>();
  SetLogSink(log->Sink(), LogSeverity::kInfo);
  EndToEndService service;
  ServerBuilder builder;
  AdminPageOptions options;
  int port = 0;
  int page_port = 0;
  options.selected_port = &page_port;
  options.log = log;
  options.channels = std::make_shared<AdminChannels>();
  builder.AddListeningPort("127.0.0.1:0", &port);
  builder.SetDevice("soft");
  builder.SetMaxConcurrentCalls(100);
  builder.RegisterService(&service);
  AddAdminPage(&builder, options);
  const auto server = builder.BuildAndStart();
  if (!server.ok()) {
    std::cerr << server.status() << "\n";
    return 1;
  }
  End end;
  std::vector<std::thread> clients;
  const std::string target = absl::StrCat("127.0.0.1:", port);
  clients.reserve(kClients + 1);
  for (int i = 1; i < kClients; ++i) {
    clients.emplace_back(KeepBusy, CreateChannel(target), &end);
  }
  const auto service_channel = ChannelToService(target);
  options.channels->AddChannel(service_channel, "service");
  clients.emplace_back(KeepBusy, service_channel, &end);
  clients.emplace_back(StayOpen, target, &service, &end);
  service.AwaitBlocked("open");
  std::cout << "status page at http://127.0.0.1:" << page_port << "/"
            << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  end.Come();
  for (std::thread& client : clients) client.join();
  (*server)->Shutdown();
  SetLogSink(nullptr);
  return 0;
}

}  // namespace
}  // namespace verbena::end_to_end

int main() { return verbena::end_to_end::Run(); }
