#include "tests/testing/child_process.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace verbena::testing_support {

std::string TestAddress() {
  const char* address = std::getenv("VERBENA_TEST_ADDRESS");
  return address == nullptr ? "127.0.0.1" : address;
}

std::string WordAfter(const std::string& before, const std::string& text) {
  const size_t start = text.find(before);
  if (start == std::string::npos) return "";
  const size_t word = start + before.size();
  return text.substr(word, text.find(' ', word) - word);
}

bool HasChild(pid_t pid) {
  const std::string path =
      absl::StrCat("/proc/", pid, "/task/", pid, "/children");
  const absl::Time deadline = absl::Now() + ChildProcess::kPatience;
  while (absl::Now() < deadline) {
    pid_t child = 0;
    if (std::ifstream(path) >> child) return true;
    std::this_thread::yield();
  }
  return false;
}

}  // namespace verbena::testing_support
