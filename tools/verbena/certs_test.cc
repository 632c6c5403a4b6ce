// Tests `verbena certs` as a user runs it. The only argument is the path of the
// program.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/child_process.h"
#include "tools/certificates/certificates.h"
#include "tools/certificates/describe.h"
#include "tools/certificates/pem_files.h"
#include "tools/certificates/verify.h"

namespace verbena::tool {
namespace {

namespace fs = std::filesystem;

using certificates::Issued;
using certificates::Owned;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing_support::Ran;

using Names = std::set<std::string>;

std::string program;

class CertsTest : public testing::Test {
 protected:
  CertsTest()
      : folder_(testing::TempDir() + "/certs." +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
  }
  ~CertsTest() override { fs::remove_all(folder_); }

  Ran Run(std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {program, "certs", folder_});
    return testing_support::RunToEnd(flags);
  }
  void RunWell(std::vector<std::string> flags = {}) {
    const Ran ran = Run(std::move(flags));
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_EQ(ran.errors, "");
  }
  // Runs the program, which must fail, and returns what it says.
  std::string Refusal(std::vector<std::string> flags = {}) {
    const Ran ran = Run(std::move(flags));
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_EQ(ran.output, "");
    EXPECT_THAT(ran.errors, StartsWith("verbena: "));
    return ran.errors;
  }

  std::string Path(const std::string& name) { return folder_ + "/" + name; }
  std::string Text(const std::string& name) {
    const auto file = certificates::ReadPemFile(Path(name));
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? file->text : "";
  }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories(folder_);
    ASSERT_EQ(certificates::WritePemFile(Path(name), text, 0600,
                                         certificates::Existing::kReplace),
              absl::OkStatus());
  }
  void WriteAuthority(const absl::StatusOr<Issued>& issued) {
    ASSERT_TRUE(issued.ok()) << issued.status();
    Write("ca.pem", issued->certificate);
    Write("ca.key", issued->key);
  }
  Names Files() {
    Names names;
    if (!fs::exists(folder_)) return names;
    for (const fs::directory_entry& each : fs::directory_iterator(folder_)) {
      names.insert(each.path().filename());
    }
    return names;
  }

  Owned<X509> Certificate(const std::string& name) {
    auto read = certificates::ReadCertificates(Text(name));
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? std::move(read->front()) : nullptr;
  }
  // Returns the reason why a strict peer that trusts ca.pem refuses a
  // certificate; "ok" if it accepts it.
  std::string Verified(const std::string& name, int purpose,
                       const std::string& server = "") {
    return certificates::Verify(*certificates::ReadCertificates(Text("ca.pem")),
                                *certificates::ReadCertificates(Text(name)),
                                {.purpose = purpose,
                                 .name = server,
                                 .security_level = 2,
                                 .strict = true})
        .reason;
  }

  const std::string folder_;
  const Names all_ = {"ca.pem",     "ca.key",     "server.pem",
                      "server.key", "client.pem", "client.key"};
};

TEST_F(CertsTest, MakesAnAuthorityAndCertificatesOfBothSides) {
  RunWell();
  EXPECT_EQ(Files(), all_);
  for (const char* name : {"localhost", "127.0.0.1", "::1"}) {
    EXPECT_EQ(Verified("server.pem", X509_PURPOSE_SSL_SERVER, name), "ok");
  }
  EXPECT_EQ(Verified("client.pem", X509_PURPOSE_SSL_CLIENT), "ok");
  EXPECT_NE(Verified("server.pem", X509_PURPOSE_SSL_CLIENT), "ok");
  EXPECT_NE(Verified("client.pem", X509_PURPOSE_SSL_SERVER), "ok");
  for (const char* name : {"ca", "server", "client"}) {
    const auto key =
        certificates::ReadPrivateKey(Text(absl::StrCat(name, ".key")));
    ASSERT_TRUE(key.ok()) << key.status();
    EXPECT_EQ(X509_check_private_key(
                  Certificate(absl::StrCat(name, ".pem")).get(), key->get()),
              1);
  }
}

TEST_F(CertsTest, TheHostsNameIsOneOfTheServers) {
  char host[256] = "";
  ASSERT_EQ(gethostname(host, sizeof(host) - 1), 0);
  RunWell();
  // A host may have a name that no certificate can have.
  if (certificates::CheckName(host).ok()) {
    EXPECT_EQ(Verified("server.pem", X509_PURPOSE_SSL_SERVER, host), "ok");
  }
}

TEST_F(CertsTest, NobodyElseReadsTheKeys) {
  const mode_t before = umask(0);
  RunWell();
  umask(before);
  for (const std::string& name : all_) {
    const auto file = certificates::ReadPemFile(Path(name));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->mode, name.ends_with(".key") ? 0600 : 0644) << name;
  }
}

