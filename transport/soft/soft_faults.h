// Breaks the software device on purpose, for tests of programs that use it:
// what a bad cable, a slow peer or a full queue do, at the moment a test
// chooses.
//
// Each function does one thing to one queue pair (or queue), until it is
// released or destroyed, and changes nothing that is sent: no byte is lost or
// altered without an error that says so. The functions are for queue pairs of
// type RC and UC of this process and this device; they abort for those of type
// UD, whose datagrams may be lost at any time anyway. Any thread may call them,
// at any time while the object lives. To fail verbs, completions and events of
// the connection manager, on this device or a NIC, see transport/faulty.

#ifndef VERBENA_TRANSPORT_SOFT_SOFT_FAULTS_H_
#define VERBENA_TRANSPORT_SOFT_SOFT_FAULTS_H_

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <functional>

namespace verbena::soft {

// The next three hold the link of a queue pair at this side: nothing that it
// has posted is sent, and nothing that its peer sends is taken. The messages of
// the connection manager still get through. A link may be held before it is
// there.

// As if the peer were slow, or its process stopped. Nobody gives up: requests
// of both sides wait, however long, and go on when the link is released.
void StallLink(ibv_qp* qp);

// As if the cable were cut. Requests of both sides that are not acknowledged
// end with IBV_WC_RETRY_EXC_ERR when `timeout` and `retry_cnt` of their queue
// pair are over (timeout 0: never). A link that is released before that has
// lost nothing.
void CutLink(ibv_qp* qp);

// The link moves in steps: a few packets each way, and then nothing for the
// time that `next_pause` returns. That is called with locks held and may not
// call verbs. A constant pause makes the link slow, a random one lets queue
// pairs overtake each other. Nobody gives up because of it.
void SlowLink(ibv_qp* qp, std::function<std::chrono::nanoseconds()> next_pause);

void ReleaseLink(ibv_qp* qp);

// As StallLink(), CutLink() and ReleaseLink(), but for all queue pairs that the
// process has now.
void StallAllLinks();
void CutAllLinks();
void ReleaseAllLinks();

// Takes a port of the process's device down or up: raises IBV_EVENT_PORT_ERR or
// PORT_ACTIVE. While it is down, all links whose path leads through it are as
// CutLink() has it, unless their queue pairs migrate. REQUIRES: the device has
// that port.
void TakePortDown(uint8_t port);
void BringPortUp(uint8_t port);

// The receiver is not ready: the next `times` messages that want a receive find
// none, whatever is posted. The sender tries again after `min_rnr_timer`,
// `rnr_retry` times, and then its request ends with IBV_WC_RNR_RETRY_EXC_ERR.
// On an unreliable connection such messages are lost.
inline constexpr uint32_t kUntilReleased = UINT32_MAX;
void ForceReceiverNotReady(ibv_qp* qp, uint32_t times);
void ReleaseReceiver(ibv_qp* qp);

// As if the queue had run full: it raises IBV_EVENT_CQ_ERR, its queue pairs
// enter the error state, and polling answers -EIO once what was in it has been
// taken. It stays so for good.
void ExhaustQueue(ibv_cq* cq);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_SOFT_FAULTS_H_
