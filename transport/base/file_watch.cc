#include "transport/base/file_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "transport/base/status_macros.h"

namespace verbena::base {
namespace {

absl::Status CannotRead(const std::string& path, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", why));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

// A pipe would have the thread wait, and a device might never end.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     size_t max_bytes) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts;
  if (!file.valid() || fstat(file.get(), &facts) != 0) {
    return CannotRead(path, std::strerror(errno));
  }
  if (!S_ISREG(facts.st_mode)) return CannotRead(path, "not a regular file");
  std::string text;
  std::array<char, 65536> part;
  for (;;) {
    const ssize_t bytes = read(file.get(), part.data(), part.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return CannotRead(path, std::strerror(errno));
    if (bytes == 0) return text;
    text.append(part.data(), static_cast<size_t>(bytes));
    if (text.size() > max_bytes) {
      return CannotRead(path,
                        absl::StrCat("it has more than ", max_bytes, " bytes"));
    }
  }
}

absl::StatusOr<std::unique_ptr<FileWatch>> FileWatch::Start(
    const std::vector<std::string>& paths, std::function<void()> on_change) {
  UniqueFd changes(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  UniqueFd end(eventfd(0, EFD_CLOEXEC));
  for (const std::string& path : paths) {
    if (changes.valid() && end.valid() &&
        inotify_add_watch(changes.get(), FolderOf(path).c_str(),
                          IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_DELETE |
                              IN_ONLYDIR) >= 0) {
      continue;
    }
    return absl::UnavailableError(
        absl::StrCat("cannot watch ", path, ": ", std::strerror(errno)));
  }
  std::unique_ptr<FileWatch> watch(
      new FileWatch(std::move(on_change), std::move(changes), std::move(end)));
  RETURN_IF_ERROR(watch->thread_.Start([raw = watch.get()] { raw->Run(); }));
  return watch;
}

FileWatch::~FileWatch() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(end_.get(), &one, sizeof(one));
  thread_.Join();
}

void FileWatch::Run() {
  for (;;) {
    on_change_();
    std::array<pollfd, 2> waits = {pollfd{changes_.get(), POLLIN, 0},
                                   pollfd{end_.get(), POLLIN, 0}};
    while (poll(waits.data(), waits.size(), /*timeout=*/-1) < 0) {
    }
    if (waits[1].revents != 0) return;
    // The events do not matter: the files are read whole.
    std::array<char, 4096> events;
    while (read(changes_.get(), events.data(), events.size()) > 0) {
    }
  }
}

}  // namespace verbena::base