TEST_F(CertsTest, SaysWhatItMadeAndHowToUseIt) {
  const Ran ran = Run({"--server_name=shop.example", "--client_name=till"});
  EXPECT_THAT(
      ran.output,
      AllOf(StartsWith(absl::StrCat("made in ", folder_, ", valid until 2")),
            HasSubstr("server.pem  server shop.example\n"),
            HasSubstr("client.pem  client till\n"),
            HasSubstr(absl::StrCat("  --tls_ca=", Path("ca.pem"),
                                   " --tls_cert=", Path("server.pem"),
                                   " --tls_key=", Path("server.key"), "\n")),
            HasSubstr(absl::StrCat("  --tls_ca=", Path("ca.pem"),
                                   " --tls_cert=", Path("client.pem"),
                                   " --tls_key=", Path("client.key"), "\n")),
            HasSubstr("--tls_server_name=shop.example")));
}

TEST_F(CertsTest, NamesAndDaysAreAsAsked) {
  const std::string identity = "spiffe://example.org/client";
  RunWell({"--server_name=shop.example,10.0.0.7", "--server_name=*.b.example",
           "--client_name=" + identity, "--days=3"});
  EXPECT_THAT(certificates::NamesOf(Certificate("server.pem").get()),
              ElementsAre("shop.example", "10.0.0.7", "*.b.example"));
  EXPECT_EQ(certificates::SubjectOf(Certificate("server.pem").get()),
            "CN=shop.example");
  EXPECT_THAT(certificates::NamesOf(Certificate("client.pem").get()),
              ElementsAre(identity));
  EXPECT_EQ(certificates::SubjectOf(Certificate("client.pem").get()),
            "CN=" + identity);
  for (const char* name : {"ca.pem", "server.pem", "client.pem"}) {
    const absl::Duration left =
        certificates::EndOf(Certificate(name).get()) - absl::Now();
    EXPECT_LE(left, absl::Hours(3 * 24));
    EXPECT_GT(left, absl::Hours(3 * 24 - 1));
    EXPECT_LT(certificates::BeginningOf(Certificate(name).get()),
              absl::Now() - absl::Minutes(59));
  }
}

TEST_F(CertsTest, LongNamesAreNoCommonNames) {
  const std::string server = std::string(60, 'a') + ".example";
  const std::string client = "spiffe://example.org/" + std::string(60, 'b');
  RunWell({"--server_name=" + server, "--client_name=" + client});
  EXPECT_EQ(Verified("server.pem", X509_PURPOSE_SSL_SERVER, server), "ok");
  EXPECT_EQ(Verified("client.pem", X509_PURPOSE_SSL_CLIENT), "ok");
  EXPECT_THAT(certificates::NamesOf(Certificate("client.pem").get()),
              ElementsAre(client));
}

