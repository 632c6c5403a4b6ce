// examples/hello as a user runs it: two processes.
//
// Arguments: the paths of its server and its client. Honours VERBENA_DEVICE and
// VERBENA_TEST_ADDRESS.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/child_process.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing_support::ChildProcess;
using testing_support::Ran;
using testing_support::RunToEnd;
using testing_support::TestAddress;
using testing_support::WordAfter;

std::string server_path;
std::string client_path;

class HelloTest : public testing::Test {
 protected:
  // Starts the server and learns where it listens.
  void StartServer() {
    server_ = std::make_unique<ChildProcess>(std::vector<std::string>{
        server_path, "--listen=" + TestAddress() + ":0"});
    const std::string line = server_->ReadLine();
    target_ = WordAfter("listening on ", line);
    devices_ = WordAfter(" via ", line);
    ASSERT_THAT(target_, HasSubstr(TestAddress() + ":"))
        << line << server_->errors();
    EXPECT_NE(devices_, "");
  }

  // Sends `signal` to the server. Returns its exit code.
  int StopServer(int signal) {
    server_->Signal(signal);
    return server_->Wait();
  }

  Ran RunClient(const std::string& name) {
    return RunToEnd({client_path, "--target=" + target_, "--name=" + name});
  }

  std::unique_ptr<ChildProcess> server_;
  std::string target_;
  std::string devices_;
};

TEST_F(HelloTest, AGreetingCrossesTwoProcesses) {
  StartServer();
  const Ran client = RunClient("Ada");
  EXPECT_EQ(client.exit_code, 0) << client.errors;
  EXPECT_THAT(client.output, HasSubstr("Hello Ada (from " + target_ + " via "));
  EXPECT_EQ(StopServer(SIGTERM), 0) << server_->errors();
}

TEST_F(HelloTest, TheClientNamesTheDeviceThatWasAskedFor) {
  StartServer();
  const Ran client = RunClient("Ada");
  const char* wanted = std::getenv("VERBENA_DEVICE");
  if (wanted != nullptr) {
    EXPECT_THAT(client.output, HasSubstr(std::string("via ") + wanted + ")"));
    EXPECT_THAT(devices_, HasSubstr(wanted));
  } else {
    EXPECT_THAT(client.output, HasSubstr(" via "));
  }
  EXPECT_EQ(StopServer(SIGTERM), 0);
}

TEST_F(HelloTest, TheServerServesOneClientAfterAnother) {
  StartServer();
  for (const char* name : {"Ada", "Grace", "Barbara"}) {
    EXPECT_THAT(RunClient(name).output,
                HasSubstr(std::string("Hello ") + name));
  }
  EXPECT_EQ(StopServer(SIGINT), 0) << server_->errors();
}

TEST_F(HelloTest, AnErrorOfTheHandlerReachesTheClient) {
  StartServer();
  const Ran client = RunClient("");
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_EQ(client.output, "");
  EXPECT_THAT(client.errors,
              HasSubstr("INVALID_ARGUMENT: whom shall I greet?"));
  EXPECT_EQ(StopServer(SIGTERM), 0);
}

TEST_F(HelloTest, WithoutAServerTheClientSaysSo) {
  StartServer();
  EXPECT_EQ(StopServer(SIGTERM), 0);
  const Ran client = RunClient("Ada");
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors, HasSubstr("no greeting: UNAVAILABLE"));
}

TEST_F(HelloTest, AnAddressThatIsNoneIsRefused) {
  const Ran server = RunToEnd({server_path, "--listen=nowhere"});
  EXPECT_EQ(server.exit_code, 1);
  EXPECT_THAT(server.errors, HasSubstr("cannot serve: INVALID_ARGUMENT"));
}

}  // namespace
}  // namespace verbena

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s SERVER CLIENT\n", argv[0]);
    return 2;
  }
  verbena::server_path = argv[1];
  verbena::client_path = argv[2];
  return RUN_ALL_TESTS();
}
