#include "tools/certificates/pem_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <random>

#include "absl/strings/str_cat.h"
#include "transport/base/unique_fd.h"

namespace verbena::certificates {
namespace {

constexpr mode_t kPermissions = 07777;
// More than all authorities that browsers trust have together.
constexpr size_t kMaxBytes = size_t{16} << 20;

// Returns 0, or the error number.
int WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  // Some file systems only now say that they are full.
  return fsync(fd) == 0 ? 0 : errno;
}

}  // namespace

absl::StatusOr<PemFile> ReadPemFile(const std::string& path) {
  // Without O_NONBLOCK a named pipe would wait for its writer.
  const base::UniqueFd fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!fd.valid() || fstat(fd.get(), &status) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, " can't be opened"));
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a regular file"));
  }
  PemFile file = {.text = "",
                  .mode = status.st_mode & kPermissions,
                  .owner = status.st_uid};
  char block[4096];
  while (true) {
    const ssize_t size = read(fd.get(), block, sizeof(block));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat(path, " can't be read"));
    }
    if (size == 0) return file;
    file.text.append(block, static_cast<size_t>(size));
    if (file.text.size() > kMaxBytes) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " has more than ", kMaxBytes >> 20, " MiB"));
    }
  }
}

// Writes a file of another name beside it, which then takes the name. Without
// kReplace a hard link takes it, because a link, unlike rename(), fails if the
// name exists.
absl::Status WritePemFile(const std::string& path, absl::string_view text,
                          mode_t mode, Existing existing) {
  const std::string temporary =
      absl::StrCat(path, ".new.", std::random_device()());
  const auto failed = [&path](int error) {
    return absl::ErrnoToStatus(error, absl::StrCat(path, " can't be written"));
  };
  const base::UniqueFd fd(
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.valid()) return failed(errno);
  if (const int error = WriteAll(fd.get(), text); error != 0) {
    unlink(temporary.c_str());
    return failed(error);
  }
  const int done = existing == Existing::kReplace
                       ? std::rename(temporary.c_str(), path.c_str())
                       : link(temporary.c_str(), path.c_str());
  const int error = errno;
  // A successful rename has left nothing to remove.
  if (existing == Existing::kKeep || done != 0) unlink(temporary.c_str());
  return done == 0 ? absl::OkStatus() : failed(error);
}

}  // namespace verbena::certificates
