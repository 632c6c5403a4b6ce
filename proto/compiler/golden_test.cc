// Compares the generated code with files that were read and approved.
//
// After a change of the generator that is meant to change its output, write the
// files anew and review the difference as code:
//
//   bazel run //proto/compiler:golden_test -- --update

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "proto/compiler/in_memory_files.h"

namespace verbena::compiler {
namespace {

constexpr char kDirectory[] = "proto/compiler/testdata/";
constexpr const char* kStems[] = {"greeter", "nasty-names", "no_package",
                                  "no_services"};

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << "cannot read " << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Generates from the file of `stem`, whose directory is below `root`.
Generated GenerateFrom(const std::string& root, const std::string& stem) {
  InMemorySources sources;
  sources.Add("google/protobuf/empty.proto",
              "syntax = \"proto3\"; package google.protobuf; message Empty {}");
  for (const std::string& name : {stem, std::string("shared")}) {
    const std::string path = kDirectory + name + ".proto";
    sources.Add(path, Read(root + path));
  }
  return Generate(sources, kDirectory + stem + ".proto");
}

class GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, IsWhatWasApproved) {
  const Generated generated = GenerateFrom("", GetParam());
  ASSERT_EQ(generated.error, "");
  for (const auto& [name, text] : generated.files) {
    EXPECT_EQ(text, Read(name + ".golden"))
        << name << " differs. If that is meant, run\n"
        << "  bazel run //proto/compiler:golden_test -- --update\n"
        << "and review what it changed.";
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenTest, testing::ValuesIn(kStems),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

int UpdateGoldens() {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (workspace == nullptr) {
    std::cerr << "--update works under `bazel run` only\n";
    return 1;
  }
  const std::string root = std::string(workspace) + "/";
  for (const char* stem : kStems) {
    const Generated generated = GenerateFrom(root, stem);
    if (!generated.error.empty()) {
      std::cerr << stem << ": " << generated.error << "\n";
      return 1;
    }
    for (const auto& [name, text] : generated.files) {
      std::ofstream(root + name + ".golden", std::ios::binary) << text;
      std::cout << "wrote " << name << ".golden\n";
    }
  }
  return 0;
}

}  // namespace
}  // namespace verbena::compiler

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 2 && std::strcmp(argv[1], "--update") == 0) {
    return verbena::compiler::UpdateGoldens();
  }
  return RUN_ALL_TESTS();
}
