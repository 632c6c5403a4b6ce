#include "tools/rdma_doctor/tls_file_checks.h"

#include <openssl/err.h>
#include <openssl/objects.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/certificates/describe.h"
#include "tools/certificates/pem_files.h"

namespace verbena::doctor {
namespace {

using certificates::Owned;
using certificates::PemFile;
using certificates::SubjectOf;

constexpr char kCa[] = "tls_ca";
constexpr char kCert[] = "tls_cert";
constexpr char kKey[] = "tls_key";

// The time before the end in which a certificate should be replaced.
constexpr absl::Duration kSoon = absl::Hours(7 * 24);
// The least strength that OpenSSL accepts on Debian and Ubuntu (its level 2).
// RSA of 2048 bits and P-224 have it; SHA-1 has not.
constexpr int kSecurityBits = 112;

constexpr char kNoStart[] = "a program with these flags cannot start TLS";
constexpr char kMakeOne[] =
    "verbena certs FOLDER   # makes new ones, for trials";

// Returns `elapsed` in its largest unit of which there are two at least.
std::string Rounded(absl::Duration elapsed) {
  const int64_t minutes = absl::ToInt64Minutes(elapsed);
  if (minutes >= 2 * 24 * 60) return absl::StrCat(minutes / (24 * 60), " days");
  if (minutes >= 2 * 60) return absl::StrCat(minutes / 60, " hours");
  return absl::StrCat(minutes, " minutes");
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
}

// "trial/ca.pem: CN=Shop CA", for the beginning of a message.
std::string Title(const std::string& path, X509* certificate) {
  return absl::StrCat(path, ": ", SubjectOf(certificate));
}

bool SignsItself(X509* certificate) {
  return (X509_get_extension_flags(certificate) & EXFLAG_SS) != 0;
}

// Adds an error and returns nothing if the file cannot be read.
std::optional<PemFile> Read(const char* check, const std::string& path,
                            Findings* findings) {
  absl::StatusOr<PemFile> file = certificates::ReadPemFile(path);
  if (file.ok()) return *std::move(file);
  std::string mend = absl::StrCat("file ", path);
  if (absl::IsNotFound(file.status())) {
    mend = absl::StrCat(kMakeOne, "; else correct --", check);
  } else if (absl::IsPermissionDenied(file.status())) {
    mend = absl::StrCat("id; namei -l ", path,
                        "   # then chown, or run this as the user of the "
                        "server");
  }
  findings->Add(Finding::error, check, std::string(file.status().message()),
                kNoStart, mend);
  return std::nullopt;
}

// Returns no certificates if it has added an error, or there is no path.
Certificates ReadAll(const char* check, const std::string& path,
                     Findings* findings) {
  if (path.empty()) return {};
  const std::optional<PemFile> file = Read(check, path, findings);
  if (!file.has_value()) return {};
  absl::StatusOr<Certificates> read =
      certificates::ReadCertificates(file->text);
  if (read.ok()) return *std::move(read);
  findings->Add(
      Finding::error, check, absl::StrCat(path, ": ", read.status().message()),
      kNoStart,
      absl::StrCat("head ", path, "; openssl x509 -noout -in ", path));
  return {};
}

// Adds a finding if the certificate is not valid now, or will soon not be.
// Returns whether it added one. `level` is that of a certificate that is not
// valid.
bool CheckTimes(const char* check, const std::string& path, X509* certificate,
                absl::Time now, Finding::Level level, Findings* findings) {
  const std::string title = Title(path, certificate);
  const absl::Time beginning = certificates::BeginningOf(certificate);
  const absl::Time end = certificates::EndOf(certificate);
  const std::string refused =
      "peers refuse it; the clock of this machine says " + TimeText(now);
  if (now < beginning) {
    findings->Add(
        level, check,
        absl::StrCat(title, " is not valid before ", TimeText(beginning),
                     ", in ", Rounded(beginning - now)),
        refused,
        "timedatectl   # is this clock right, and that of the "
        "machine that made it?");
    return true;
  }
  if (now > end) {
    findings->Add(level, check,
                  absl::StrCat(title, " has expired ", Rounded(now - end),
                               " ago, on ", TimeText(end)),
                  refused, kMakeOne);
    return true;
  }
  if (end - now > kSoon) return false;
  findings->Add(Finding::warning, check,
                absl::StrCat(title, " expires in ", Rounded(end - now), ", on ",
                             TimeText(end)),
                "peers refuse it from then on", kMakeOne);
  return true;
}

// Adds a finding for a key and a signature that TLS refuses. Returns whether it
// added one.
bool CheckStrength(const char* check, const std::string& path,
                   X509* certificate, Finding::Level level,
                   Findings* findings) {
  constexpr char kMeaning[] =
      "peers refuse it: OpenSSL on Debian and Ubuntu wants 112 bits of "
      "security";
  bool found = false;
  const EVP_PKEY* const key = X509_get0_pubkey(certificate);
  if (key == nullptr || EVP_PKEY_get_security_bits(key) < kSecurityBits) {
    findings->Add(level, check,
                  absl::StrCat(Title(path, certificate), " has a weak key: ",
                               certificates::KeyTextOf(certificate)),
                  kMeaning, kMakeOne);
    found = true;
  }
  // Nobody checks the signature of a certificate that is trusted as it is.
  int bits = 0;
  if (!SignsItself(certificate) &&
      (X509_get_signature_info(certificate, nullptr, nullptr, &bits, nullptr) !=
           1 ||
       bits < kSecurityBits)) {
    findings->Add(
        level, check,
        absl::StrCat(Title(path, certificate), " has a weak signature: ",
                     OBJ_nid2ln(X509_get_signature_nid(certificate))),
        kMeaning, kMakeOne);
    found = true;
  }
  return found;
}

// Adds that the key is not that of the first certificate.
void AddForeignKey(const std::string& path, EVP_PKEY* key,
                   const std::string& cert, const Certificates& chain,
                   Findings* findings) {
  const bool has_another =
      std::any_of(chain.begin(), chain.end(), [key](const Owned<X509>& each) {
        return X509_check_private_key(each.get(), key) == 1;
      });
  findings->Add(
      Finding::error, "tls_key",
      absl::StrCat(path, " is not the key of the ",
                   chain.size() > 1 ? "first " : "", "certificate in ", cert,
                   ", ", SubjectOf(chain.front().get())),
      kNoStart,
      has_another
          ? absl::StrCat("put the certificate of the key first in ", cert)
          : absl::StrCat("openssl x509 -noout -pubkey -in ", cert,
                         "; openssl pkey -pubout -in ", path,
                         "   # must print the same"));
}

}  // namespace

// If one authority of several is of no use, that is a warning, because a file
// may have old ones.
Certificates CheckAuthorities(const std::string& path, absl::Time now,
                              Findings* findings) {
  Certificates all = ReadAll(kCa, path, findings);
  if (all.empty()) return all;
  const Finding::Level level =
      all.size() == 1 ? Finding::error : Finding::warning;
  bool found = false;
  for (const Owned<X509>& each : all) {
    found |= CheckTimes(kCa, path, each.get(), now, level, findings);
    found |= CheckStrength(kCa, path, each.get(), level, findings);
    if (X509_check_ca(each.get()) != 0) continue;
    // OpenSSL trusts it all the same, for itself.
    findings->Add(Finding::warning, kCa,
                  Title(path, each.get()) +
                      " is not the certificate of an authority (CA:FALSE)",
                  "peers trust this certificate, but none that it signs",
                  kMakeOne);
    found = true;
  }
  if (found) return all;
  X509* const first =
      std::min_element(all.begin(), all.end(),
                       [](const Owned<X509>& a, const Owned<X509>& b) {
                         return certificates::EndOf(a.get()) <
                                certificates::EndOf(b.get());
                       })
          ->get();
  const std::string left = Rounded(certificates::EndOf(first) - now);
  findings->Ok(kCa, all.size() == 1
                        ? absl::StrCat(Title(path, first), ", valid for ", left)
                        : absl::StrCat(path, ": ", all.size(),
                                       " authorities, all valid for ", left));
  return all;
}

Certificates CheckCertificates(const std::string& path, absl::Time now,
                               Findings* findings) {
  Certificates chain = ReadAll(kCert, path, findings);
  if (chain.empty()) return chain;
  bool found = false;
  for (const Owned<X509>& each : chain) {
    found |= CheckTimes(kCert, path, each.get(), now, Finding::error, findings);
    found |= CheckStrength(kCert, path, each.get(), Finding::error, findings);
  }
  if (found) return chain;
  X509* const own = chain.front().get();
  const std::vector<std::string> names = certificates::NamesOf(own);
  findings->Ok(kCert,
               absl::StrCat(Title(path, own), ", ",
                            names.empty() ? "without names"
                                          : "for " + absl::StrJoin(names, ", "),
                            "; ", certificates::KeyTextOf(own), ", valid for ",
                            Rounded(certificates::EndOf(own) - now)));
  return chain;
}

void CheckKey(const std::string& path, const std::string& cert,
              const Certificates& chain, Findings* findings) {
  if (path.empty()) return;
  const std::optional<PemFile> file = Read(kKey, path, findings);
  if (!file.has_value()) return;
  bool found =
      CheckKeyAccess(path, file->mode, file->owner, geteuid(), findings);
  const absl::StatusOr<Owned<EVP_PKEY>> key =
      certificates::ReadPrivateKey(file->text);
  if (!key.ok()) {
    findings->Add(Finding::error, kKey,
                  absl::StrCat(path, ": ", key.status().message()), kNoStart,
                  absl::StrCat("openssl pkey -in ", path,
                               " -out NEW   # asks for a password, if it has "
                               "one"));
    return;
  }
  // Without a certificate there is an error already.
  if (chain.empty()) return;
  if (X509_check_private_key(chain.front().get(), key->get()) != 1) {
    AddForeignKey(path, key->get(), cert, chain, findings);
    found = true;
  }
  ERR_clear_error();
  if (!found) {
    findings->Ok(kKey, absl::StrFormat("%s: the key of the certificate, mode "
                                       "%04o",
                                       path, file->mode));
  }
}

// Root may own a key that the server, as another user, reads by its group. So
// Kubernetes mounts secrets, and Debian has the group ssl-cert.
bool CheckKeyAccess(const std::string& path, mode_t mode, uid_t owner,
                    uid_t self, Findings* findings) {
  constexpr char kMeaning[] =
      "whoever has the key can pose as this side of a connection";
  const std::string seen = absl::StrFormat("%s has mode %04o: ", path, mode);
  bool found = true;
  if ((mode & (S_IROTH | S_IWOTH | S_IWGRP)) != 0) {
    findings->Add(
        Finding::error, kKey,
        absl::StrCat(seen, "others may ",
                     (mode & S_IROTH) != 0 ? "read" : "change", " the key"),
        kMeaning, "chmod 600 " + path);
  } else if ((mode & S_IRGRP) != 0) {
    findings->Add(Finding::warning, kKey, seen + "its group may read the key",
                  kMeaning,
                  absl::StrCat("chmod 600 ", path,
                               "   # unless nobody else is in the group"));
  } else {
    found = false;
  }
  if (owner == self || owner == 0) return found;
  findings->Add(Finding::warning, kKey,
                absl::StrCat(path, " belongs to user ", owner,
                             ", and this process to user ", self),
                "that user can read and replace the key",
                absl::StrCat("chown ", self, " ", path,
                             "   # or run this as the user of the server"));
  return true;
}

}  // namespace verbena::doctor
