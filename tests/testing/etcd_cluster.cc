#include "tests/testing/etcd_cluster.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/util/json_util.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/socket_address.h"
#include "transport/base/status_macros.h"
#include "transport/base/unique_fd.h"

namespace verbena::testing_support {
namespace {

// Returns the program that `./dev test` has unpacked, or the installed one.
// Bazel links our sources into the folder that tests run in.
std::string EtcdProgram() {
  std::error_code error;
  const auto source =
      std::filesystem::canonical("tests/testing/etcd_cluster.h", error);
  const auto unpacked =
      source.parent_path().parent_path().parent_path() / ".etcd/usr/bin/etcd";
  return std::filesystem::exists(unpacked, error) ? unpacked.string()
                                                  : "/usr/bin/etcd";
}

// The process that has a folder stands behind this in its name.
constexpr char kFolderBegin[] = "verbena-etcd-";

// Longer than a cluster takes to elect a leader under a sanitizer.
constexpr absl::Duration kPatience = absl::Minutes(2);

// A transaction of ten thousand keys may take long on a busy machine.
constexpr timeval kAnswerPatience = {.tv_sec = 60, .tv_usec = 0};

absl::Status Failed(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// Returns a folder in memory, where there is room: each change waits for a disk
// of each member else. A member takes an eighth of a gigabyte.
std::string DataFolder() {
  constexpr uintmax_t kRoom = uintmax_t{2} << 30;
  std::error_code error;
  const auto space = std::filesystem::space("/dev/shm", error);
  return !error && space.available > kRoom ? "/dev/shm" : ::testing::TempDir();
}

// Removes what tests have left that were killed.
void RemoveLeftovers(const std::string& data) {
  std::error_code error;
  for (const auto& each : std::filesystem::directory_iterator(data, error)) {
    const std::string name = each.path().filename();
    pid_t pid = 0;
    if (absl::StartsWith(name, kFolderBegin) &&
        absl::SimpleAtoi(
            name.substr(sizeof(kFolderBegin) - 1,
                        name.rfind('-') - sizeof(kFolderBegin) + 1),
            &pid) &&
        kill(pid, 0) != 0 && errno == ESRCH) {
      std::filesystem::remove_all(each.path(), error);
    }
  }
}

// Keeps the ports busy until all are known, so that they differ.
std::vector<std::string> FreeAddresses(size_t count) {
  std::vector<base::UniqueFd> sockets;
  std::vector<std::string> addresses;
  while (addresses.size() < count) {
    auto address = base::SocketAddress::Loopback(AF_INET, 0);
    sockets.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK(bind(sockets.back().get(), address.get(), address.size()) == 0);
    socklen_t size = address.size();
    CHECK(getsockname(sockets.back().get(), address.mutable_get(), &size) == 0);
    addresses.push_back(address.ToString());
  }
  return addresses;
}

bool HasEnded(const ChildProcess& process) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(process.pid()), &info,
                WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0;
}

void PauseBetweenAttempts() { poll(nullptr, 0, /*timeout=*/5); }

std::string Base64(const std::string& text) {
  return absl::StrCat("\"", absl::Base64Escape(text), "\"");
}

std::string PutJson(const std::string& key, const std::string& value) {
  return absl::StrCat(R"({"key": )", Base64(key), R"(, "value": )",
                      Base64(value), "}");
}

const std::string& Text(const google::protobuf::Struct& json,
                        const std::string& name) {
  return json.fields().at(name).string_value();
}

}  // namespace

// HTTP/1.0: the answer ends with the connection, and is not cut into chunks.
absl::StatusOr<google::protobuf::Struct> PostJson(const std::string& address,
                                                  const std::string& path,
                                                  const std::string& body,
                                                  const std::string& token) {
  ASSIGN_OR_RETURN(const auto peer, base::SocketAddress::ParseNumeric(address));
  const base::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerPatience,
             sizeof(kAnswerPatience));
  if (connect(fd.get(), peer.get(), peer.size()) != 0) return Failed("connect");
  const std::string request = absl::StrCat(
      "POST ", path, " HTTP/1.0\r\nContent-Length: ", body.size(), "\r\n",
      token.empty() ? "" : absl::StrCat("Authorization: ", token, "\r\n"),
      "\r\n", body);
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t part = send(fd.get(), request.data() + sent,
                              request.size() - sent, MSG_NOSIGNAL);
    if (part <= 0) return Failed("send");
    sent += static_cast<size_t>(part);
  }
  std::string answer;
  std::array<char, 65536> part;
  for (;;) {
    const ssize_t received = recv(fd.get(), part.data(), part.size(), 0);
    if (received < 0) return Failed("recv");
    if (received == 0) break;
    answer.append(part.data(), static_cast<size_t>(received));
  }
  const size_t end = answer.find("\r\n\r\n");
  google::protobuf::Struct json;
  if (!absl::StartsWith(answer, "HTTP/1.0 200") || end == std::string::npos ||
      !google::protobuf::util::JsonStringToMessage(answer.substr(end), &json)
           .ok()) {
    return absl::InternalError(absl::StrCat(path, ": ", answer));
  }
  return json;
}

