// examples/file_transfer.

#include <stdlib.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/example_fixture.h"
#include "tests/testing/child_process.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing_support::Ran;

class FileTransferTest : public testing::Test {
 protected:
  FileTransferTest() {
    std::string name = testing::TempDir() + "/file_transfer_XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
    std::filesystem::create_directory(path_ / "kept");
  }
  ~FileTransferTest() override { std::filesystem::remove_all(path_); }

  // A file of that many bytes in the directory of this test.
  std::string MakeFile(const std::string& name, size_t bytes) {
    std::string text;
    for (size_t i = 0; text.size() < bytes; ++i) text += std::to_string(i * i);
    text.resize(bytes);
    std::ofstream(path_ / name, std::ios::binary) << text;
    return text;
  }
  Ran Send(const ExampleServer& server, const std::string& name) {
    return RunExample("file_transfer/client", server.target(),
                      {"--file=" + (path_ / name).string()});
  }
  static std::string Read(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  size_t FilesKept() {
    size_t files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(path_ / "kept")) {
      if (entry.exists()) ++files;
    }
    return files;
  }

  std::filesystem::path path_;
};

TEST_F(FileTransferTest, FilesOfAllSizesAreKeptAsTheyWereSent) {
  ExampleServer server("file_transfer/server",
                       {"--directory=" + (path_ / "kept").string()});
  // A piece has 1 MiB.
  for (const size_t bytes : {0, 1, 1 << 20, (1 << 20) + 1, 10'000'000}) {
    const std::string name = "file" + std::to_string(bytes);
    const std::string text = MakeFile(name, bytes);
    const Ran client = Send(server, name);
    EXPECT_EQ(client.exit_code, 0) << client.errors;
    EXPECT_EQ(client.output,
              "the server keeps " + std::to_string(bytes) + " bytes\n");
    EXPECT_THAT(client.errors,
                HasSubstr("\r[" + std::string(50, '#') + "] 100 %\n"));
    EXPECT_TRUE(Read(path_ / "kept" / name) == text) << bytes;
  }
  EXPECT_EQ(FilesKept(), 5u);
  EXPECT_EQ(server.Stop(), 0) << server.errors();
}

TEST_F(FileTransferTest, WhatCanNotBeKeptIsSaidAndLeavesNothing) {
  ExampleServer server("file_transfer/server",
                       {"--directory=" + (path_ / "kept").string()});
  MakeFile(".hidden", 5'000'000);
  Ran client = Send(server, ".hidden");
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors, HasSubstr("not sent: INVALID_ARGUMENT"));
  client = Send(server, "missing");
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors, HasSubstr("not sent: NOT_FOUND: can't read "));
  EXPECT_EQ(FilesKept(), 0u);
  EXPECT_EQ(server.Stop(), 0) << server.errors();

  ExampleServer elsewhere("file_transfer/server", {"--directory=/nowhere"});
  MakeFile("file", 5'000'000);
  client = Send(elsewhere, "file");
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors, HasSubstr("not sent: RESOURCE_EXHAUSTED"));
  EXPECT_EQ(elsewhere.Stop(), 0) << elsewhere.errors();
}

}  // namespace
}  // namespace verbena
