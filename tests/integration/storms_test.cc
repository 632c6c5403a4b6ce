// Very many clients on the software device: that all come at once, and of one
// process. Servers and clients are processes of their own.
//
//   --clients=N, --channels=N   how many there are, instead of some that
//                               connect in seconds on a busy machine

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"
#include "tools/command_line/parse_flags.h"
#include "transport/base/check.h"

ABSL_FLAG(int, clients, 1000, "processes and channels that come all at once");
ABSL_FLAG(int, channels, 2000, "channels of one process");

namespace verbena::end_to_end {
namespace {

using ::testing::HasSubstr;
using testing_support::ChildProcess;
using testing_support::WordAfter;

constexpr char kServerRole[] = "--be-a-server";
constexpr char kCrowdRole[] = "--be-a-crowd";
constexpr char kGreedyRole[] = "--be-greedy";
constexpr char kPatientCrowdRole[] = "--be-a-patient-crowd";

// The most connections that one poller of a server takes.
constexpr int kPollerConnections = 1024;

// System calls of this process that connect a socket.
std::atomic<uint64_t> connects{0};

// --- The children ------------------------------------------------------------

void Await(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  int got = 0;
  CHECK_EQ(sigwait(&set, &got), 0);
}

// Blocks `signal` for Await(). REQUIRES: no other thread exists.
void KeepForAwait(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
}

size_t EntriesOf(const std::string& directory) {
  const std::filesystem::directory_iterator all(directory);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

uint64_t ResidentBytes() {
  uint64_t pages = 0;
  uint64_t resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  CHECK(file != nullptr);
  CHECK_EQ(std::fscanf(file, "%lu %lu", &pages, &resident), 2);
  std::fclose(file);
  return resident * 4096;
}

// Prints its descriptors and resident memory whenever it gets SIGUSR1.
int BeServer(int pollers) {
  KeepForAwait(SIGUSR1);
  EndToEndService service;
  absl::StatusOr<std::unique_ptr<Server>> server =
      ServerBuilder()
          .AddListeningPort("127.0.0.1:0")
          .RegisterService(&service)
          .SetDevice("soft")
          .SetPollers(pollers)
          .BuildAndStart();
  CHECK(server.ok()) << server.status().ToString();
  std::printf("listening on %s\n",
              (*server)->listening().front().address.c_str());
  while (true) {
    std::fflush(stdout);
    Await(SIGUSR1);
    std::printf("descriptors %zu resident %lu\n", EntriesOf("/proc/self/fd"),
                ResidentBytes());
  }
}

struct Call {
  void Start(EndToEnd::Stub& stub, bool patient, Countdown* countdown) {
    context.set_wait_for_ready(patient);
    context.set_timeout(absl::Minutes(2));
    request.set_payload("hello");
    stub.async()->Echo(&context, &request, &reply,
                       [this, countdown](absl::Status ended) {
                         status = std::move(ended);
                         countdown->Done();
                       });
  }

  ClientContext context;
  EchoRequest request;
  EchoReply reply;
  absl::Status status;
};

// Makes a call on each of `count` channels, all at once, whenever it gets
// SIGUSR1, and tells what came of that. `patient` calls wait for a connection.
int BeCrowd(const std::string& target, bool patient, size_t count) {
  KeepForAwait(SIGUSR1);
  ChannelOptions options;
  options.device = "soft";
  options.max_backoff = absl::Milliseconds(100);
  std::vector<std::unique_ptr<EndToEnd::Stub>> stubs(count);
  std::printf("ready\n");
  while (true) {
    std::fflush(stdout);
    Await(SIGUSR1);
    const absl::Time start = absl::Now();
    std::vector<std::unique_ptr<Call>> calls;
    Countdown countdown(static_cast<int>(count));
    for (std::unique_ptr<EndToEnd::Stub>& stub : stubs) {
      if (stub == nullptr) {
        stub = EndToEnd::NewStub(CreateChannel(target, options));
      }
      calls.push_back(std::make_unique<Call>());
      calls.back()->Start(*stub, patient, &countdown);
    }
    countdown.Wait();
    const absl::Duration took = absl::Now() - start;
    int served = 0;
    absl::Status problem;
    for (const auto& call : calls) {
      served += call->status.ok() ? 1 : 0;
      problem.Update(call->status);
    }
    std::printf(
        "served %d connects %lu ms %ld threads %zu descriptors %zu resident "
        "%lu problem: %s\n",
        served, connects.load(), absl::ToInt64Milliseconds(took),
        EntriesOf("/proc/self/task"), EntriesOf("/proc/self/fd"),
        ResidentBytes(), problem.ToString().c_str());
  }
}

// Echoes 1 MiB on each of `count` channels without end.
int BeGreedy(const std::string& target, size_t count) {
  ChannelOptions options;
  options.device = "soft";
  std::vector<std::thread> threads;
  Countdown first_calls(static_cast<int>(count));
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      const auto stub = EndToEnd::NewStub(CreateChannel(target, options));
      CHECK(EchoProblem(*stub, size_t{1} << 20, 1).empty());
      first_calls.Done();
      while (EchoProblem(*stub, size_t{1} << 20, 1).empty()) {
      }
    });
  }
  first_calls.Wait();
  std::printf("greedy\n");
  std::fflush(stdout);
  for (std::thread& thread : threads) thread.join();
  return 0;
}