EtcdCluster::EtcdCluster(size_t members, std::vector<std::string> options,
                         Tls tls)
    : options_(std::move(options)), tls_(tls), members_(members) {
  const std::string data = DataFolder();
  RemoveLeftovers(data);
  // Somebody may take a port before etcd has it.
  do {
    for (Member& each : members_) each.process = nullptr;
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
    folder_ = absl::StrCat(data, "/", kFolderBegin, getpid(), "-XXXXXX");
    CHECK(mkdtemp(folder_.data()) != nullptr);
    if (tls_ == Tls::kOn) MakeCertificate();
  } while (!StartAll());
}

EtcdCluster::~EtcdCluster() {
  for (Member& each : members_) each.process = nullptr;
  std::filesystem::remove_all(folder_);
}

std::string EtcdCluster::ReadFile(const std::string& name) const {
  std::stringstream text;
  text << std::ifstream(absl::StrCat(folder_, "/", name)).rdbuf();
  return text.str();
}

void EtcdCluster::MakeCertificate() {
  const Ran made =
      RunToEnd({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                "/CN=etcd", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                folder_ + "/key.pem", "-out", folder_ + "/certificate.pem"});
  CHECK(made.exit_code == 0) << made.errors;
}

bool EtcdCluster::StartAll() {
  const std::vector<std::string> addresses = FreeAddresses(3 * members_.size());
  for (size_t i = 0; i < members_.size(); ++i) {
    members_[i].name = absl::StrCat("m", i);
    members_[i].address = addresses[3 * i];
    members_[i].peer_url = absl::StrCat("http://", addresses[3 * i + 1]);
    if (tls_ == Tls::kOn) members_[i].tls_address = addresses[3 * i + 2];
  }
  for (Member& each : members_) Start(each);
  for (Member& each : members_) {
    if (!AwaitService(each)) return false;
  }
  return true;
}

// The shell sends the log to a file, because nobody would read a pipe.
void EtcdCluster::Start(Member& member) {
  std::string url = absl::StrCat("http://", member.address);
  if (tls_ == Tls::kOn) absl::StrAppend(&url, ",https://", member.tls_address);
  const std::string log = absl::StrCat(folder_, "/", member.name, ".log");
  std::vector<std::string> command = {
      "/bin/sh", "-c", absl::StrCat("exec \"$0\" \"$@\" >>", log, " 2>&1"),
      EtcdProgram(), absl::StrCat("--name=", member.name),
      absl::StrCat("--data-dir=", folder_, "/", member.name),
      absl::StrCat("--listen-client-urls=", url),
      absl::StrCat("--advertise-client-urls=", url),
      absl::StrCat("--listen-peer-urls=", member.peer_url),
      absl::StrCat("--initial-advertise-peer-urls=", member.peer_url),
      absl::StrCat("--initial-cluster=",
                   absl::StrJoin(members_, ",",
                                 [](std::string* out, const Member& each) {
                                   absl::StrAppend(out, each.name, "=",
                                                   each.peer_url);
                                 })),
      // A new leader is there after a part of a second.
      "--heartbeat-interval=50", "--election-timeout=500",
      "--max-txn-ops=20000"};
  if (tls_ == Tls::kOn) {
    const std::string certificate = folder_ + "/certificate.pem";
    command.insert(
        command.end(),
        {"--cert-file=" + certificate, "--key-file=" + folder_ + "/key.pem",
         "--trusted-ca-file=" + certificate, "--client-cert-auth"});
  }
  command.insert(command.end(), options_.begin(), options_.end());
  member.process = std::make_unique<ChildProcess>(command);
}

bool EtcdCluster::AwaitService(Member& member) {
  const absl::Time deadline = base::Now() + kPatience;
  for (;;) {
    // A read to which the majority agrees.
    const auto read =
        PostJson(member.address, "/v3/kv/range", R"({"key": "AA=="})", token_);
    if (read.ok()) return true;
    if (HasEnded(*member.process)) return false;
    CHECK(base::Now() < deadline) << read.status();
    PauseBetweenAttempts();
  }
}

