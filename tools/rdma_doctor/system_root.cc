#include "tools/rdma_doctor/system_root.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace verbena::doctor {
namespace {

namespace fs = std::filesystem;

bool IsBefore(const std::string& a, const std::string& b) {
  int64_t a_number = 0;
  int64_t b_number = 0;
  // Numbers by value, so that port 10 comes behind port 2.
  if (absl::SimpleAtoi(a, &a_number) && absl::SimpleAtoi(b, &b_number)) {
    return a_number < b_number;
  }
  return a < b;
}

}  // namespace

bool SystemRoot::Exists(const std::string& path) const {
  std::error_code error;
  return fs::exists(folder_ + path, error);
}

// Asks the kernel, which knows more than the mode of the file.
bool SystemRoot::MayOpen(const std::string& path) const {
  return access((folder_ + path).c_str(), R_OK | W_OK) == 0;
}

// An empty file gives "", anything that cannot be read nothing.
std::optional<std::string> SystemRoot::Read(const std::string& path) const {
  std::ifstream file(folder_ + path, std::ios::binary);
  // A folder can be opened, but not read.
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    std::error_code error;
    if (!fs::is_regular_file(folder_ + path, error)) return std::nullopt;
    if (!file.is_open() || file.bad()) return std::nullopt;
    return "";
  }
  std::string text(std::istreambuf_iterator<char>(file), {});
  absl::StripTrailingAsciiWhitespace(&text);
  return text;
}

std::optional<int64_t> SystemRoot::ReadNumber(const std::string& path) const {
  int64_t number = 0;
  if (!absl::SimpleAtoi(Read(path).value_or(""), &number)) return std::nullopt;
  return number;
}

std::vector<std::string> SystemRoot::List(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code error;
  // A folder that is not there sets `error`, and so counts as empty.
  for (fs::directory_iterator each(folder_ + path, error), end;
       !error && each != end; each.increment(error)) {
    names.push_back(each->path().filename());
  }
  std::sort(names.begin(), names.end(), IsBefore);
  return names;
}

std::string SystemRoot::LinkName(const std::string& path) const {
  std::error_code error;
  return fs::read_symlink(folder_ + path, error).filename();
}

// Variables stand in the file with a zero byte behind each.
std::optional<std::string> SystemRoot::Environment(
    const std::string& name) const {
  const std::string all = Read("/proc/self/environ").value_or("");
  for (absl::string_view each : absl::StrSplit(all, '\0')) {
    if (absl::ConsumePrefix(&each, absl::StrCat(name, "="))) {
      return std::string(each);
    }
  }
  return std::nullopt;
}

}  // namespace verbena::doctor
