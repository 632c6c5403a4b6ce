// Tests what rdma_doctor says of the files that `verbena certs` makes, whole
// and spoilt. The arguments are the paths of both programs.

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "tests/testing/child_process.h"
#include "tools/rdma_doctor/report.pb.h"

namespace verbena::doctor {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;
using testing_support::Ran;

std::string doctor;
std::string verbena;

class TlsFilesTest : public testing::Test {
 protected:
  TlsFilesTest()
      : folder_(testing::TempDir() + "/tls_files." +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    MakeCerts(folder_, {"--server_name=shop.example"});
  }
  ~TlsFilesTest() override { fs::remove_all(folder_); }

  void MakeCerts(const std::string& folder, std::vector<std::string> flags) {
    flags.insert(flags.begin(), {verbena, "certs", folder});
    const Ran ran = testing_support::RunToEnd(flags);
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  }
  std::vector<std::string> Flags(const std::string& side) {
    return {doctor, "--noself_test",
            absl::StrCat("--tls_ca=", folder_, "/ca.pem"),
            absl::StrCat("--tls_cert=", folder_, "/", side, ".pem"),
            absl::StrCat("--tls_key=", folder_, "/", side, ".key")};
  }
  // Returns the findings about the files of a side as lines of "check: level".
  std::string Findings(const std::string& side,
                       const std::string& server_name = "shop.example") {
    std::vector<std::string> command = Flags(side);
    command.insert(command.end(),
                   {"--json", "--tls_server_name=" + server_name});
    const Ran ran = testing_support::RunToEnd(command);
    Report report;
    const auto parsed =
        google::protobuf::util::JsonStringToMessage(ran.output, &report);
    EXPECT_TRUE(parsed.ok()) << parsed.ToString() << ran.output << ran.errors;
    EXPECT_EQ(ran.exit_code, report.errors() > 0 ? 1 : 0);
    std::string text;
    for (const Finding& each : report.findings()) {
      if (each.check().starts_with("tls_")) {
        absl::StrAppend(&text, each.check(), ": ",
                        Finding::Level_Name(each.level()), "\n");
      }
    }
    return text;
  }

  const std::string folder_;
};

TEST_F(TlsFilesTest, TheFilesOfBothSidesAreWell) {
  EXPECT_EQ(Findings("server"),
            "tls_ca: ok\ntls_cert: ok\ntls_key: ok\ntls_chain: ok\n"
            "tls_name: ok\ntls_usage: ok\n");
  EXPECT_EQ(Findings("client"),
            "tls_ca: ok\ntls_cert: ok\ntls_key: ok\ntls_chain: ok\n"
            "tls_name: note\ntls_usage: ok\n");
  EXPECT_EQ(Findings("server", "bank.example"),
            "tls_ca: ok\ntls_cert: ok\ntls_key: ok\ntls_chain: ok\n"
            "tls_name: error\ntls_usage: ok\n");
}

TEST_F(TlsFilesTest, FilesOfDifferentRunsDoNotFitEachOther) {
  const std::string other = folder_ + ".other";
  MakeCerts(other, {"--server_name=shop.example", "--days=2"});
  for (const char* name : {"ca.pem", "server.key"}) {
    fs::copy_file(absl::StrCat(other, "/", name),
                  absl::StrCat(folder_, "/", name),
                  fs::copy_options::overwrite_existing);
  }
  fs::remove_all(other);
  // The authority ends in two days.
  EXPECT_EQ(Findings("server"),
            "tls_ca: warning\ntls_cert: ok\ntls_key: error\ntls_chain: error\n"
            "tls_name: ok\ntls_usage: ok\n");
}

TEST_F(TlsFilesTest, PeopleReadWhatIsWrongAndHowToMendIt) {
  fs::permissions(folder_ + "/server.key", fs::perms(0644));
  fs::remove(folder_ + "/ca.pem");
  const Ran ran = testing_support::RunToEnd(Flags("server"));
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.output,
              HasSubstr(absl::StrCat("tls_key    ", folder_,
                                     "/server.key has mode 0644: others may "
                                     "read the key\n")));
  EXPECT_THAT(ran.output, HasSubstr(absl::StrCat("mend:  chmod 600 ", folder_,
                                                 "/server.key\n")));
  EXPECT_THAT(ran.output, HasSubstr("/ca.pem can't be opened: No such file"));
}

}  // namespace
}  // namespace verbena::doctor

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "which programs?\n");
    return 2;
  }
  verbena::doctor::doctor = argv[1];
  verbena::doctor::verbena = argv[2];
  return RUN_ALL_TESTS();
}