TEST_F(CertsTest, AnAuthorityThatIsThereSigns) {
  RunWell();
  const std::string authority = Text("ca.pem");
  const std::string key = Text("ca.key");
  for (const char* name :
       {"server.pem", "server.key", "client.pem", "client.key"}) {
    fs::remove(Path(name));
  }
  // Certificates do not outlive their authority.
  const Ran ran = Run({"--days=60", "--server_name=b.example"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output,
              StartsWith(absl::StrCat(
                  "made in ", folder_,
                  ", by the authority that was there, valid until 2")));
  EXPECT_THAT(ran.output, testing::Not(HasSubstr("ca.key")));
  EXPECT_EQ(Text("ca.pem"), authority);
  EXPECT_EQ(Text("ca.key"), key);
  EXPECT_EQ(Verified("server.pem", X509_PURPOSE_SSL_SERVER, "b.example"), "ok");
  EXPECT_EQ(certificates::EndOf(Certificate("server.pem").get()),
            certificates::EndOf(Certificate("ca.pem").get()));
}

TEST_F(CertsTest, AnAuthorityOfOthersSignsToo) {
  WriteAuthority(certificates::MakeCertificateAuthority(
      {.common_name = "Shop CA", .key_type = certificates::KeyType::kRsa2048}));
  RunWell({"--server_name=shop.example"});
  EXPECT_EQ(Verified("server.pem", X509_PURPOSE_SSL_SERVER, "shop.example"),
            "ok");
}

TEST_F(CertsTest, ReplacesFilesOnlyIfItIsForced) {
  RunWell();
  fs::remove(Path("server.key"));
  fs::remove(Path("client.key"));
  const std::string server = Text("server.pem");
  EXPECT_THAT(Refusal(), HasSubstr(absl::StrCat(
                             Path("server.pem"), ", ", Path("client.pem"),
                             " exist already; --force replaces")));
  fs::remove(Path("client.pem"));
  EXPECT_THAT(Refusal(), HasSubstr(Path("server.pem") + " exists already"));
  EXPECT_EQ(Text("server.pem"), server);
  EXPECT_EQ(Files(), Names({"ca.pem", "ca.key", "server.pem"}));

  const std::string authority = Text("ca.pem");
  RunWell({"--force"});
  EXPECT_NE(Text("server.pem"), server);
  EXPECT_EQ(Text("ca.pem"), authority);
  EXPECT_EQ(Verified("server.pem", X509_PURPOSE_SSL_SERVER, "localhost"), "ok");
}

TEST_F(CertsTest, SaysWhyAnAuthorityCannotSign) {
  const absl::StatusOr<Issued> authority =
      certificates::MakeCertificateAuthority();
  ASSERT_TRUE(authority.ok()) << authority.status();
  Write("ca.pem", authority->certificate);
  EXPECT_THAT(Refusal(),
              HasSubstr(absl::StrCat(Path("ca.pem"), " is there, but not ",
                                     Path("ca.key"))));
  Write("ca.key", "words");
  EXPECT_THAT(Refusal(),
              HasSubstr(Path("ca.key") + ": there is no private key"));
  Write("ca.key", certificates::MakeCertificateAuthority()->key);
  EXPECT_THAT(Refusal(),
              HasSubstr(absl::StrCat(Path("ca.key"), " is not the key of ",
                                     Path("ca.pem"))));
  Write("ca.pem", "words");
  EXPECT_THAT(Refusal(),
              HasSubstr(Path("ca.pem") + ": there is no certificate"));
  fs::remove(Path("ca.pem"));
  EXPECT_THAT(Refusal(),
              HasSubstr(absl::StrCat(Path("ca.key"), " is there, but not ",
                                     Path("ca.pem"))));
  WriteAuthority(certificates::Issue(*authority, {.common_name = "leaf"}));
  EXPECT_THAT(Refusal(), HasSubstr(Path("ca.pem") +
                                   " is not the certificate of an authority"));
  WriteAuthority(certificates::MakeCertificateAuthority(
      {.not_before = absl::Now() - absl::Hours(2),
       .not_after = absl::Now() - absl::Hours(1)}));
  EXPECT_THAT(Refusal(), HasSubstr(Path("ca.pem") + " has expired: remove"));
  EXPECT_EQ(Files(), Names({"ca.pem", "ca.key"}));
}

TEST_F(CertsTest, AFailureLeavesNoFiles) {
  // A file cannot take the place of a folder.
  fs::create_directories(Path("client.pem"));
  EXPECT_THAT(
      Refusal({"--force"}),
      HasSubstr(Path("client.pem") + " can't be written: Is a directory"));
  EXPECT_EQ(Files(), Names({"client.pem"}));
}

TEST_F(CertsTest, NamesTheFolderThatCannotBeUsed) {
  Write("file", "x");
  const Ran below =
      testing_support::RunToEnd({program, "certs", Path("missing/trial")});
  EXPECT_EQ(below.exit_code, 2);
  EXPECT_EQ(below.errors,
            absl::StrCat("verbena: ", Path("missing/trial"),
                         " can't be made: No such file or directory\n"));
  const Ran file = testing_support::RunToEnd({program, "certs", Path("file")});
  EXPECT_EQ(file.exit_code, 2);
  EXPECT_THAT(file.errors, HasSubstr("can't be written: Not a directory"));
  const Ran none = testing_support::RunToEnd({program, "certs", ""});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.errors, HasSubstr("the name of the folder is empty"));
}

TEST_F(CertsTest, ASlashBehindTheFolderChangesNothing) {
  const Ran ran = testing_support::RunToEnd({program, "certs", folder_ + "//"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("--tls_ca=" + Path("ca.pem")));
}

TEST_F(CertsTest, AWrongFlagMakesNothing) {
  const std::pair<const char*, const char*> cases[] = {
      {"--days=0", "--days=0: want a number from 1 to 3650"},
      {"--days=3651", "--days=3651"},
      {"--server_name=a b", "--server-name: \"a b\" is no DNS name"},
      {"--server_name=a,,b", "--server-name: \"\" is no DNS name"},
      {"--server_name=spiffe://a/b",
       "--server-name: \"spiffe://a/b\" is a URI"},
      {"--client_name=", "--client-name is empty"},
      {"--client_name=spiffe://", "--client-name: \"spiffe://\" is no"},
  };
  for (const auto& [flag, message] : cases) {
    EXPECT_THAT(Refusal({flag}), HasSubstr(message));
  }
  EXPECT_THAT(Refusal({"--client_name=" + std::string(65, 'a')}),
              HasSubstr("--client-name: the common name"));
  EXPECT_THAT(Files(), IsEmpty());
}

}  // namespace
}  // namespace verbena::tool

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "which program?\n");
    return 2;
  }
  verbena::tool::program = argv[1];
  return RUN_ALL_TESTS();
}
