#include "tools/verbena/certs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iostream>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tools/certificates/certificates.h"
#include "tools/certificates/describe.h"
#include "tools/certificates/openssl_objects.h"
#include "tools/certificates/pem_files.h"
#include "tools/verbena/shown_text.h"
#include "transport/base/status_macros.h"

namespace verbena::tool {
namespace {

using certificates::Existing;
using certificates::Issued;
using certificates::Owned;

constexpr char kAuthority[] = "ca";
constexpr char kServer[] = "server";
constexpr char kClient[] = "client";
// The longest common name that a certificate can have.
constexpr size_t kMaxCommonName = 64;

// The authority that signs, and whether it was made by this run.
struct Authority {
  Issued issued;
  std::string name;
  absl::Time end;
  bool is_new = false;
};

// The paths of a certificate and its key.
struct Paths {
  Paths(const std::string& folder, absl::string_view name)
      : certificate(absl::StrCat(folder, "/", name, ".pem")),
        key(absl::StrCat(folder, "/", name, ".key")) {}

  std::string certificate;
  std::string key;
};

// Returns an error of the same kind with "`context`: " before its message.
absl::Status InContext(absl::string_view context, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(context, ": ", status.message()));
}

// Whether the name is taken; a symbolic link to nothing takes it, too.
bool Exists(const std::string& path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0;
}

// Returns the names by which clients on this host and on others call a server.
std::vector<std::string> DefaultServerNames() {
  std::vector<std::string> names = {"localhost", "127.0.0.1", "::1"};
  char host[256] = "";
  if (gethostname(host, sizeof(host) - 1) == 0 && host != names.front() &&
      certificates::CheckName(host).ok()) {
    names.emplace_back(host);
  }
  return names;
}

bool IsUri(absl::string_view name) { return absl::StrContains(name, "://"); }

// Checks the names before anything is made.
absl::Status CheckNames(const CertsOptions& options) {
  for (const std::string& name : options.server_names) {
    const absl::Status status = certificates::CheckName(name);
    if (!status.ok()) return InContext("--server-name", status);
    if (IsUri(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--server-name: \"", name,
                       "\" is a URI, but clients look for a DNS name or an IP "
                       "address"));
    }
  }
  if (options.client_name.empty()) {
    return absl::InvalidArgumentError("--client-name is empty");
  }
  if (IsUri(options.client_name)) {
    const absl::Status status = certificates::CheckName(options.client_name);
    if (!status.ok()) return InContext("--client-name", status);
  }
  return absl::OkStatus();
}

absl::StatusOr<Authority> MakeAuthority(absl::Time end) {
  Authority made;
  made.is_new = true;
  made.end = end;
  // Two authorities in one message must not look the same.
  made.name = absl::StrCat(
      "Verbena trial CA ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::Now(), absl::UTCTimeZone()));
  ASSIGN_OR_RETURN(made.issued,
                   certificates::MakeCertificateAuthority(
                       {.common_name = made.name, .not_after = end}));
  made.name = absl::StrCat("CN=", made.name);
  return made;
}

// Reads the authority of the folder, and checks that it can sign.
absl::StatusOr<Authority> ReadAuthority(const Paths& paths) {
  Authority read;
  ASSIGN_OR_RETURN(const certificates::PemFile certificate_file,
                   certificates::ReadPemFile(paths.certificate));
  ASSIGN_OR_RETURN(const certificates::PemFile key_file,
                   certificates::ReadPemFile(paths.key));
  const absl::StatusOr<std::vector<Owned<X509>>> parsed =
      certificates::ReadCertificates(certificate_file.text);
  if (!parsed.ok()) return InContext(paths.certificate, parsed.status());
  const absl::StatusOr<Owned<EVP_PKEY>> key =
      certificates::ReadPrivateKey(key_file.text);
  if (!key.ok()) return InContext(paths.key, key.status());
  X509* const certificate = parsed->front().get();
  read.issued = {certificate_file.text, key_file.text};
  read.name = certificates::SubjectOf(certificate);
  read.end = certificates::EndOf(certificate);
  if (X509_check_private_key(certificate, key->get()) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(paths.key, " is not the key of ", paths.certificate));
  }
  if (X509_check_ca(certificate) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        paths.certificate, " is not the certificate of an authority"));
  }
  if (read.end <= absl::Now()) {
    return absl::InvalidArgumentError(
        absl::StrCat(paths.certificate, " has expired: remove it and ",
                     paths.key, ", so that both are made anew"));
  }
  return read;
}

// Returns the authority of the folder if it has one, else a new one, which is
// not yet written.
absl::StatusOr<Authority> FindAuthority(const Paths& paths, absl::Time end) {
  const bool has_certificate = Exists(paths.certificate);
  const bool has_key = Exists(paths.key);
  if (has_certificate && has_key) return ReadAuthority(paths);
  if (!has_certificate && !has_key) return MakeAuthority(end);
  return absl::InvalidArgumentError(absl::StrCat(
      has_key ? paths.key : paths.certificate, " is there, but not ",
      has_key ? paths.certificate : paths.key,
      ": an authority signs with both; fetch the other, or use another "
      "folder"));
}

absl::StatusOr<Issued> IssueToServer(const Authority& authority,
                                     const std::vector<std::string>& names,
                                     absl::Time end) {
  // Clients look at the names alone, so a long name need not be the subject.
  return certificates::Issue(
      authority.issued,
      {.common_name =
           names.front().size() <= kMaxCommonName ? names.front() : "",
       .names = names,
       .usage = certificates::Usage::kServer,
       .not_after = end});
}

