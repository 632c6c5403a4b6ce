#include "rpc/credentials/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/testing/test_tls.h"

namespace verbena {
namespace {

using testing::HasSubstr;

class TlsFilesTest : public testing::Test {
 protected:
  static std::string Write(const std::string& name, const std::string& text) {
    const std::string path = testing::TempDir() + "/tls-files-" + name;
    std::ofstream(path) << text;
    return path;
  }
  template <typename Made>
  static std::string Error(const Made& made) {
    return std::string(made.status().message());
  }

  const testing_support::TestCertificates made_ =
      testing_support::MakeTestCertificates();
  const std::string ca_ = Write("ca.pem", made_.authority.certificate);
  const std::string certificate_ =
      Write("server.pem", made_.server.certificate_chain);
  const std::string key_ = Write("server.key", made_.server.private_key);
};

TEST_F(TlsFilesTest, WithoutFilesCredentialsAreInsecure) {
  EXPECT_EQ((*ChannelCredentialsFromFiles({}))->kind(), "");
  EXPECT_EQ((*ServerCredentialsFromFiles({}))->kind(), "");
}

TEST_F(TlsFilesTest, WithFilesTheyAreThoseOfTls) {
  EXPECT_EQ((*ChannelCredentialsFromFiles({.root_certs = ca_}))->kind(), "tls");
  EXPECT_EQ((*ServerCredentialsFromFiles(
                 {.certificate_chain = certificate_, .private_key = key_}))
                ->kind(),
            "tls");
}

TEST_F(TlsFilesTest, SaysWhatIsMissing) {
  EXPECT_THAT(
      Error(ChannelCredentialsFromFiles({.certificate_chain = certificate_})),
      HasSubstr("given together"));
  EXPECT_THAT(Error(ServerCredentialsFromFiles({.root_certs = ca_})),
              HasSubstr("a server needs a certificate"));
  EXPECT_THAT(Error(ChannelCredentialsFromFiles({.root_certs = "/no/file"})),
              HasSubstr("cannot read /no/file: No such file or directory"));
  EXPECT_THAT(Error(ChannelCredentialsFromFiles({.root_certs = key_})),
              HasSubstr("there is no certificate among the root certificates"));
}

}  // namespace
}  // namespace verbena
