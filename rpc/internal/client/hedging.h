// Calls that go to a further server before the first has answered.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_HEDGING_H_
#define VERBENA_RPC_INTERNAL_CLIENT_HEDGING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/internal/client/picked_server.h"
#include "rpc/internal/service/service_config.h"
#include "rpc/metadata.h"
#include "transport/client/client_call.h"
#include "transport/client/client_connection.h"
#include "transport/polling/task.h"

namespace verbena::internal {

// The further attempts of a unary call with a hedging policy (gRPC's proposal
// A6). The call itself is the first attempt. The first good answer ends the
// call, and so does an error that the policy does not name. The other attempts
// are cancelled then, and only when their connections have let go of them does
// the call tell of its end, because they read its request.
//
// All functions REQUIRE the poller's ownership.
class Hedge {
 public:
  // The call, as its hedge sees it.
  class Owner {
   public:
    // A connection for a further attempt, to a server of `avoided` only if
    // there is no other. Null: `*why_not` is not OK if the call is not to wait
    // for one.
    virtual Picked PickForHedge(absl::Span<PickedServer* const> avoided,
                                absl::Status* why_not) = 0;
    // Whether the failures of late allow a further attempt. `failed`: one has
    // just failed, and counts.
    virtual bool HedgesAllowed(bool failed) = 0;
    // Has OnTime() called at `time`, or at the deadline. Returns false if that
    // will not happen, because the channel ends.
    virtual bool WakeHedgeAt(absl::Time time) = 0;
    // Has `task`, which calls SettleHedge(), run soon.
    virtual void PostHedge(transport::Task* task) = 0;
    // Calls Settle(); the call may tell of its end afterwards.
    virtual void SettleHedge() = 0;
    // Has the connection of the call's own attempt let go of it.
    virtual void CancelFirst(const absl::Status& why) = 0;
    virtual const transport::ClientCall::Request& HedgedRequest() const = 0;
    // The head of a request that had `previous` attempts before it, with the
    // method's name if `named`.
    virtual absl::Status WriteHedgeHead(int previous, bool named,
                                        std::string* head) const = 0;
    // Writes the message.
    virtual void WriteHedgeBody(uint8_t* out) = 0;
    // An attempt at `connection` has the answer of the call.
    virtual void TakeHedgeResponse(transport::ClientConnection* connection,
                                   absl::Span<const uint8_t> initial_metadata,
                                   const transport::CallResponse& response) = 0;
    // The last attempt that was open has ended with `status`.
    virtual void TakeHedgeFailure(const absl::Status& status) = 0;

   protected:
    ~Owner() = default;
  };

  // `policy` is part of `config`.
  Hedge(Owner* owner, std::shared_ptr<const ServiceConfig> config,
        const HedgingPolicy* policy)
      : owner_(*owner),
        config_(std::move(config)),
        policy_(*policy),
        settle_(owner) {}
  Hedge(const Hedge&) = delete;
  Hedge& operator=(const Hedge&) = delete;

  // The call's own attempt begins at `server`, which may be null.
  void OnFirstBegun(PickedServer* server);
  // The call's own attempt has an answer. Returns whether that counts: not
  // after End().
  bool OnFirstResponse();
  // The call's own attempt has ended with an error. `unsent`: no server has
  // seen it. Returns whether the call goes on, or has ended before.
  bool OnFirstFailed(const absl::Status& status, const Metadata& trailing,
                     bool unsent);

  // The time has come for a further attempt.
  void OnTime(absl::Time now);
  // There are to be no further attempts, because of `status`.
  void Stop(const absl::Status& status);

  // The call has its status. Returns whether it may tell of it at once. If not,
  // SettleHedge() is to come.
  bool End();
  // Cancels the attempts that are open.
  void Settle();
  // Whether SettleHedge() is to come.
  bool settling() const { return settling_; }
  // Whether the call's own attempt counts no more.
  bool decided() const { return decided_; }
  // Whether an attempt that a server has refused unprocessed may be made anew.
  // True once a call: a server that always refuses would be asked for ever.
  bool MayResend() { return !std::exchange(resent_, true); }

 private:
  class SettleTask final : public transport::Task {
   public:
    explicit SettleTask(Owner* owner) : owner_(*owner) {}
    void Run() override { owner_.SettleHedge(); }

   private:
    Owner& owner_;
  };

  // A further attempt.
  class Attempt final : public transport::ClientCall {
   public:
    Attempt(Hedge* hedge, const Picked& picked)
        : hedge_(*hedge), picked_(picked) {}

    // Fails if its head can't be written.
    absl::Status Prepare(int previous);
    void Start() {
      attempt_.Begin(picked_.server, /*timed=*/true);
      picked_.connection->Start(this);
    }
    void Cancel(const absl::Status& why) {
      picked_.connection->Cancel(this, why);
    }

    // As ClientCall.
    void WriteRequest(uint8_t* out) override;
    absl::Status OnInitialMetadata(absl::Span<const uint8_t> metadata) override;
    void OnResponse(const transport::CallResponse& response) override;
    void OnUnsent(const absl::Status& why) override;
    void OnFailed(const absl::Status& status) override;

   private:
    Hedge& hedge_;
    const Picked picked_;
    PickedServer::Attempt attempt_;
    std::string head_;
    std::vector<uint8_t> initial_metadata_;
  };

  // Whether a connection has an attempt.
  bool open() const { return first_open_ || !open_.empty(); }
  // Has a further attempt begin at `time`, if there may be one.
  void Schedule(absl::Time time);
  void Forget(const Attempt* attempt);
  // The call ends with `status`.
  void Fail(const absl::Status& status);
  // An attempt has ended. Tells the owner if it was the last one.
  void OnAttemptFailed(const Attempt* attempt, const absl::Status& status,
                       const Metadata& trailing, bool unsent);
  // Whether others are open or will be, after a failure that may be one of
  // many.
  bool Continue(const Metadata& trailing, bool unsent);

  Owner& owner_;
  const std::shared_ptr<const ServiceConfig> config_;  // Has the policy.
  const HedgingPolicy& policy_;
  SettleTask settle_;
  // Where attempts were made. They may be gone.
  std::vector<PickedServer*> tried_;
  int begun_ = 0;
  bool first_open_ = false;
  bool scheduled_ = false;
  bool stopped_ = false;  // No further attempts: a server has said so.
  bool resent_ = false;   // See MayResend().
  bool settling_ = false;
  bool decided_ = false;  // An attempt's end is that of the call.
  bool ended_ = false;
  // Those that a connection has. Attempts that have ended stay in spent_,
  // because they may be in the middle of a function.
  std::vector<std::unique_ptr<Attempt>> open_;
  std::vector<std::unique_ptr<Attempt>> spent_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_HEDGING_H_
