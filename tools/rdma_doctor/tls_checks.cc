#include "tools/rdma_doctor/tls_checks.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/certificates/describe.h"
#include "tools/certificates/verify.h"
#include "tools/rdma_doctor/tls_file_checks.h"

namespace verbena::doctor {
namespace {

using certificates::Owned;
using certificates::SubjectOf;

constexpr char kChain[] = "tls_chain";
constexpr char kName[] = "tls_name";
constexpr char kUsage[] = "tls_usage";

bool IsValidAt(X509* certificate, absl::Time now) {
  return certificates::BeginningOf(certificate) <= now &&
         now <= certificates::EndOf(certificate);
}

// The subjects of all certificates, for a message.
std::string SubjectsOf(const Certificates& all) {
  // A bundle of a system has more than a hundred.
  constexpr size_t kShown = 5;
  std::vector<std::string> subjects;
  for (const Owned<X509>& each : all) {
    if (subjects.size() == kShown) {
      subjects.push_back(absl::StrCat(all.size() - kShown, " more"));
      break;
    }
    subjects.push_back(SubjectOf(each.get()));
  }
  return absl::StrJoin(subjects, "; ");
}

void CheckChain(const TlsFiles& files, const Certificates& authorities,
                const Certificates& chain, absl::Time now, Findings* findings) {
  if (chain.empty()) return;
  if (files.ca.empty()) {
    findings->Add(
        Finding::note, kChain,
        "without --tls_ca the authority that peers trust is unknown",
        absl::StrCat("whether it has signed ", files.cert, " was not checked"));
    return;
  }
  if (authorities.empty()) return;
  // Other checks have looked at the times of these certificates, and at the
  // time of an authority that is alone. Only of several the chain tells which
  // has to be valid.
  const bool check_time =
      authorities.size() > 1 &&
      std::all_of(chain.begin(), chain.end(), [now](const Owned<X509>& each) {
        return IsValidAt(each.get(), now);
      });
  const certificates::Verdict verdict = certificates::Verify(
      authorities, chain, {.time = check_time ? now : absl::InfinitePast()});
  if (verdict.code == X509_V_OK) {
    findings->Ok(kChain, absl::StrCat(files.cert, " leads to ", verdict.subject,
                                      " in ", files.ca));
    return;
  }
  findings->Add(
      Finding::error, kChain,
      absl::StrCat(files.cert, " does not lead to an authority in ", files.ca,
                   ": ", verdict.subject, ": ", verdict.reason),
      absl::StrCat("peers with this --tls_ca refuse it; its issuer is ",
                   certificates::IssuerOf(chain.front().get()),
                   ", the file has ", SubjectsOf(authorities)),
      absl::StrCat("add the authority that signed it to ", files.ca,
                   ", or authorities between both to ", files.cert));
}

bool HasName(X509* certificate, const std::string& name) {
  return X509_check_ip_asc(certificate, name.c_str(), 0) == 1 ||
         X509_check_host(certificate, name.data(), name.size(),
                         X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, nullptr) == 1;
}

// Whether the certificate may be used at a side, X509_PURPOSE_SSL_SERVER or
// X509_PURPOSE_SSL_CLIENT, by its extensions.
bool IsFor(int purpose, X509* certificate) {
  return X509_check_purpose(certificate, purpose, 0) == 1;
}

void CheckServerName(const TlsFiles& files, const Certificates& chain,
                     Findings* findings) {
  const std::string& name = files.server_name;
  if (name.empty()) return;
  if (files.cert.empty()) {
    findings->Add(Finding::note, kName,
                  absl::StrCat("no certificate was compared with ", name),
                  "it must be among the names of the server's certificate");
    return;
  }
  if (chain.empty()) return;
  X509* const own = chain.front().get();
  if (HasName(own, name)) {
    findings->Ok(kName, absl::StrCat(files.cert, " is valid for ", name));
    return;
  }
  // The flags of a client name the server, too.
  if (!IsFor(X509_PURPOSE_SSL_SERVER, own) &&
      IsFor(X509_PURPOSE_SSL_CLIENT, own)) {
    findings->Add(Finding::note, kName,
                  absl::StrCat(files.cert,
                               " is a client's, so it was not "
                               "compared with ",
                               name),
                  "it must be among the names of the server's certificate");
    return;
  }
  const std::vector<std::string> names = certificates::NamesOf(own);
  findings->Add(
      Finding::error, kName,
      names.empty()
          ? absl::StrCat(files.cert, " has no names (subjectAltName), so not ",
                         name)
          : absl::StrCat(files.cert, " is not valid for ", name, ", but for ",
                         absl::StrJoin(names, ", ")),
      "clients that call the server by this name refuse it",
      absl::StrCat("verbena certs FOLDER --server-name=", name,
                   "   # or call the server by one of its names"));
}

// OpenSSL's purposes are those of TLS 1.2, too, where a server's key need not
// sign.
void CheckUsage(const TlsFiles& files, const Certificates& chain,
                Findings* findings) {
  if (chain.empty()) return;
  X509* const own = chain.front().get();
  const std::string look = absl::StrCat(
      "openssl x509 -noout -ext keyUsage,extendedKeyUsage -in ", files.cert);
  const bool server = IsFor(X509_PURPOSE_SSL_SERVER, own);
  const bool client = IsFor(X509_PURPOSE_SSL_CLIENT, own);
  // Without the extension every bit is set.
  if ((X509_get_key_usage(own) & KU_DIGITAL_SIGNATURE) == 0) {
    findings->Add(Finding::error, kUsage,
                  files.cert +
                      " may not sign: its keyUsage lacks "
                      "digitalSignature",
                  "TLS 1.3 proves by a signature who has the key, so peers may "
                  "refuse it",
                  look);
  } else if (!server && !client) {
    findings->Add(Finding::error, kUsage,
                  files.cert +
                      " is for neither servers nor clients: its "
                      "extendedKeyUsage has neither serverAuth nor "
                      "clientAuth",
                  "peers refuse it", look);
  } else if (!server && !files.server_name.empty() &&
             HasName(own, files.server_name)) {
    findings->Add(Finding::error, kUsage,
                  files.cert +
                      " is not for servers: its extendedKeyUsage "
                      "lacks serverAuth",
                  "clients refuse it", look);
  } else {
    findings->Ok(kUsage, absl::StrCat(files.cert, " is for ",
                                      !client   ? "servers"
                                      : !server ? "clients"
                                                : "servers and clients"));
  }
}

}  // namespace

void CheckTls(const TlsFiles& files, absl::Time now, Findings* findings) {
  const Certificates authorities = CheckAuthorities(files.ca, now, findings);
  const Certificates chain = CheckCertificates(files.cert, now, findings);
  CheckKey(files.key, files.cert, chain, findings);
  CheckChain(files, authorities, chain, now, findings);
  CheckServerName(files, chain, findings);
  CheckUsage(files, chain, findings);
}

}  // namespace verbena::doctor
