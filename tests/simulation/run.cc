#include "tests/simulation/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tests/simulation/drop_channel.h"
#include "tests/simulation/options.h"
#include "transport/base/endpoint_options.h"
#include "transport/soft/soft_faults.h"

namespace verbena::simulation {
namespace {

using end_to_end::Inline;
using end_to_end::kReplySeed;
using end_to_end::Pattern;

// Time after its deadline in which a call must end: a tick of its poller, and
// the callbacks before its own.
constexpr absl::Duration kLate = absl::Milliseconds(5);
// In a harmless scenario, calls with at least this timeout succeed.
constexpr absl::Duration kAmple = absl::Milliseconds(50);
// Bound of waits that end by the timeouts above.
constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr uint64_t kFloorBytes = uint64_t{1} << 20;

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

transport::EndpointOptions ServerOptions(const Scenario& scenario) {
  auto options = CommonOptions<transport::EndpointOptions>();
  options.checksum = scenario.checksum;
  options.max_bulk_bytes = scenario.bulk_bytes;
  options.memory_floor_bytes = kFloorBytes;
  return options;
}

ChannelOptions ClientOptions(const Scenario& scenario,
                             const ChannelPlan& channel) {
  auto options = CommonOptions<ChannelOptions>();
  options.checksum = channel.checksum;
  options.max_arena_bytes = scenario.arena_bytes;
  options.connect_timeout = kKeepalive;
  options.revoke_leases = channel.revoke_leases;
  return options;
}

// Whether a call may end with `code` if client and server are correct. If the
// device loses messages, a peer may seem to break the protocol.
bool IsExpected(absl::StatusCode code, bool device_fails) {
  if (device_fails && code == absl::StatusCode::kInternal) return true;
  return code == absl::StatusCode::kOk ||
         code == absl::StatusCode::kCancelled ||
         code == absl::StatusCode::kDeadlineExceeded ||
         code == absl::StatusCode::kResourceExhausted ||
         code == absl::StatusCode::kUnavailable;
}

}  // namespace

Run::Run(World* world, const Scenario* scenario,
         const transport::FaultyProvider* faulty)
    : world_(*world),
      scenario_(*scenario),
      faulty_(*faulty),
      begin_(world->Now()),
      address_("127.0.0.1:0") {}

Run::~Run() = default;

void Run::StartServer() {
  if (server_ != nullptr) return;
  internal::ServerImpl::Options options;
  options.endpoint.endpoint = ServerOptions(scenario_);
  options.endpoint.addresses = {address_};
  options.endpoint.provider = &faulty_.provider();
  options.endpoint.wait = [this] { world_.Step(); };
  options.services = {&service_};
  absl::StatusOr<std::unique_ptr<internal::ServerImpl>> server =
      internal::ServerImpl::Start(options);
  if (!server.ok()) {
    // A fault of the device, or the one before has not let go of the port yet.
    ASSERT_FALSE(scenario_.harmless()) << server.status();
    world_.At(world_.Now() + absl::Milliseconds(1), [this] { StartServer(); });
    return;
  }
  server_ = *std::move(server);
  // Restarted, it is where it was.
  address_ = server_->listening().front().address;
  world_.Add(&server_->endpoint());
}

void Run::StopServer() {
  // Taken out first: what Shutdown() waits for may start the next one.
  const std::unique_ptr<internal::ServerImpl> server = std::move(server_);
  if (server == nullptr) return;
  world_.LookEverywhere();
  server->Shutdown(world_.Now() + absl::Milliseconds(10));
  world_.Remove(&server->endpoint());
}

void Run::DropChannel(size_t index) {
  if (channels_[index] == nullptr) return;
  DropInCallback(std::move(channels_[index]), [this] { --channels_left_; });
}

void Run::StartCall(const CallPlan& plan) {
  const std::shared_ptr<Channel>& channel = channels_[plan.channel];
  if (channel == nullptr) return;
  const size_t index = calls_.size();
  Call* const call =
      calls_.emplace_back(std::make_unique<Call>(&plan, index)).get();
  call->context.set_timeout(plan.timeout);
  call->context.set_wait_for_ready(plan.wait_for_ready);
  call->request.set_payload(Pattern(plan.request_bytes, index));
  call->request.set_reply_bytes(plan.reply_bytes);
  call->request.set_reply_attachment_bytes(plan.reply_attachment_bytes);
  if (plan.request_attachment_bytes > 0) {
    const std::string bytes = Pattern(plan.request_attachment_bytes, index);
    Buffer buffer = channel->AllocateBuffer(bytes.size());
    std::copy(bytes.begin(), bytes.end(), buffer.span().begin());
    call->context.set_request_attachment(std::move(buffer));
  }
  Inline::NewStub(channel)->async()->Echo(
      &call->context, &call->request, &call->reply,
      [this, call](const absl::Status& status) { OnEnd(call, status); });
  if (plan.cancel < absl::InfiniteDuration()) {
    world_.At(world_.Now() + plan.cancel,
              [call] { call->context.TryCancel(); });
  }
}

void Run::OnEnd(Call* call, const absl::Status& status) {
  absl::StrAppend(&trace_, call->index, " ",
                  absl::ToInt64Nanoseconds(world_.Now() - begin_), " ",
                  absl::StatusCodeToString(status.code()), "\n");
  EXPECT_EQ(++call->ends, 1);
  EXPECT_LE(world_.Now(), call->due() + kLate) << status;
  EXPECT_TRUE(IsExpected(status.code(), scenario_.fault_seed != 0)) << status;
  if (absl::IsDeadlineExceeded(status)) {
    EXPECT_GE(world_.Now(), call->due());
  }
  if (status.ok()) ExpectReply(call);
  const CallPlan& plan = *call->plan;
  if (scenario_.harmless() && plan.timeout >= kAmple &&
      plan.cancel == absl::InfiniteDuration()) {
    // Attachments of calls that wait may hold all of the smallest arenas.
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
  }
  // Attachments that the application keeps hold memory that other calls need.
  call->context.TakeRequestAttachment();
  call->context.TakeResponseAttachment();
}

void Run::ExpectReply(Call* call) {
  const CallPlan& plan = *call->plan;
  EXPECT_TRUE(call->reply.payload() ==
              (plan.reply_bytes == 0 ? call->request.payload()
                                     : Pattern(plan.reply_bytes, kReplySeed)));
  const std::string attachment =
      plan.reply_attachment_bytes > 0
          ? Pattern(plan.reply_attachment_bytes, kReplySeed)
          : Pattern(plan.request_attachment_bytes, call->index);
  EXPECT_TRUE(
      absl::c_equal(call->context.response_attachment(), Bytes(attachment)));
}

void Run::Begin(const Trouble& trouble) {
  switch (trouble.kind) {
    case Trouble::Kind::kCut:
      return soft::CutAllLinks();
    case Trouble::Kind::kStall:
      return soft::StallAllLinks();
    case Trouble::Kind::kRestart:
      return StopServer();
    case Trouble::Kind::kDropChannel:
      return DropChannel(trouble.channel);
  }
}

void Run::End(const Trouble& trouble) {
  switch (trouble.kind) {
    case Trouble::Kind::kCut:
    case Trouble::Kind::kStall:
      return soft::ReleaseAllLinks();
    case Trouble::Kind::kRestart:
      return StartServer();
    case Trouble::Kind::kDropChannel:
      return;
  }
}

bool Run::AllEnded() const {
  return std::all_of(
      calls_.begin(), calls_.end(),
      [](const std::unique_ptr<Call>& call) { return call->ends > 0; });
}

void Run::ExpectAllGivenBack() {
  // Unused bulk memory is given back while the connections live.
  if (scenario_.harmless()) {
    EXPECT_TRUE(world_.RunUntil(
        [this] { return server_->endpoint().bulk_bytes() <= kFloorBytes; },
        world_.Now() + kPatience))
        << server_->endpoint().bulk_bytes();
  }
  for (size_t i = 0; i < channels_.size(); ++i) DropChannel(i);
  EXPECT_TRUE(world_.RunUntil([this] { return channels_left_ == 0; },
                              world_.Now() + kPatience));
  if (server_ != nullptr) {
    EXPECT_TRUE(world_.RunUntil(
        [this] { return server_->endpoint().connection_count() == 0; },
        world_.Now() + kPatience));
  }
  StopServer();
  EXPECT_EQ(faulty_.objects(), 0u);
}

void Run::Execute() {
  StartServer();
  for (const ChannelPlan& plan : scenario_.channels) {
    channels_.push_back(
        CreateChannel(address_, ClientOptions(scenario_, plan)));
    ++channels_left_;
  }
  absl::Duration end = absl::Milliseconds(1);
  for (const CallPlan& plan : scenario_.calls) {
    world_.At(begin_ + plan.start, [this, &plan] { StartCall(plan); });
    end = std::max(end, plan.start + plan.timeout);
  }
  for (const Trouble& trouble : scenario_.troubles) {
    world_.At(begin_ + trouble.start, [this, &trouble] { Begin(trouble); });
    end = std::max(end, trouble.start + trouble.length);
    world_.At(begin_ + trouble.start + trouble.length,
              [this, &trouble] { End(trouble); });
  }
  // Everything has begun by then, and all that was put off.
  world_.RunUntil([] { return false; }, begin_ + end + absl::Milliseconds(2));
  EXPECT_TRUE(
      world_.RunUntil([this] { return AllEnded(); }, begin_ + end + kLate));
  ExpectAllGivenBack();
}

}  // namespace verbena::simulation
