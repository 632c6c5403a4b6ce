#include "tests/integration/example_fixture.h"

#include <cstdio>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena {
namespace {

std::string examples_path;

std::vector<std::string> Command(const std::string& name,
                                 const std::string& flag,
                                 const std::vector<std::string>& flags) {
  std::vector<std::string> command = {ExamplePath(name), flag};
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

}  // namespace

std::string ExamplePath(const std::string& name) {
  return examples_path + "/" + name;
}

ExampleServer::ExampleServer(const std::string& name,
                             const std::vector<std::string>& flags)
    : process_(Command(
          name, "--listen=" + testing_support::TestAddress() + ":0", flags)),
      first_line_(process_.ReadLine()),
      target_(testing_support::WordAfter("listening on ", first_line_)) {
  EXPECT_THAT(target_,
              testing::StartsWith(testing_support::TestAddress() + ":"))
      << first_line_ << process_.errors();
}

int ExampleServer::Stop(int signal) {
  process_.Signal(signal);
  return process_.Wait();
}

testing_support::Ran RunExample(const std::string& name,
                                const std::string& target,
                                const std::vector<std::string>& flags) {
  return testing_support::RunToEnd(Command(name, "--target=" + target, flags));
}

}  // namespace verbena

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s EXAMPLES/hello/server\n", argv[0]);
    return 2;
  }
  verbena::examples_path =
      std::filesystem::path(argv[1]).parent_path().parent_path();
  return RUN_ALL_TESTS();
}
