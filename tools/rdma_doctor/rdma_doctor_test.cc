// The whole program, on the device of VERBENA_DEVICE, else the software device.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "rpc/credentials/shared_secret.h"
#include "rpc/rpc.h"
#include "rpc/services/health_service.h"
#include "tests/testing/child_process.h"
#include "tools/rdma_doctor/fake_machine.h"
#include "tools/rdma_doctor/report.pb.h"

namespace verbena::doctor {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;
using testing_support::Ran;
using testing_support::TestAddress;

std::string program;

std::string DeviceHere() {
  const char* const name = std::getenv("VERBENA_DEVICE");
  return name == nullptr ? "soft" : name;
}

Ran RunProgram(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  return testing_support::RunToEnd(arguments);
}

// With --json; what is printed must be a Report, and fit the exit status.
Report RunForReport(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Ran ran = RunProgram(std::move(arguments));
  Report report;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(ran.output, &report);
  EXPECT_TRUE(parsed.ok()) << parsed.ToString() << ran.output << ran.errors;
  EXPECT_EQ(ran.exit_code, report.errors() > 0 ? 1 : 0);
  return report;
}

// Returns the last finding of the check `check`.
Finding Of(const Report& report, const std::string& check) {
  Finding found;
  for (const Finding& each : report.findings()) {
    if (each.check() == check) found = each;
  }
  EXPECT_EQ(found.check(), check);
  return found;
}

TEST(RdmaDoctorTest, CallsItselfAndMeasures) {
  const Report report = RunForReport({"--device=" + DeviceHere(), "--count=7"});
  EXPECT_EQ(Of(report, "self").level(), Finding::ok);
  ASSERT_THAT(report.measurements(), SizeIs(1));
  const Measurement& measured = report.measurements(0);
  EXPECT_EQ(measured.device(), DeviceHere());
  EXPECT_EQ(measured.calls(), 7);
  EXPECT_GT(measured.least_us(), 0);
  EXPECT_GE(measured.median_us(), measured.least_us());
  EXPECT_GE(measured.most_us(), measured.median_us());
  EXPECT_GT(measured.large_us(), 0);
}

TEST(RdmaDoctorTest, LooksAtThisMachine) {
  const Report report = RunForReport({"--noself_test"});
  EXPECT_NE(report.kernel(), "");
  EXPECT_THAT(report.measurements(), SizeIs(0));
  for (const char* check : {"devices", "modules", "container", "memlock"}) {
    EXPECT_NE(Of(report, check).seen(), "");
  }
}

TEST(RdmaDoctorTest, CallsAPeer) {
  int port = 0;
  HealthService health;
  ServerBuilder builder;
  builder.AddListeningPort(TestAddress() + ":0", &port)
      .RegisterService(&health);
  absl::StatusOr<std::unique_ptr<Server>> server = builder.BuildAndStart();
  ASSERT_TRUE(server.ok()) << server.status();
  const std::vector<std::string> arguments = {
      absl::StrCat("--peer=", TestAddress(), ":", port), "--noself_test",
      "--timeout=20s"};
  const Report with = RunForReport(arguments);
  EXPECT_EQ(Of(with, "peer").level(), Finding::ok)
      << Of(with, "peer").meaning();
  ASSERT_THAT(with.measurements(), SizeIs(1));
  EXPECT_EQ(with.measurements(0).device(), DeviceHere());
  EXPECT_EQ(with.measurements(0).calls(), 100);

  server->reset();
  const Report without = RunForReport(arguments);
  EXPECT_EQ(Of(without, "peer").level(), Finding::error);
  EXPECT_THAT(Of(without, "peer").mend(), StartsWith("verbena ping "));
}

TEST(RdmaDoctorTest, APeerThatWantsCredentialsIsWell) {
  auto keys = std::make_shared<SharedSecretKeys>();
  ASSERT_EQ(keys->Replace({{"november", std::string(32, 's')}}),
            absl::OkStatus());
  int port = 0;
  ServerBuilder builder;
  builder.AddListeningPort(TestAddress() + ":0",
                           SharedSecretServerCredentials(keys), &port);
  const absl::StatusOr<std::unique_ptr<Server>> server =
      builder.BuildAndStart();
  ASSERT_TRUE(server.ok()) << server.status();
  const Report report =
      RunForReport({absl::StrCat("--peer=", TestAddress(), ":", port),
                    "--noself_test", "--timeout=20s"});
  EXPECT_EQ(Of(report, "peer").level(), Finding::ok);
  EXPECT_THAT(Of(report, "peer").seen(), HasSubstr("requires credentials"));
}

TEST(RdmaDoctorTest, MissesTheDeviceThatItIsToCallOver) {
  const Report report = RunForReport({"--device=nothing7"});
  EXPECT_EQ(Of(report, "self").level(), Finding::error);
  EXPECT_THAT(Of(report, "self").seen(), HasSubstr("nothing7"));
}

TEST(RdmaDoctorTest, LooksAtTheFilesOfAnotherMachine) {
  FakeMachine machine;
  machine.AddDevice("mlx5_0", "uverbs0", "ens1");
  machine.SetMemlock("unlimited", "unlimited");
  machine.Write("/proc/sys/kernel/hostname", "far\n");
  const std::string root = "--root=" + machine.folder();
  const Report well = RunForReport({root});
  EXPECT_EQ(well.host(), "far");
  EXPECT_EQ(well.errors(), 0);
  EXPECT_THAT(well.measurements(), SizeIs(0));

  machine.SetMemlock("65536", "unlimited");
  const Ran ran = RunProgram({root});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.output, HasSubstr("\nerror    memlock"));
  EXPECT_THAT(ran.output, HasSubstr("mend:  ulimit -l unlimited\n"));
  EXPECT_THAT(ran.output, HasSubstr(" 1 errors: something does not work\n"));
}

