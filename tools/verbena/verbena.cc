// Looks at, and calls, any server of Verbena from a terminal: see
// docs/verbena-tool.md.

#include <fcntl.h>

#include <cstddef>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/channel.h"
#include "rpc/channel_options.h"
#include "rpc/credentials/shared_secret.h"
#include "rpc/credentials/tls_files.h"
#include "rpc/resolvers/dns_resolver.h"
#include "tools/command_line/flag_values.h"
#include "tools/command_line/parse_flags.h"
#include "tools/command_line/tls_flags.h"
#include "tools/verbena/certs.h"
#include "tools/verbena/commands.h"
#include "transport/base/socket_address.h"
#include "transport/base/status_macros.h"

ABSL_FLAG(absl::Duration, timeout, absl::ZeroDuration(),
          "the deadline of each call; inf for none. 0 is the default: 10 s, "
          "and none for `health --watch` and for a stream whose requests come "
          "from standard input (--data=-)");
ABSL_FLAG(std::string, device, "",
          "the device to use: soft, or an RDMA device; default: the best");
ABSL_FLAG(std::vector<std::string>, proto, {},
          "FILE,...: .proto files with the services, by their paths below "
          "--import-dir; default: ask the server's reflection");
ABSL_FLAG(std::vector<std::string>, import_dir, {"."},
          "FOLDER,...: where .proto files and their imports are looked up, as "
          "by protoc's --proto_path");
ABSL_FLAG(
    std::string, data, "",
    "the request as JSON, instead of behind the method; @FILE reads a file, - "
    "standard input; for a method that takes a stream each line is a request");
ABSL_FLAG(std::string, attachment, "",
          "file with the attachment of the request");
ABSL_FLAG(std::string, response_attachment, "",
          "file to which the attachment of the response is written");
ABSL_FLAG(std::vector<std::string>, metadata, {},
          "KEY:VALUE,...: metadata to send with the call");
ABSL_FLAG(bool, verbose, false,
          "call: show the server's metadata, on standard error");
ABSL_FLAG(bool, watch, false,
          "health: go on and print every change; channel: go on, each second");
ABSL_FLAG(int, count, 10, "ping: how many calls");
ABSL_FLAG(std::string, secret_key, "", "name of the key of --secret-file");
ABSL_FLAG(std::string, secret_file, "",
          "file with the secret that the server and its clients share; white "
          "space at its ends is ignored");
ABSL_FLAG(std::vector<std::string>, server_name, {},
          "certs: NAME,...: DNS names and IP addresses of the server; default: "
          "localhost, 127.0.0.1, ::1 and the name of this host");
ABSL_FLAG(std::string, client_name, "client",
          "certs: the common name of the client; if it is a URI, such as "
          "spiffe://example.org/shop, the certificate also has the URI");
ABSL_FLAG(int, days, 30, "certs: how many days the certificates are valid");
ABSL_FLAG(bool, force, false,
          "certs: replace files of the server and the client");

namespace verbena::tool {
namespace {

// Ten years, which is long for a trial.
constexpr int kMaxDays = 3650;

constexpr char kUsageText[] =
    R"( looks at, and calls, any Verbena server.

  verbena list HOST:PORT [SERVICE]        services, or the methods of one
  verbena describe HOST:PORT NAME         a service, method or message
  verbena call HOST:PORT SERVICE/METHOD [JSON]
                                          a call, its request in JSON
  verbena health HOST:PORT [SERVICE]      whether it is serving (--watch)
  verbena ping HOST:PORT                  round trips (--count)
  verbena channel TARGET                  the servers of a service (--watch)
  verbena certs FOLDER                    certificates for trials of TLS

In place of HOST:PORT, TARGET may name a service, such as
dns:///shop.example:7471, file:///etc/shop/servers.json, or
ipv4:10.0.0.1:7471,10.0.0.2:7471.

Exit status: 0 done; 1 not serving; 2 the command line, the request or a file is
wrong; 64 plus the number of the status code if a call ended with an error, as
68 (DEADLINE_EXCEEDED) and 78 (UNAVAILABLE). --help lists all flags.
)";

// Uses credentials only if both flags of the secret are given.
absl::StatusOr<std::shared_ptr<Channel>> ChannelTo(const std::string& target) {
  ChannelOptions options;
  options.device = absl::GetFlag(FLAGS_device);
  options.resolvers.push_back(NewDnsResolvers());
  const std::string path = absl::GetFlag(FLAGS_secret_file);
  const std::string key = absl::GetFlag(FLAGS_secret_key);
  // A secret is of use only with the name of its key.
  if (path.empty() != key.empty()) {
    return absl::InvalidArgumentError(
        "--secret-file and --secret-key go together: one of them is empty");
  }
  if (path.empty()) {
    ASSIGN_OR_RETURN(std::shared_ptr<ChannelCredentials> credentials,
                     ChannelCredentialsFromFiles(TlsFilesOfFlags()));
    return CreateChannel(target, std::move(credentials), options);
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile("secret-file", path));
  return CreateChannel(
      target, SharedSecretCredentials(key, absl::StripAsciiWhitespace(text)),
      options);
}

// Whether the target has a scheme, of which the channel's calls tell.
bool NamesService(absl::string_view target) {
  return absl::StrContains(target, "://") ||
         absl::StartsWith(target, "ipv4:") || absl::StartsWith(target, "ipv6:");
}

// Takes the timeout from the flag, or the default of the command. A watch has
// none.
absl::StatusOr<Options> OptionsFor(const std::string& target, bool endless) {
  Options options;
  if (!NamesService(target)) {
    RETURN_IF_ERROR(base::SocketAddress::CheckForm(target));
  }
  ASSIGN_OR_RETURN(options.channel, ChannelTo(target));
  const absl::Duration timeout = absl::GetFlag(FLAGS_timeout);
  if (timeout < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--timeout is negative");
  }
  options.timeout_given = timeout > absl::ZeroDuration();
  if (options.timeout_given) {
    options.timeout = timeout;
  } else if (endless) {
    options.timeout = absl::InfiniteDuration();
  }
  options.proto_files = absl::GetFlag(FLAGS_proto);
  options.import_dirs = absl::GetFlag(FLAGS_import_dir);
  for (const std::string& pair : absl::GetFlag(FLAGS_metadata)) {
    const std::pair<std::string, std::string> split =
        absl::StrSplit(pair, absl::MaxSplits(':', 1));
    if (!absl::StrContains(pair, ':') || split.first.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--metadata: \"", pair, "\" is not KEY:VALUE"));
    }
    options.metadata.push_back(split);
  }
  return options;
}