std::vector<std::string> EtcdCluster::addresses() const {
  std::vector<std::string> addresses;
  for (const Member& each : members_) addresses.push_back(each.address);
  return addresses;
}

std::string EtcdCluster::authority() const {
  return absl::StrJoin(addresses(), ",");
}

EtcdCluster::Json EtcdCluster::Do(const std::string& path,
                                  const std::string& body) {
  const absl::Time deadline = base::Now() + kPatience;
  for (;;) {
    for (const Member& each : members_) {
      if (each.process == nullptr || each.frozen) continue;
      auto json = PostJson(each.address, path, body, token_);
      if (json.ok()) return *std::move(json);
      CHECK(base::Now() < deadline) << json.status();
    }
    PauseBetweenAttempts();
  }
}

void EtcdCluster::Put(const std::string& key, const std::string& value) {
  Do("/v3/kv/put", PutJson(key, value));
}

void EtcdCluster::PutAll(const Pairs& pairs) {
  Do("/v3/kv/txn",
     absl::StrCat(R"({"success": [)",
                  absl::StrJoin(pairs, ",",
                                [](std::string* out, const auto& pair) {
                                  absl::StrAppend(
                                      out, R"({"request_put": )",
                                      PutJson(pair.first, pair.second), "}");
                                }),
                  "]}"));
}

void EtcdCluster::Delete(const std::string& key) {
  Do("/v3/kv/deleterange", absl::StrCat(R"({"key": )", Base64(key), "}"));
}

std::string EtcdCluster::Get(const std::string& key) {
  const Json json =
      Do("/v3/kv/range", absl::StrCat(R"({"key": )", Base64(key), "}"));
  if (!json.fields().contains("kvs")) return "";
  const auto& pair = json.fields().at("kvs").list_value().values(0);
  std::string value;
  CHECK(absl::Base64Unescape(Text(pair.struct_value(), "value"), &value));
  return value;
}

void EtcdCluster::Compact() {
  const Json json = Do("/v3/kv/range", R"({"key": "AA=="})");
  const auto& header = json.fields().at("header").struct_value();
  Do("/v3/kv/compaction", absl::StrCat(R"({"physical": true, "revision": )",
                                       Text(header, "revision"), "}"));
}

void EtcdCluster::RevokeLeases() {
  const Json json = Do("/v3/lease/leases", "{}");
  for (const auto& lease : json.fields().at("leases").list_value().values()) {
    Do("/v3/lease/revoke",
       absl::StrCat(R"({"ID": )", Text(lease.struct_value(), "ID"), "}"));
  }
}

void EtcdCluster::RequireUser(const std::string& user,
                              const std::string& password) {
  const std::string name_and_password = absl::StrCat(
      R"({"name": ")", user, R"(", "password": ")", password, R"("})");
  Do("/v3/auth/user/add", name_and_password);
  Do("/v3/auth/role/add", R"({"name": "root"})");
  Do("/v3/auth/user/grant",
     absl::StrCat(R"({"user": ")", user, R"(", "role": "root"})"));
  Do("/v3/auth/enable", "{}");
  token_ = Text(Do("/v3/auth/authenticate", name_and_password), "token");
}

size_t EtcdCluster::Leader() {
  const absl::Time deadline = base::Now() + kPatience;
  for (;;) {
    for (size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].process == nullptr || members_[i].frozen) continue;
      const auto json =
          PostJson(members_[i].address, "/v3/maintenance/status", "{}", token_);
      if (!json.ok() || !json->fields().contains("leader")) continue;
      const auto& header = json->fields().at("header").struct_value();
      if (Text(*json, "leader") == Text(header, "member_id")) return i;
    }
    CHECK(base::Now() < deadline) << "no leader";
    PauseBetweenAttempts();
  }
}

void EtcdCluster::Kill(size_t member) { members_[member].process = nullptr; }

void EtcdCluster::Restart(size_t member) {
  Start(members_[member]);
  CHECK(AwaitService(members_[member])) << "its port is taken";
}

void EtcdCluster::Freeze(size_t member) {
  members_[member].frozen = true;
  members_[member].process->Stop();
}

void EtcdCluster::Thaw(size_t member) {
  members_[member].frozen = false;
  members_[member].process->Signal(SIGCONT);
}

}  // namespace verbena::testing_support