TEST(RdmaDoctorTest, SaysWhatIsWrongWithItsFlags) {
  const std::pair<const char*, const char*> cases[] = {
      {"--colour=red", "unknown flag --colour=red"},
      {"now", "unexpected argument now"},
      {"--count=0", "--count must be at least 1"},
      {"--count=many", "--count=many"},
      {"--count", "--count needs a value"},
      {"--timeout=0s", "--timeout must be positive"},
      {"--peer=here", "--peer=here is not HOST:PORT"},
      {"--root=/nowhere7", "--root=/nowhere7 is not a folder"},
      {"--tls-cert=a.pem", "--tls-cert and --tls-key go together"},
      {"--tls-key=a.key", "--tls-cert and --tls-key go together"},
      {"--tls-server-name=a", "--tls-server-name needs --tls-cert"},
  };
  for (const auto& [argument, message] : cases) {
    const Ran ran = RunProgram({argument});
    EXPECT_EQ(ran.exit_code, 2) << argument;
    EXPECT_EQ(ran.output, "");
    EXPECT_THAT(ran.errors,
                AllOf(StartsWith("rdma_doctor: "), HasSubstr(message)));
  }
  EXPECT_EQ(RunProgram({"--root=/", "--peer=a:1"}).exit_code, 2);
  EXPECT_EQ(RunProgram({"--root=/", "--tls-ca=a.pem"}).exit_code, 2);
}

TEST(RdmaDoctorTest, ShowsHowItIsUsed) {
  const Ran ran = RunProgram({"--help"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.output, HasSubstr("--peer="));
  EXPECT_EQ(RunProgram({"--version"}).output,
            absl::StrCat("rdma_doctor ", kVersion, "\n"));
}

}  // namespace
}  // namespace verbena::doctor

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "which program?\n");
    return 2;
  }
  verbena::doctor::program = argv[1];
  return RUN_ALL_TESTS();
}