// Returns the input of a call. Fails with INVALID_ARGUMENT if the request is
// given twice.
absl::StatusOr<CallInput> InputFor(const std::vector<std::string>& words) {
  CallInput input;
  input.data = absl::GetFlag(FLAGS_data);
  if (words.size() == 4) {
    if (!input.data.empty()) {
      return absl::InvalidArgumentError(
          "the request is given twice, behind the method and by --data; remove "
          "one");
    }
    input.data = words[3];
  }
  input.attachment = absl::GetFlag(FLAGS_attachment);
  input.response_attachment = absl::GetFlag(FLAGS_response_attachment);
  input.verbose = absl::GetFlag(FLAGS_verbose);
  return input;
}

// Whether a command line of `command` may have `words` words. The name of the
// command is one of them.
bool IsCommandLine(const std::string& command, size_t words) {
  if (command == "list" || command == "health") return words == 2 || words == 3;
  if (command == "describe") return words == 3;
  if (command == "call") return words == 3 || words == 4;
  return words == 2 &&
         (command == "ping" || command == "channel" || command == "certs");
}

// For errors of the command line, before anything was connected.
int Refuse(absl::string_view message) {
  std::cerr << "verbena: " << message << std::endl;
  return kUsage;
}

// Makes certificates, without any connection.
int Certs(std::string folder) {
  // So that "trial/" and "trial" print the same paths.
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  const int days = absl::GetFlag(FLAGS_days);
  absl::Status status = CheckNumber("days", days, 1, kMaxDays);
  if (status.ok()) {
    status = MakeCerts({.folder = folder,
                        .server_names = absl::GetFlag(FLAGS_server_name),
                        .client_name = absl::GetFlag(FLAGS_client_name),
                        .days = days,
                        .force = absl::GetFlag(FLAGS_force)});
  }
  return status.ok() ? kDone : Refuse(status.message());
}

// Checks the whole command line before it connects, so that a wrong flag costs
// no call.
int Run(const std::vector<std::string>& words) {
  const std::string command = words.empty() ? "" : words[0];
  if (!IsCommandLine(command, words.size())) {
    std::cerr << "verbena" << kUsageText;
    return kUsage;
  }
  if (command == "certs") return Certs(words[1]);
  const std::string name = words.size() > 2 ? words[2] : "";
  const bool watch = absl::GetFlag(FLAGS_watch);
  const int count = absl::GetFlag(FLAGS_count);
  if (count < 1) return Refuse("--count must be at least 1");
  const absl::StatusOr<CallInput> input = InputFor(words);
  if (!input.ok()) return Refuse(input.status().message());
  const absl::StatusOr<Options> options = OptionsFor(words[1], watch);
  if (!options.ok()) return Refuse(options.status().message());
  if (command == "list") return List(*options, name);
  if (command == "describe") return Describe(*options, name);
  if (command == "call") return Call(*options, name, *input);
  if (command == "health") return Health(*options, name, watch);
  if (command == "channel") return ShowChannel(*options, watch);
  return Ping(*options, count);
}

int Main(int argc, char** argv) {
  const CommandLine line = ReadCommandLine(
      argc, argv,
      {.name = "verbena", .about = kUsageText, .takes_words = true});
  return Run(line.words);
}

}  // namespace
}  // namespace verbena::tool

int main(int argc, char** argv) {
  // If a standard stream is closed, opens a descriptor that fails in its place.
  // Otherwise the first file or socket would get its number.
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    if (open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY) != stream) {
      return verbena::tool::kUsage;
    }
  }
  const int code = verbena::tool::Main(argc, argv);
  if (std::cout.flush()) return code;
  std::cerr << "verbena: standard output can't be written" << std::endl;
  return code == verbena::tool::kDone ? verbena::tool::kUsage : code;
}
