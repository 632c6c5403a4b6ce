// Files that may change while a program runs.

#ifndef VERBENA_TRANSPORT_BASE_FILE_WATCH_H_
#define VERBENA_TRANSPORT_BASE_FILE_WATCH_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/base/thread_group.h"
#include "transport/base/unique_fd.h"

namespace verbena::base {

// Reads a whole regular file of at most `max_bytes`. UNAVAILABLE, with the name
// and the cause, if it can't.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes);

// Calls a function on a thread of its own: at once, and whenever something has
// changed in the folders of some files. Watches folders, not files: editors and
// Kubernetes put another file, or a link, in a file's place.
class FileWatch {
 public:
  // UNAVAILABLE if a folder can't be watched. `on_change` may block; it may run
  // when none of the files has changed. REQUIRES: no path is empty.
  static absl::StatusOr<std::unique_ptr<FileWatch>> Start(
      const std::vector<std::string>& paths, std::function<void()> on_change);
  // `on_change` has returned for the last time. Not to be called from there.
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

 private:
  FileWatch(std::function<void()> on_change, UniqueFd changes, UniqueFd end)
      : on_change_(std::move(on_change)),
        changes_(std::move(changes)),
        end_(std::move(end)) {}
  void Run();

  const std::function<void()> on_change_;
  const UniqueFd changes_;  // An inotify instance.
  const UniqueFd end_;      // An eventfd that says that all is over.
  ThreadGroup thread_{"verbena-file"};
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_FILE_WATCH_H_