absl::StatusOr<Issued> IssueToClient(const Authority& authority,
                                     const std::string& name, absl::Time end) {
  certificates::IssueOptions options = {.usage = certificates::Usage::kClient,
                                        .not_after = end};
  if (IsUri(name)) options.names = {name};
  // The subject of a long URI is empty.
  if (!IsUri(name) || name.size() <= kMaxCommonName) options.common_name = name;
  const absl::StatusOr<Issued> issued =
      certificates::Issue(authority.issued, options);
  if (!issued.ok()) return InContext("--client-name", issued.status());
  return issued;
}

// Files that are to be written, all or none.
class NewFiles {
 public:
  // The key comes first, so that a certificate is never without its key.
  void Add(const Paths& paths, const Issued& issued, Existing existing) {
    files_.push_back({paths.key, issued.key, certificates::kKeyMode, existing});
    files_.push_back({paths.certificate, issued.certificate,
                      certificates::kCertificateMode, existing});
  }

  // If it fails, removes the files that it has made; those that it has replaced
  // stay.
  absl::Status Write() const {
    std::vector<std::string> made;
    for (const File& file : files_) {
      const bool is_new = !Exists(file.path);
      const absl::Status status = certificates::WritePemFile(
          file.path, file.text, file.mode, file.existing);
      if (!status.ok()) {
        for (const std::string& each : made) unlink(each.c_str());
        return status;
      }
      if (is_new) made.push_back(file.path);
    }
    return absl::OkStatus();
  }

 private:
  struct File {
    std::string path;
    std::string text;
    mode_t mode;
    Existing existing;
  };
  std::vector<File> files_;
};

// Fails if a file of the server or the client exists.
absl::Status CheckFree(const std::string& folder) {
  std::vector<std::string> taken;
  for (const char* name : {kServer, kClient}) {
    const Paths paths(folder, name);
    for (const std::string& path : {paths.certificate, paths.key}) {
      if (Exists(path)) taken.push_back(path);
    }
  }
  if (taken.empty()) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      absl::StrJoin(taken, ", "), taken.size() == 1 ? " exists" : " exist",
      " already; --force replaces the files of the server and the client"));
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
}

// The flags of one side, as all programs take them.
void PrintFlags(const Paths& authority, const Paths& own) {
  std::cout << "  --tls_ca=" << authority.certificate
            << " --tls_cert=" << own.certificate << " --tls_key=" << own.key
            << "\n";
}

void PrintMade(const std::string& folder, const Authority& authority,
               const std::vector<std::string>& names,
               const std::string& client_name, absl::Time end) {
  const Paths ca(folder, kAuthority);
  const Paths server(folder, kServer);
  const Paths client(folder, kClient);
  const auto line = [](absl::string_view file, absl::string_view text) {
    std::cout << absl::StrFormat("  %-10s  %s\n", file, ShownLine(text));
  };
  std::cout << "made in " << folder
            << (authority.is_new ? "" : ", by the authority that was there")
            << ", valid until " << TimeText(end) << ":\n";
  if (authority.is_new) {
    line("ca.pem", authority.name + ", the authority; both sides need it");
    line("ca.key", "its key, which signs further certificates; keep it secret");
  }
  line("server.pem", "server " + absl::StrJoin(names, ", "));
  line("server.key", "its key");
  line("client.pem", "client " + client_name);
  line("client.key", "its key");
  std::cout << "\nflags of a server:\n";
  PrintFlags(ca, server);
  std::cout << "flags of a client:\n";
  PrintFlags(ca, client);
  std::cout << "If a client calls the server by another name, add "
               "--tls_server_name="
            << ShownLine(names.front())
            << ".\n`rdma_doctor` takes the same flags, and checks the files.\n";
}

}  // namespace

// Makes all in memory first, so that when the first file is there, only the
// file system can fail.
absl::Status MakeCerts(const CertsOptions& options) {
  if (options.folder.empty()) {
    return absl::InvalidArgumentError("the name of the folder is empty");
  }
  RETURN_IF_ERROR(CheckNames(options));
  if (!options.force) RETURN_IF_ERROR(CheckFree(options.folder));
  const std::vector<std::string> names = options.server_names.empty()
                                             ? DefaultServerNames()
                                             : options.server_names;
  const absl::Time wanted_end = absl::Now() + options.days * absl::Hours(24);
  const Paths ca(options.folder, kAuthority);
  ASSIGN_OR_RETURN(const Authority authority, FindAuthority(ca, wanted_end));
  // A peer refuses a certificate whose authority has expired.
  const absl::Time end = std::min(authority.end, wanted_end);
  ASSIGN_OR_RETURN(const Issued server, IssueToServer(authority, names, end));
  ASSIGN_OR_RETURN(const Issued client,
                   IssueToClient(authority, options.client_name, end));
  NewFiles files;
  if (authority.is_new) files.Add(ca, authority.issued, Existing::kKeep);
  const Existing existing =
      options.force ? Existing::kReplace : Existing::kKeep;
  files.Add(Paths(options.folder, kServer), server, existing);
  files.Add(Paths(options.folder, kClient), client, existing);
  if (mkdir(options.folder.c_str(), 0777) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, options.folder + " can't be made");
  }
  RETURN_IF_ERROR(files.Write());
  PrintMade(options.folder, authority, names, options.client_name, end);
  return absl::OkStatus();
}

}  // namespace verbena::tool
