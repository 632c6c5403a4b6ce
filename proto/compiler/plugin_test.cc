// protoc with the real protoc-gen-verbena, as a user runs it.
//
// Arguments: the paths of protoc and of the plugin.

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::compiler {
namespace {

using testing::HasSubstr;

std::string protoc_path;
std::string plugin_path;

class PluginTest : public testing::Test {
 protected:
  PluginTest() : directory_(std::string(std::getenv("TEST_TMPDIR")) + "/out") {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }

  // Runs protoc over a file with `text`; `option` goes before the directory of
  // --verbena_out. Keeps the exit code and what was printed.
  void Run(const std::string& text, const std::string& option = "") {
    std::ofstream(directory_ / "file.proto") << text;
    const std::string command =
        protoc_path + " --plugin=protoc-gen-verbena=" + plugin_path + " -I" +
        directory_.string() + " --verbena_out=" + option + directory_.string() +
        " file.proto 2>&1";
    std::FILE* pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
      printed_.push_back(static_cast<char>(c));
    }
    const int status = pclose(pipe);
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  bool Exists(const std::string& name) {
    return std::filesystem::exists(directory_ / name);
  }

  const std::filesystem::path directory_;
  std::string printed_;
  int exit_code_ = -1;
};

TEST_F(PluginTest, WritesTheFiles) {
  Run("syntax = \"proto3\"; message M { optional int32 a = 1; }\n"
      "service S { rpc Call(M) returns (M); }");
  EXPECT_EQ(exit_code_, 0) << printed_;
  EXPECT_EQ(printed_, "");
  EXPECT_TRUE(Exists("file.verbena.h"));
  EXPECT_TRUE(Exists("file.verbena.cc"));
}

TEST_F(PluginTest, WritesTheFilesOfStreamingMethodsToo) {
  Run("syntax = \"proto3\"; package p; message M {}\n"
      "service S { rpc Chat(stream M) returns (stream M); }");
  EXPECT_EQ(exit_code_, 0) << printed_;
  EXPECT_EQ(printed_, "");
  EXPECT_TRUE(Exists("file.verbena.h"));
  EXPECT_TRUE(Exists("file.verbena.cc"));
}

TEST_F(PluginTest, RefusesANameByFileServiceAndMethod) {
  Run("syntax = \"proto3\"; package p; message M {}\n"
      "service S { rpc Stub(stream M) returns (stream M); }");
  EXPECT_EQ(exit_code_, 1);
  EXPECT_THAT(printed_,
              HasSubstr("--verbena_out: file.proto: service \"p.S\", method "
                        "\"Stub\" (line 2): \"Stub\" is the name of a "
                        "generated class or member"));
  EXPECT_FALSE(Exists("file.verbena.h"));
}

TEST_F(PluginTest, RefusesAParameter) {
  Run("syntax = \"proto3\";", "speed=high:");
  EXPECT_EQ(exit_code_, 1);
  EXPECT_THAT(printed_, HasSubstr("unknown parameter \"speed=high\""));
}

}  // namespace
}  // namespace verbena::compiler

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s PROTOC PLUGIN\n", argv[0]);
    return 2;
  }
  verbena::compiler::protoc_path = argv[1];
  verbena::compiler::plugin_path = argv[2];
  return RUN_ALL_TESTS();
}
