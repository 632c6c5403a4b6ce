#include "tests/endurance/peer.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "rpc/internal/server/server_impl.h"
#include "rpc/support/stub_support.h"
#include "tests/endurance/load.h"
#include "tests/integration/test_service.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"

namespace verbena::endurance {
namespace {

using testing_support::WordAfter;

constexpr absl::string_view kServerRole = "--endurance-server=";
constexpr absl::string_view kClientRole = "--endurance-client=";

constexpr absl::Duration kAwaitPatience = absl::Minutes(1);

// Less than what a handful of clients may want at once.
constexpr uint64_t kBulkBytes = uint64_t{32} << 20;
constexpr uint64_t kMessageBytesMax = uint64_t{4} << 20;
constexpr int kWorkers = 8;
constexpr int kPollers = 2;

void Say(absl::string_view line) {
  std::cout << line << std::endl;  // Flushed: somebody waits for it.
}

Figures Footprint(absl::string_view question) {
  if (question == "trim") malloc_trim(0);
  return OwnFootprint();
}

// Answers each line of the standard input by a line, until it ends.
void AnswerAll(
    const std::function<std::string(const std::string& question)>& answer) {
  for (std::string line; std::getline(std::cin, line);) Say(answer(line));
}

absl::StatusOr<std::unique_ptr<internal::ServerImpl>> Serve(
    const std::string& address, std::vector<Service*> services) {
  internal::ServerImpl::Options options;
  transport::EndpointOptions& endpoint = options.endpoint.endpoint;
  endpoint.max_bulk_bytes = kBulkBytes;
  endpoint.max_send_message_bytes = kMessageBytesMax;
  endpoint.max_receive_message_bytes = kMessageBytesMax;
  endpoint.memory_idle_time = absl::Milliseconds(100);
  options.endpoint.addresses = {address};
  options.endpoint.pollers = kPollers;
  options.services = std::move(services);
  options.workers = {.kept = kWorkers, .most = kWorkers, .queue_limit = 4096};
  return internal::ServerImpl::Start(options);
}

int BeServer(const std::string& address) {
  end_to_end::EndToEndService service;
  end_to_end::InlineService inline_service;
  absl::StatusOr<std::unique_ptr<internal::ServerImpl>> server =
      Serve(address, {&service, &inline_service});
  if (!server.ok()) {
    Say(server.status().ToString());
    return 1;
  }
  const transport::ServerEndpoint::Listening& listening =
      (*server)->listening().front();
  Say(absl::StrCat("listening on ", listening.address, " via ",
                   listening.device));
  AnswerAll([&server](const std::string& question) {
    Figures figures = Footprint(question);
    const transport::ServerEndpoint& endpoint = (*server)->endpoint();
    figures["connections"] = endpoint.connection_count();
    figures["frames"] = static_cast<int64_t>(endpoint.frame_bytes());
    figures["bulk"] = static_cast<int64_t>(endpoint.bulk_bytes());
    return ToLine(figures);
  });
  (*server)->Shutdown(absl::Now());
  return 0;
}

int BeClient(const std::string& target) {
  Tally tally;
  std::unique_ptr<Load> load;
  Say("ready");
  AnswerAll([&](const std::string& question) -> std::string {
    absl::string_view rest = question;
    uint64_t seed = 0;
    if (absl::ConsumePrefix(&rest, "start ") && absl::SimpleAtoi(rest, &seed)) {
      load = std::make_unique<Load>(target, seed, &tally);
      return question;
    }
    if (question == "stop") {
      load.reset();
      return question;
    }
    if (question == "await") {
      const bool came = tally.AwaitSuccesses(1, base::Now() + kAwaitPatience);
      return came ? question
                  : absl::StrCat("no call succeeds: ", ToLine(tally.figures()));
    }
    // A channel that was dropped in a callback leaves its poller behind. It
    // ends when another channel is dropped.
    if (load == nullptr) {
      internal::StubAccess::MakeImpl(*CreateChannel(target)).IgnoreError();
    }
    Figures figures = Footprint(question);
    figures.merge(tally.figures());
    int64_t& overrun = figures["overrun_us"];
    if (load != nullptr) {
      overrun =
          std::max(overrun, absl::ToInt64Microseconds(load->OpenOverrun()));
    }
    return ToLine(figures);
  });
  return 0;
}

}  // namespace

std::unique_ptr<Peer> Peer::StartServer(const std::string& address,
                                        std::string* problem) {
  std::unique_ptr<Peer> peer(new Peer(kServerRole, address));
  const std::string line = peer->process_.ReadLine();
  peer->address_ = WordAfter("listening on ", line);
  peer->device_ = WordAfter("via ", line);
  if (!peer->address_.empty()) return peer;
  *problem = absl::StrCat(line, peer->process_.errors());
  return nullptr;
}

std::unique_ptr<Peer> Peer::StartClient(const std::string& target) {
  std::unique_ptr<Peer> peer(new Peer(kClientRole, target));
  EXPECT_EQ(peer->process_.ReadLine(), "ready");
  return peer;
}

void Peer::StartLoad(uint64_t seed) { Tell(absl::StrCat("start ", seed)); }

Figures Peer::Ask(absl::string_view question) {
  // If the process is dead, no answer comes.
  process_.Write(absl::StrCat(question, "\n"));
  const std::string answer = process_.ReadLine();
  Figures figures = FromLine(answer);
  if (figures.empty()) {
    ADD_FAILURE() << "to \"" << question << "\" it said: " << answer << "\n"
                  << process_.errors();
  }
  return figures;
}

void Peer::Tell(absl::string_view command) {
  process_.Write(absl::StrCat(command, "\n"));
  const std::string answer = process_.ReadLine();
  EXPECT_EQ(answer, command) << process_.errors();
}

void Peer::ExpectExit(int exit_code) {
  const int ended = process_.Wait();
  EXPECT_EQ(ended, exit_code) << process_.errors();
}

void Peer::Kill() {
  process_.Signal(SIGKILL);
  ExpectExit(-SIGKILL);
}

void Peer::End() { ExpectExit(0); }

bool BePeer(int argc, char** argv, int* exit_code) {
  absl::string_view role = argc == 2 ? argv[1] : "";
  if (absl::ConsumePrefix(&role, kServerRole)) {
    *exit_code = BeServer(std::string(role));
    return true;
  }
  if (absl::ConsumePrefix(&role, kClientRole)) {
    *exit_code = BeClient(std::string(role));
    return true;
  }
  return false;
}

}  // namespace verbena::endurance
