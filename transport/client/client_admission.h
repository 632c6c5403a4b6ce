// How a client is let in: from the HELLO to the WELCOME.

#ifndef VERBENA_TRANSPORT_CLIENT_CLIENT_ADMISSION_H_
#define VERBENA_TRANSPORT_CLIENT_CLIENT_ADMISSION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/credentials.h"
#include "transport/session/connection.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"
#include "transport/wire/server_addresses.h"

namespace verbena::transport {

// Says HELLO, shows credentials, and handles what the server answers. Poller
// thread only.
class ClientAdmission {
 public:
  // `connection` must outlive it, and may still be under construction.
  explicit ClientAdmission(Connection& connection) : connection_(connection) {}
  ClientAdmission(const ClientAdmission&) = delete;
  ClientAdmission& operator=(const ClientAdmission&) = delete;

  // The server answered `request` with `reply`: sends HELLO.
  absl::Status Begin(const ConnectRequest& request, const ConnectReply& reply);
  // Handles a frame that came before the WELCOME had. Returns whether that has
  // opened the connection.
  bool Handle(absl::Span<const uint8_t> frame);
  bool wants_method_names() const { return wants_method_names_; }
  const ServerAddresses& server_addresses() const { return server_addresses_; }

  void Tick(absl::Time now) {
    if (now >= next_nudge_) Nudge(now);
  }
  absl::Time NextTick() const { return next_nudge_; }

 private:
  void HandleCredentials(absl::Span<const uint8_t> frame);
  bool HandleWelcome(absl::Span<const uint8_t> frame);
  // OK unless the server must show more than that.
  absl::Status CheckServer(const std::vector<HelloOption>& server_options);
  // OK unless the sides do not agree on checksums.
  absl::Status AgreeOnSums(const std::vector<HelloOption>& server_options);
  // OK unless what the server says of its addresses is malformed.
  absl::Status NoteAddresses(const std::vector<HelloOption>& server_options);
  absl::Status Send(FrameType type, absl::string_view body);
  void Nudge(absl::Time now);

  // On iWARP: when Nudge() is due, and the pause until the next time. Most
  // servers have answered before the first time.
  static constexpr absl::Duration kFirstNudge = absl::Milliseconds(5);
  static constexpr absl::Duration kLongestNudge = absl::Seconds(1);

  Connection& connection_;
  absl::Time next_nudge_ = absl::InfiniteFuture();
  absl::Duration nudge_pause_ = kFirstNudge;
  bool wants_method_names_ = false;   // The server's WELCOME said so.
  ServerAddresses server_addresses_;  // Empty unless the WELCOME has some.
  // Until the WELCOME; null if this side has no credentials.
  std::unique_ptr<ClientHandshake> handshake_;
  std::string hellos_;  // The handshake is bound to them.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_CLIENT_ADMISSION_H_
