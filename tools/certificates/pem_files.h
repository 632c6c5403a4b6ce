// Files with certificates and private keys. All errors name the file and the
// cause.

#ifndef VERBENA_TOOLS_CERTIFICATES_PEM_FILES_H_
#define VERBENA_TOOLS_CERTIFICATES_PEM_FILES_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace verbena::certificates {

// Modes of new files. The umask may take bits away.
inline constexpr mode_t kCertificateMode = 0644;
inline constexpr mode_t kKeyMode = 0600;

// A file when it was read.
struct PemFile {
  std::string text;
  mode_t mode = 0;  // Permissions only.
  uid_t owner = 0;
};

// Reads a regular file of at most 16 MiB. NOT_FOUND if there is none,
// PERMISSION_DENIED if this process may not read it.
absl::StatusOr<PemFile> ReadPemFile(const std::string& path);

// Whether a file that exists already stays or is replaced.
enum class Existing { kKeep, kReplace };

// Writes a file that has `mode` from its first byte on. Other processes see the
// whole new file, or what was there before. With kKeep an existing file, or a
// symbolic link, is ALREADY_EXISTS. With kReplace a symbolic link is replaced,
// not the file that it points to.
absl::Status WritePemFile(const std::string& path, absl::string_view text,
                          mode_t mode, Existing existing);

}  // namespace verbena::certificates

#endif  // VERBENA_TOOLS_CERTIFICATES_PEM_FILES_H_