// --- The tests ---------------------------------------------------------------

// A program that runs as `role`, with so many descriptors at first.
std::vector<std::string> InRole(const std::string& role, rlim_t descriptors) {
  return {"/bin/sh", "-c",
          absl::StrCat("ulimit -Sn ", descriptors, "; exec \"$0\" ", role),
          std::filesystem::read_symlink("/proc/self/exe")};
}

uint64_t NumberAfter(const std::string& before, const std::string& line) {
  uint64_t number = 0;
  EXPECT_TRUE(absl::SimpleAtoi(WordAfter(before, line), &number)) << line;
  return number;
}

rlim_t MostDescriptors() {
  rlimit limit = {};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  return limit.rlim_max;
}

void SetDescriptorLimit(const ChildProcess& process, rlim_t descriptors) {
  const rlimit limit = {.rlim_cur = descriptors, .rlim_max = MostDescriptors()};
  EXPECT_EQ(prlimit(process.pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
}

class ServerProcess {
 public:
  explicit ServerProcess(int pollers, rlim_t descriptors = MostDescriptors())
      : process_(InRole(absl::StrCat(kServerRole, " ", pollers), descriptors)),
        target_(WordAfter("listening on ", process_.ReadLine())) {}

  std::string Tell() {
    process_.Signal(SIGUSR1);
    return process_.ReadLine();
  }
  const std::string& target() const { return target_; }
  ChildProcess& process() { return process_; }

 private:
  ChildProcess process_;
  std::string target_;
};

// The result of one call on each channel of a crowd, from a line of its output.
struct Outcome {
  explicit Outcome(const std::string& line)
      : served(NumberAfter("served ", line)),
        connects(NumberAfter("connects ", line)),
        threads(NumberAfter("threads ", line)),
        descriptors(NumberAfter("descriptors ", line)),
        text(line) {}

  uint64_t served;
  uint64_t connects;  // Attempts to connect since its process began.
  uint64_t threads;
  uint64_t descriptors;
  std::string text;
};

class Crowd {
 public:
  Crowd(const std::string& role, const std::string& target, int channels,
        rlim_t descriptors = MostDescriptors())
      : process_(InRole(absl::StrCat(role, " ", target, " ", channels),
                        descriptors)) {
    EXPECT_EQ(process_.ReadLine(), "ready");
  }

  void Begin() { process_.Signal(SIGUSR1); }
  Outcome End() { return Outcome(process_.ReadLine()); }
  Outcome Run() {
    Begin();
    return End();
  }
  // Repeats Run() until `count` calls are served. Each earlier outcome must
  // name what is missing.
  void RunUntilServed(uint64_t count, const std::string& missing) {
    const absl::Time deadline = absl::Now() + absl::Minutes(2);
    while (true) {
      const Outcome outcome = Run();
      if (outcome.served == count) return;
      ASSERT_THAT(outcome.text, HasSubstr(missing));
      ASSERT_LT(absl::Now(), deadline) << outcome.text;
    }
  }
  ChildProcess& process() { return process_; }

 private:
  ChildProcess process_;
};

// All clients are served, and few have to try twice.
TEST(StormsTest, ClientsThatAllComeAtOnceAreAllServed) {
  ServerProcess server(1 + absl::GetFlag(FLAGS_clients) / kPollerConnections);
  std::vector<std::unique_ptr<Crowd>> crowds;
  // Every 25th client has a process to itself.
  int left = absl::GetFlag(FLAGS_clients);
  for (int i = left / 25; i > 0; --i, --left) {
    crowds.push_back(
        std::make_unique<Crowd>(kPatientCrowdRole, server.target(), 1));
  }
  for (int i = 4; i > 0; --i) {
    const int channels = left / i;
    left -= channels;
    crowds.push_back(
        std::make_unique<Crowd>(kPatientCrowdRole, server.target(), channels));
  }
  const absl::Time start = absl::Now();
  for (const auto& crowd : crowds) crowd->Begin();
  uint64_t served = 0;
  uint64_t attempts = 0;
  for (const auto& crowd : crowds) {
    const Outcome outcome = crowd->End();
    EXPECT_THAT(outcome.text, testing::EndsWith("problem: OK"));
    served += outcome.served;
    attempts += outcome.connects;
  }
  const auto wanted = static_cast<uint64_t>(absl::GetFlag(FLAGS_clients));
  std::printf("%lu clients served in %.2f s, %lu attempts\n", served,
              absl::ToDoubleSeconds(absl::Now() - start), attempts);
  EXPECT_EQ(served, wanted);
  // On a busy machine some attempts take longer than they may.
  EXPECT_LE(attempts, 2 * wanted);
}

// Each channel takes one descriptor; all share a few threads.
TEST(StormsTest, ThousandsOfChannelsShareTheThreadsOfOneProcess) {
  const int channels = absl::GetFlag(FLAGS_channels);
  ServerProcess server(1 + channels / kPollerConnections);
  Crowd crowd(kPatientCrowdRole, server.target(), channels);
  const auto wanted = static_cast<uint64_t>(channels);
  for (int round = 0; round < 2; ++round) {
    const Outcome outcome = crowd.Run();
    std::printf("client: %s\n", outcome.text.c_str());
    EXPECT_EQ(outcome.served, wanted);
    EXPECT_LE(outcome.descriptors, wanted + 500);
    EXPECT_LE(outcome.threads, 100u);
  }
  std::printf("server: %s\n", server.Tell().c_str());
}

TEST(StormsTest, WhomNoPollerHasRoomForHearsWhatWouldHelp) {
  constexpr uint64_t kTooMany = kPollerConnections + 50;
  ServerProcess server(1);
  Crowd crowd(kCrowdRole, server.target(), kTooMany);
  // On a busy machine some attempts take longer than they may.
  crowd.RunUntilServed(kPollerConnections, /*missing=*/"");
  const Outcome outcome = crowd.Run();
  EXPECT_EQ(outcome.served, uint64_t{kPollerConnections});
  EXPECT_THAT(outcome.text, HasSubstr("SetPollers"));
}

constexpr uint64_t kChannels = 200;

// Tests a server and a crowd of which one has too few descriptors for all
// channels, until it is given more.
void RunOutOfDescriptors(rlim_t of_server, rlim_t of_clients) {
  ServerProcess server(1, of_server);
  Crowd crowd(kCrowdRole, server.target(), kChannels, of_clients);
  const Outcome first = crowd.Run();
  EXPECT_THAT(first.text, HasSubstr("`ulimit -n`"));
  EXPECT_GT(first.served, 0u);
  EXPECT_LT(first.served, kChannels / 2);
  // Clients without room cost no other client its connection.
  EXPECT_GE(crowd.Run().served, first.served);
  SetDescriptorLimit(server.process(), MostDescriptors());
  SetDescriptorLimit(crowd.process(), MostDescriptors());
  crowd.RunUntilServed(kChannels, "`ulimit -n`");
}

TEST(StormsTest, AClientOutOfDescriptorsKeepsItsConnectionsAndGetsMore) {
  RunOutOfDescriptors(MostDescriptors(), kChannels / 2);
}

TEST(StormsTest, AServerOutOfDescriptorsKeepsItsConnectionsAndTakesMore) {
  RunOutOfDescriptors(kChannels / 2, MostDescriptors());
}

// Small calls one after the other, by a client that is quick. Returns what was
// wrong with the last one, and prints how long they took.
std::string RunQuickCalls(EndToEnd::Stub& stub, const char* when) {
  std::vector<absl::Duration> times(20000);
  for (absl::Duration& time : times) {
    const absl::Time start = absl::Now();
    std::string problem = EchoProblem(stub, 64, 1);
    if (!problem.empty()) return problem;
    time = absl::Now() - start;
  }
  std::sort(times.begin(), times.end());
  std::printf("%s: p50 %.2f us, p99 %.2f us\n", when,
              absl::ToDoubleMicroseconds(times[times.size() / 2]),
              absl::ToDoubleMicroseconds(times[times.size() * 99 / 100]));
  return "";
}

// Stopped amid their large calls, they neither read replies nor return credits.
TEST(StormsTest, AQuickClientGoesOnBesideThoseThatHaveStopped) {
  ServerProcess server(1);
  ChannelOptions options;
  options.device = "soft";
  const auto stub = EndToEnd::NewStub(CreateChannel(server.target(), options));
  EXPECT_EQ(RunQuickCalls(*stub, "alone"), "");
  ChildProcess greedy(
      InRole(absl::StrCat(kGreedyRole, " ", server.target(), " 8"),
             MostDescriptors()));
  EXPECT_EQ(greedy.ReadLine(), "greedy");
  greedy.Stop();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(RunQuickCalls(*stub, "beside stopped ones"), "");
  }
  // Room for eight calls of 1 MiB, each with request and reply in messages and
  // in registered memory, and as much again for memory that grows by doubling.
  EXPECT_LE(NumberAfter("resident ", server.Tell()), uint64_t{64} << 20);
  greedy.Kill();
  EXPECT_EQ(RunQuickCalls(*stub, "alone again"), "");
}

int Main(int argc, char** argv) {
  const std::string role = argc > 2 ? argv[1] : "";
  int number = 0;
  if (role == kServerRole || role == kCrowdRole || role == kPatientCrowdRole) {
    CHECK(absl::SimpleAtoi(argv[argc - 1], &number));
    return role == kServerRole ? BeServer(number)
                               : BeCrowd(argv[2], role == kPatientCrowdRole,
                                         static_cast<size_t>(number));
  }
  if (role == kGreedyRole) {
    CHECK(absl::SimpleAtoi(argv[argc - 1], &number));
    return BeGreedy(argv[2], static_cast<size_t>(number));
  }
  testing::InitGoogleTest(&argc, argv);
  tool::ReadCommandLine(
      argc, argv,
      {.name = "storms_test", .about = " makes clients come all at once\n"});
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace verbena::end_to_end

// Takes the place of the C library's.
extern "C" int connect(int socket, const sockaddr* address, socklen_t length) {
  verbena::end_to_end::connects.fetch_add(1);
  return static_cast<int>(syscall(SYS_connect, socket, address, length));
}

int main(int argc, char** argv) {
  return verbena::end_to_end::Main(argc, argv);
}
